//! What a shell may write next, by the protocol of Docker's own command: `__complete swarmstats WORDS… BEGINNING`.
//!
//! The answer is a line for each candidate (a tab and a description behind it, where asked for) and a last line with a
//! number for the shell. Flags and words come from the grammar, names from the router, which has [`DEADLINE`]; a router
//! that does not answer means fewer candidates, never a message in the middle of a command line.

use crate::cli::args::{Target, grammar};
use crate::cli::client::{self, Reply};
use crate::cli::docker::Docker;
use crate::cli::filter;
use crate::cli::format::printable;
use crate::cli::hosts;
use crate::cli::view::View;
use crate::json::What;
use serde::Deserialize;
use std::time::Duration;

/// For everything: a user waits.
pub const DEADLINE: Duration = Duration::from_millis(500);
/// The most candidates.
const MOST: usize = 500;

/// A command line whose last word is to be completed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tab {
    /// Behind the plugin's name; the last is the word's beginning, which may be empty.
    pub words: Vec<String>,
    /// Whether descriptions are wanted.
    pub described: bool,
    /// Docker's own flags.
    pub docker: Docker,
}

/// For the shell, of cobra's numbers: complete no file names, or these and write no space either.
const NO_FILES: u8 = 4;
const NO_FILES_NO_SPACE: u8 = 6;

#[derive(PartialEq, Eq, Debug)]
struct Candidate {
    text: String,
    about: String,
}

