//! `docker swarmstats ring`: who is on the ring and how they do, where a key belongs, what a change would move, and whether
//! members see the same.
//!
//! The documents are a router's (`/v1/ring`); here they are only laid out. A member that does not answer is shown as such.

mod grid;
mod seen;

use crate::cli::args::Target;
use crate::cli::client::{self, encoded};
use crate::cli::docker::Docker;
use crate::cli::format::{ABSENT, printable};
use crate::cli::hosts::{self, Host};
use crate::cli::screen::Screen;
use crate::cli::table::Line;
use clap::{Args, Subcommand, ValueEnum};
use grid::{figures, note, words};
use hyper::StatusCode;
use seen::{Ring, difference};

pub(super) const HELP: &str = "\
SHARE is of the shards, as primary; COPIES counts all copies. EMITS: tasks whose series the member exports now.
SAMPLES/S: task samples taken in, mean of the last minute (since its start, if that is
less). What does not agree is said below the table.
A key belongs to its OWNERS, of which the first that answers emits it; RESERVE takes over from an owner that drains.

Examples:
  docker swarmstats ring                        the members, as the router asked sees them
  docker swarmstats ring where web.3            who owns and who emits a task; also a service or a node
  docker swarmstats ring plan +1                what one more collector would move; -1, +NAME, -NAME
  docker swarmstats ring diff                   does every member see the same as the router?
  docker swarmstats ring diff c1 c2             what two members see differently
  docker swarmstats ring --format json | jq -r '.members[] | select(.state != \"active\") | .id'

Exit status:
  0   told, and all members answer and agree (of diff: no difference)
  1   no router there, or no answer that could be used
  2   no such task, service, node or member
  3   told, but a member does not answer, or it or a shipper sees another ring
  64  the command line was not understood";

#[derive(Args)]
pub(super) struct Flags {
    #[command(subcommand)]
    what: Option<What>,
    /// How it is told
    #[arg(id = "ring_format", long = "format", value_enum, value_name = "table|json")]
    #[arg(hide_possible_values = true, default_value = "table", global = true)]
    format: Format,
    /// Any router's address, http://HOST[:PORT]
    #[arg(id = "ring_host", long = "host", env = "SWARMSTATS_HOST", value_name = "URL", global = true)]
    host: Option<Host>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// What is asked of the ring.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum What {
    /// The owners of a task, of a service's tasks, or of a node's row
    Where {
        /// A task, service or node, by id or name
        name: String,
    },
    /// What another membership would move
    Plan {
        /// +N or -N members, +NAME, -NAME
        #[arg(allow_hyphen_values = true)]
        change: String,
    },
    /// Whether members see the same ring
    Diff {
        /// Two members; one: it and the router asked; none: all and the router asked
        #[arg(num_args = 0..=2)]
        members: Vec<String>,
    },
}

/// What is asked, and whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Where a router may be.
    pub target: Target,
    /// Nothing: the members.
    pub what: Option<What>,
    /// The router's documents instead of tables.
    pub json: bool,
}

impl Flags {
    pub(super) fn options(self, docker: Docker) -> Options {
        let target = Target { host: self.host, docker };
        Options { target, what: self.what, json: self.format == Format::Json }
    }
}

/// Why there is nothing to tell.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No answer.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The router says what is wrong with the question.
    #[error("{0}")]
    Refused(String),
    /// The question is none.
    #[error("{0}")]
    Question(String),
    /// Nothing has this name.
    #[error("{0}")]
    Unknown(String),
    /// The member asked about.
    #[error("{0}")]
    Away(String),
    /// Its answer is of no use.
    #[error("the router's answer cannot be read: {0}")]
    Answer(#[from] serde_json::Error),
}

/// The exit code where something is not as it should be.
const AMISS: u8 = 3;

