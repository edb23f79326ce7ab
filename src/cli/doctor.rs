//! `docker swarmstats doctor`: why is my task not shown? What is wrong with the tier, and what helps.
//!
//! Probes bring facts home ([`seen`]), pure verdicts make findings of them ([`judge`], [`tier`], [`follow`]), and those
//! are told as a list or as JSON ([`finding`]). The whole takes less than 5 s whatever hangs. It changes nothing.

pub mod finding;
pub mod seen;
pub mod judge;
pub mod tier;
pub mod follow;
mod probe;

use crate::cli::args::Target;
use crate::cli::hosts::{self, Host};
use crate::cli::screen::Screen;
use clap::{Args, ValueEnum};
use finding::Severity;
use std::{
    io::{self, IsTerminal},
    time::Duration,
};
use tokio::time::timeout;

/// Longer than this, and a word about it is said.
const PATIENCE: Duration = Duration::from_secs(2);
/// For finding a router where nobody named one.
const NEARBY: Duration = Duration::from_millis(900);

pub(super) const HELP: &str = "\
Run it on a manager to learn most: Swarm then says which nodes and tasks there should be.
With a NAME it follows that task, or each task of that service, from Swarm to the screen, and names the first link that
is broken. It changes nothing, and takes less than 5 seconds.

Examples:
  docker swarmstats doctor                     the whole
  docker swarmstats doctor web                 why are tasks of service web not shown?
  docker swarmstats doctor web.2               the task in one slot; a task's id does as well
  docker swarmstats doctor --format json | jq -r '.findings[] | select(.severity == \"fail\") | .code'

Exit status:
  0   nothing failed; there may be warnings
  1   something failed: each has its remedy
  64  the command line was not understood";

#[derive(Args)]
pub(super) struct Flags {
    /// A task or a service to follow
    name: Option<String>,
    /// The engine of this node: unix://PATH; else the one Docker is set to use
    #[arg(long, value_name = "URL")]
    engine: Option<String>,
    /// The api of this node's shipper; repeated, of others too
    #[arg(long = "shipper", value_name = "URL", default_value = "http://127.0.0.1:7773")]
    shippers: Vec<Host>,
    /// How it is told
    #[arg(long, value_enum, value_name = "list|json", hide_possible_values = true, default_value = "list")]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    List,
    Json,
}

impl Flags {
    pub(super) fn options(self, target: Target) -> Options {
        let json = self.format == Format::Json;
        Options { target, engine: self.engine, shippers: self.shippers, name: self.name, json }
    }
}

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Where a router may be.
    pub target: Target,
    /// The engine here: a socket's path, or as in `DOCKER_HOST`; `None`: the one Docker is set to use.
    pub engine: Option<String>,
    /// The apis of shippers, this node's first.
    pub shippers: Vec<Host>,
    /// A task or service to follow.
    pub name: Option<String>,
    /// JSON instead of a list.
    pub json: bool,
}

/// Examines and tells; 0 if nothing failed (there may be warnings), else 1.
///
/// # Errors
/// Docker's configuration is broken, or nobody reads what is told.
pub async fn run(options: &Options) -> Result<u8, super::Error> {
    let config = options.target.docker.config()?;
    let examined = async {
        // Of those nearby the first that answers, as the other commands; where none does, this machine's is examined.
        let host = match hosts::named(&options.target, &config)? {
            Some(found) => found.host,
            None => match timeout(NEARBY, hosts::find(&options.target, &config)).await {
                Ok(found) => found?.host,
                Err(_) => Host { name: "127.0.0.1".into(), port: hosts::PORT },
            },
        };
        let engine = options.engine.clone().or_else(|| options.target.docker.engine(&config));
        let engine = engine.unwrap_or_else(|| "unix:///var/run/docker.sock".into());
        let (seen, trail) = probe::everything(options, host, &engine).await;
        let mut findings = judge::judge(&seen);
        findings.extend(trail.iter().flat_map(|trail| follow::follow(&seen, trail)));
        findings.sort_by_key(|finding| finding.part);
        Ok::<_, super::Error>(findings)
    };
    tokio::pin!(examined);
    let findings = match timeout(PATIENCE, &mut examined).await {
        Ok(findings) => findings?,
        Err(_) => {
            let told = io::stderr().is_terminal();
            if told {
                eprint!("some do not answer; waiting for them …");
            }
            let findings = examined.await?;
            if told {
                eprint!("\r\x1b[K");
            }
            findings
        }
    };
    let mut screen = Screen::stdout(false);
    let text = if options.json {
        finding::json(&findings)
    } else {
        finding::text(&findings, screen.space().width, screen.has_colours())
    };
    let failed = findings.iter().any(|finding| finding.severity == Severity::Fail);
    screen.print(&text)?;
    Ok(failed.into())
}