/// What there is to choose from.
#[derive(PartialEq, Eq, Debug)]
enum Wanted {
    /// These; the number is for the shell.
    Words(Vec<Candidate>, u8),
    /// Names of such things behind a text, besides these words.
    Names(What, &'static str, Vec<Candidate>),
}

/// The answer to a shell.
pub async fn answer(tab: &Tab) -> String {
    let typed = tab.words.last().map_or("", String::as_str);
    let (mut candidates, directive) = match wanted(&tab.words) {
        Wanted::Words(words, directive) => (words, directive),
        Wanted::Names(what, before, mut words) => {
            let names = tokio::time::timeout(DEADLINE, names(tab, what)).await.unwrap_or_default();
            words.extend(names.into_iter().map(|(name, about)| Candidate { text: format!("{before}{name}"), about }));
            (words, NO_FILES)
        }
    };
    // Behind `--flag=` the shell completes only the value.
    let typed = if typed.starts_with("--") { typed.split_once('=').map_or(typed, |(_, value)| value) } else { typed };
    candidates.retain(|candidate| candidate.text.starts_with(typed));
    candidates.truncate(MOST);
    let mut text = String::new();
    for Candidate { text: word, about } in candidates {
        text += &word;
        if tab.described && !about.is_empty() {
            text += &format!("\t{about}");
        }
        text.push('\n');
    }
    format!("{text}:{directive}\n")
}

/// What the last of these words can be.
fn wanted(words: &[String]) -> Wanted {
    let command = grammar();
    let (typed, before) = words.split_last().map_or(("", words), |(typed, before)| (typed.as_str(), before));
    let view_word = before.iter().find(|word| !word.starts_with('-') && command.find_subcommand(word).is_some());
    let sub = view_word.and_then(|word| command.find_subcommand(word)).unwrap_or(&command);
    let view = View::ALL.into_iter().find(|view| Some(view.command()) == view_word.map(String::as_str));

    let (flag, value) = match typed.split_once('=') {
        Some((flag, value)) if flag.starts_with("--") => (Some(flag), value),
        _ => (before.last().map(String::as_str), typed),
    };
    let flag = flag.and_then(|flag| {
        sub.get_arguments().find(|arg| {
            arg.get_long().is_some_and(|long| flag == format!("--{long}"))
                || arg.get_short().is_some_and(|short| flag == format!("-{short}"))
        })
    });
    let behind_equals = typed.starts_with("--") && typed.contains('=');
    if let Some(flag) = flag.filter(|flag| flag.get_action().takes_values())
        && (behind_equals || !flag.is_require_equals_set())
    {
        let values = flag.get_possible_values();
        if !values.is_empty() {
            return Wanted::Words(values.iter().map(|value| candidate(value.get_name(), "")).collect(), NO_FILES);
        }
        return of_flag(flag.get_id().as_str(), value, view.unwrap_or_default());
    }
    if typed.starts_with('-') {
        let flags = sub
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .filter_map(|arg| Some(Candidate { text: format!("--{}", arg.get_long()?), about: about(arg.get_help()) }));
        let help = Candidate { text: "--help".into(), about: "Print help".into() };
        return Wanted::Words(flags.chain([help]).collect(), NO_FILES);
    }
    match (view_word.map(String::as_str), view) {
        (Some("completion"), _) => {
            let shells = ["bash", "elvish", "fish", "powershell", "zsh"].map(|shell| candidate(shell, ""));
            Wanted::Words(shells.into(), NO_FILES)
        }
        (Some("top"), _) => {
            let views = View::ALL.into_iter().filter(|view| *view != View::Ps);
            let first = before.last().is_some_and(|word| word == "top");
            let views = views.filter(|_| first).map(|view| candidate(view.command(), ""));
            Wanted::Names(What::Services, "", views.collect())
        }
        (Some("doctor"), _) | (Some(_), Some(View::Ps)) => Wanted::Names(What::Services, "", vec![]),
        (Some(_), Some(view)) => Wanted::Names(view.what(), "", vec![]),
        (Some(_), None) => Wanted::Words(vec![], NO_FILES),
        (None, _) if before.iter().any(|word| !word.starts_with('-')) => Wanted::Names(What::Services, "", vec![]),
        (None, _) => {
            let commands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
            let commands = commands.map(|sub| candidate(sub.get_name(), &about(sub.get_about())));
            Wanted::Names(What::Services, "", commands.collect())
        }
    }
}

/// The values of a flag.
fn of_flag(flag: &str, typed: &str, view: View) -> Wanted {
    let words = |words: &[&str]| words.iter().map(|word| candidate(word, "")).collect();
    match flag {
        "sort" => {
            let reversed = typed.strip_prefix('-').map_or("", |_| "-");
            let keys = filter::words(view).filter(|key| *key != "label");
            Wanted::Words(keys.map(|key| candidate(&format!("{reversed}{key}"), "")).collect(), NO_FILES)
        }
        "filters" => match typed.split_once('=') {
            None => {
                let keys = filter::words(view).map(|key| candidate(&format!("{key}="), ""));
                Wanted::Words(keys.collect(), NO_FILES_NO_SPACE)
            }
            Some(("service", _)) => Wanted::Names(What::Services, "service=", vec![]),
            Some(("node", _)) => Wanted::Names(What::Nodes, "node=", vec![]),
            Some(("stack", _)) => Wanted::Names(What::Stacks, "stack=", vec![]),
            Some(("name", _)) => Wanted::Names(view.what(), "name=", vec![]),
            Some(("state", _)) => Wanted::Words(
                words(&["state=running", "state=paused", "state=partial", "state=stale", "state=ended"]),
                NO_FILES,
            ),
            Some(("health", _)) => {
                Wanted::Words(words(&["health=starting", "health=healthy", "health=unhealthy"]), NO_FILES)
            }
            Some(_) => Wanted::Words(vec![], NO_FILES_NO_SPACE),
        },
        "format" => Wanted::Words(words(&["table", "json", "csv"]), NO_FILES),
        "interval" => Wanted::Words(words(&["500ms", "1s", "2s", "5s", "10s"]), NO_FILES),
        _ => Wanted::Words(vec![], NO_FILES),
    }
}

fn candidate(text: &str, about: &str) -> Candidate {
    Candidate { text: text.into(), about: about.into() }
}

fn about(text: Option<&clap::builder::StyledStr>) -> String {
    text.map_or_else(String::new, |text| text.to_string().lines().next().unwrap_or_default().to_owned())
}

/// The names of such things and what is to be said of each; none where nobody answers.
async fn names(tab: &Tab, what: What) -> Vec<(String, String)> {
    let host = typed_host(&tab.words).or_else(|| std::env::var("SWARMSTATS_HOST").ok());
    let target = Target { host: host.and_then(|text| text.parse().ok()), docker: tab.docker.clone() };
    let Ok(found) = hosts::find(&target, &tab.docker.config().unwrap_or_default()).await else { return vec![] };
    let path = format!("/v1/{}", what.plural());
    let asked = [format!("{path}?stats=none"), path];
    for path in asked {
        match client::get_within(DEADLINE, &found.host, &path).await {
            Ok(reply) if reply.status.is_success() => return listed(what, &reply),
            Ok(_) => {} // an older router does not know ?stats=
            Err(_) => break,
        }
    }
    vec![]
}

/// The router that the line itself names.
fn typed_host(words: &[String]) -> Option<String> {
    let next = words.windows(2).rev().find(|two| two[0] == "--host").map(|two| two[1].clone());
    next.or_else(|| words.iter().rev().find_map(|word| word.strip_prefix("--host=").map(str::to_owned)))
}

fn listed(what: What, reply: &Reply) -> Vec<(String, String)> {
    #[derive(Deserialize)]
    struct Item {
        id: Option<String>,
        name: Option<String>,
    }
    let mut document: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(&reply.body).unwrap_or_default();
    let items = document.remove(what.plural()).unwrap_or_default();
    let items: Vec<Item> = serde_json::from_value(items).unwrap_or_default();
    // Whatever a shell would have to quote is left out rather than quoted wrongly.
    let plain = |name: &String| !name.is_empty() && printable(name) == *name && !name.contains([' ', '\'', '"', '\\']);
    let named = items.into_iter().filter_map(|item| match what {
        // A task is shorter by its id.
        What::Tasks => Some((item.id?.chars().take(12).collect(), item.name.unwrap_or_default())),
        _ => Some((item.name.or(item.id)?, what.singular().to_owned())),
    });
    named.filter(|(name, about)| plain(name) && printable(about) == *about).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(line: &str) -> Wanted {
        wanted(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn words(line: &str) -> Vec<String> {
        let texts = |candidates: Vec<Candidate>| candidates.into_iter().map(|candidate| candidate.text).collect();
        match wants(line) {
            Wanted::Words(words, _) | Wanted::Names(_, _, words) => texts(words),
        }
    }

    fn names_of(line: &str) -> Option<(What, &'static str)> {
        match wants(line) {
            Wanted::Names(what, before, _) => Some((what, before)),
            Wanted::Words(..) => None,
        }
    }

    #[test]
    fn the_first_word_is_a_command_or_a_service() {
        assert_eq!(names_of(""), Some((What::Services, "")));
        for command in ["service", "task", "node", "stack", "ps", "completion"] {
            assert!(words("").contains(&command.to_owned()), "{command}");
        }
        assert_eq!((names_of("web "), words("web ")), (Some((What::Services, "")), vec![]));
    }

    #[test]
    fn names_are_what_the_view_shows() {
        assert_eq!(names_of("node "), Some((What::Nodes, "")));
        assert_eq!(names_of("--wide task --all we"), Some((What::Tasks, "")));
        assert_eq!(names_of("ps web a"), Some((What::Services, "")));
        assert_eq!(
            (names_of("top "), words("top ")),
            (Some((What::Services, "")), ["service", "task", "node", "stack"].map(Into::into).into())
        );
        assert_eq!(words("top web "), [""; 0]);
        assert!(!words("--sort ").contains(&"up".to_owned()), "services have no such key");
        let typed = |line: &str| typed_host(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            ["--host http://r:1 web ", "node --host=http://r:1 "].map(typed),
            [(); 2].map(|()| Some("http://r:1".into()))
        );
        assert_eq!(words("completion "), ["bash", "elvish", "fish", "powershell", "zsh"]);
    }

    #[test]
    fn flags_and_their_values() {
        assert!(words("node --no").contains(&"--no-trunc".to_owned()));
        assert!(!words("completion --").contains(&"--sort".to_owned()));
        assert!(words("--sort ").contains(&"cpu".to_owned()));
        assert!(words("task --sort=-c").contains(&"-cpu".to_owned()));
        assert_eq!(words("--of "), ["cpu", "node", "limit"]);
        assert!(words("task -f ").contains(&"label=".to_owned()));
        assert!(!words("node --filter ").contains(&"label=".to_owned()));
        assert_eq!(names_of("task --filter node="), Some((What::Nodes, "node=")));
        assert_eq!(names_of("task --filter=stack="), Some((What::Stacks, "stack=")));
        assert_eq!(names_of("--history "), Some((What::Services, "")), "its number is written behind =");
    }
}