/// Asks and tells; gives the exit code.
///
/// # Errors
/// Docker's configuration is broken, no router answers, or nobody reads what is told.
pub async fn run(options: &Options) -> Result<u8, super::Error> {
    let config = options.target.docker.config()?;
    let router = Router(hosts::find(&options.target, &config).await?.host);
    let mut screen = Screen::stdout(false);
    let width = screen.space().width;
    let Told { documents, lines, code } = match &options.what {
        None => router.members(width).await?,
        Some(What::Where { name }) => router.find(name, width).await?,
        Some(What::Plan { change }) => router.plan(change, width).await?,
        Some(What::Diff { members }) => router.differences(members).await?,
    };
    match options.json {
        true => screen.print(&documents)?,
        false => screen.show(&lines)?,
    }
    Ok(code)
}

/// An answer, as it came and laid out.
struct Told {
    documents: String,
    lines: Vec<Line>,
    code: u8,
}

/// What a name means.
enum Keys {
    /// Keys, with what they are called, and what there may be besides.
    Known(Vec<(String, String)>, Vec<Line>),
    /// Nothing that is there now: the router's document, and what it says is missing.
    Missing(String, Vec<Line>),
}

/// Whom all is asked of.
struct Router(Host);

impl Router {
    async fn get(&self, path: &str) -> Result<Option<String>, Error> {
        let reply = client::get(&self.0, path).await?;
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        match reply.status {
            StatusCode::OK => Ok(Some(body)),
            StatusCode::NOT_FOUND => Ok(None),
            status => Err(refusal(status, &body)),
        }
    }

    async fn ring(&self, query: &str) -> Result<(String, Ring), Error> {
        let reply = client::get(&self.0, &format!("/v1/ring{query}")).await?;
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        match reply.status {
            StatusCode::OK => {
                let ring = serde_json::from_str(&text)?;
                Ok((text, ring))
            }
            status => Err(refusal(status, &text)),
        }
    }

    async fn members(&self, width: Option<usize>) -> Result<Told, Error> {
        let (documents, ring) = self.ring("?live=true").await?;
        let code = if ring.amiss().is_empty() { 0 } else { AMISS };
        Ok(Told { documents, lines: ring.table(width), code })
    }

    async fn plan(&self, change: &str, width: Option<usize>) -> Result<Told, Error> {
        let (documents, ring) = self.ring(&format!("?plan={}", encoded(change))).await?;
        let plan = ring.plan.as_ref().ok_or_else(|| Error::Refused("this router is too old to plan".into()))?;
        Ok(Told { documents, lines: plan.table(&ring, width), code: 0 })
    }

    async fn find(&self, name: &str, width: Option<usize>) -> Result<Told, Error> {
        let (keys, missing) = match self.keys(name).await? {
            Keys::Known(keys, missing) => (keys, missing),
            Keys::Missing(documents, lines) => return Ok(Told { documents, lines, code: AMISS }),
        };
        let live = if keys.len() <= 20 { "&live=true" } else { "" };
        let (mut rows, mut documents) = (Vec::new(), String::new());
        for (key, shown) in keys {
            let (text, ring) = self.ring(&format!("?key={}{live}", encoded(&key))).await?;
            documents += &text;
            let Some(key) = ring.key else { continue };
            let emitting = match &key.emitting {
                None => ABSENT.to_owned(),
                Some(members) if members.is_empty() => "nobody now".to_owned(),
                Some(members) => members.join(", "),
            };
            let reserve = key.reserve.unwrap_or_else(|| ABSENT.to_owned());
            rows.push(vec![shown, key.owners.join(", "), emitting, reserve, key.shard.to_string()]);
        }
        let columns =
            [words("KEY", 0), words("OWNERS", 0), words("EMITTED BY", 0), words("RESERVE", 1), figures("SHARD", 2)];
        let code = if missing.is_empty() { 0 } else { AMISS };
        let mut lines = grid::lay_out(&columns, &rows, width);
        lines.extend(missing);
        Ok(Told { documents, lines, code })
    }

    /// The keys that a name means, with what they are called.
    async fn keys(&self, name: &str) -> Result<Keys, Error> {
        let (mut missing, mut documents): (Vec<Line>, _) = (Vec::new(), String::new());
        for (path, list, of_tasks) in [
            (format!("/v1/tasks/{}", encoded(name)), "tasks", true),
            (format!("/v1/tasks?service={}", encoded(name)), "tasks", true),
            (format!("/v1/nodes/{}", encoded(name)), "nodes", false),
        ] {
            let Some(text) = self.get(&path).await? else { continue };
            let document: serde_json::Value = serde_json::from_str(&text)?;
            let items = document[list].as_array().cloned().unwrap_or_default();
            let key = |item: &serde_json::Value| {
                let (id, name) = (item["id"].as_str()?, item["name"].as_str().unwrap_or_default());
                let kind = if of_tasks { "task" } else { "node" };
                let short = name.strip_suffix(id).and_then(|name| name.strip_suffix('.')).unwrap_or(name);
                (item["state"] != "ended").then(|| (format!("{kind}:{id}"), format!("{kind} {}", printable(short))))
            };
            let lacks = |missing: &serde_json::Value| {
                let of = |name: &str| printable(missing[name].as_str().unwrap_or_default());
                note(format!("incomplete: {}: {}", of("what"), of("why")))
            };
            let lacking: Vec<Line> = document["missing"].as_array().into_iter().flatten().map(lacks).collect();
            let keys: Vec<_> = items.iter().filter_map(key).collect();
            if !keys.is_empty() {
                return Ok(Keys::Known(keys, lacking));
            }
            missing.extend(lacking);
            documents = text;
        }
        if missing.is_empty() {
            return Err(Error::Unknown(format!("no task, service or node {name} is known to the router")));
        }
        let text = format!("no task, service or node {} is among what the router hears of now", printable(name));
        Ok(Keys::Missing(documents, [vec![note(text)], missing].concat()))
    }

    async fn differences(&self, members: &[String]) -> Result<Told, Error> {
        let of = |member: &str| format!("?of={}", encoded(member));
        let (mut views, mut documents, mut away) = (Vec::new(), String::new(), Vec::new());
        let own = self.ring("").await?;
        let others: Vec<String> = match members {
            [] => own.1.members.iter().map(|member| member.id.clone()).collect(),
            members => members.to_vec(),
        };
        if others.len() != 2 || members.is_empty() {
            documents += &own.0;
            views.push(("the router asked".to_owned(), own.1));
        }
        for member in others {
            match self.ring(&of(&member)).await {
                Ok((text, ring)) => {
                    documents += &text;
                    views.push((member, ring));
                }
                Err(Error::Away(why)) => away.push(why),
                Err(error) => return Err(error),
            }
        }
        let (mut told, mut same): (Vec<String>, _) = (Vec::new(), None);
        if let Some((first, rest)) = views.split_first() {
            for other in rest {
                told.extend(difference(first, other));
            }
            if told.is_empty() && !rest.is_empty() {
                let names: Vec<&str> = views.iter().map(|(name, _)| name.as_str()).collect();
                same = Some(format!("{} see the same ring, {}", names.join(", "), first.1.ring_id));
            }
        }
        told.extend(away);
        let code = if told.is_empty() { 0 } else { AMISS };
        told.extend(same);
        Ok(Told { documents, lines: told.into_iter().map(note).collect(), code })
    }
}

/// What a router that refused a question says, with its remedy.
fn refusal(status: StatusCode, body: &str) -> Error {
    let said: serde_json::Value = match serde_json::from_str(body) {
        Ok(said) => said,
        Err(error) => return Error::Answer(error),
    };
    let texts = [&said["error"], &said["remedy"]].into_iter().filter_map(|text| text.as_str());
    let said = printable(&texts.collect::<Vec<_>>().join("; "));
    match status {
        StatusCode::BAD_REQUEST => Error::Question(said),
        StatusCode::NOT_FOUND => Error::Unknown(said),
        StatusCode::BAD_GATEWAY => Error::Away(said),
        _ => Error::Refused(said),
    }
}
