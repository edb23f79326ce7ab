//! What the user asks for: the command line, as Docker calls a plugin and as a shell calls a command.
//!
//! Docker passes its own global flags first, then the plugin's name, then the rest; a `--host` before the name is
//! therefore the engine's, after it the router's. Pure but for the environment variable that names the router.

use crate::json::What;
use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};
use hyper::Uri;
use std::{ffi::OsString, fmt, process::ExitCode, str::FromStr};

/// The name Docker calls this plugin by.
const PLUGIN: &str = "swarmstats";
/// One sentence, also shown by `docker --help`.
const ABOUT: &str = "Live resource usage of a whole swarm: docker stats for services, tasks, nodes and stacks";
/// The words for what the rows can be are their singulars.
const VIEWS: [What; 4] = [What::Services, What::Tasks, What::Nodes, What::Stacks];
/// A command line that cannot be understood (sysexits' `EX_USAGE`).
pub const USAGE: u8 = 64;

const HELP: &str = "\
Views (the default is service):
  service  sums over a service's tasks; TASKS k/n: k of its n tasks are fresh and counted
  task     one task; NAME is a task's id (4 characters are enough) or name, or a service's name: all its tasks
  node     sums over the tasks of a node
  stack    sums over the tasks of a stack

Figures are docker stats': CPU 100% is one CPU; MEM is usage less the inactive page cache;
NET I/O is received / sent, BLOCK I/O read / written; -- could not be read, which is not zero.
AGE stands only where figures are not fresh, and is how old they are.
On a terminal the table is redrawn in place and fits it; elsewhere it is plain text, repeated every second.

Examples:
  docker swarmstats                              every service, live
  docker swarmstats web api                      two services
  docker swarmstats task web                     the tasks of one service
  docker swarmstats node --no-stream             every node, once
  docker swarmstats --format json | jq -c '.services[] | [.name, .figures.cpu_percent]'
  docker swarmstats --host http://10.0.0.5:7770  ask another router

Exit status:
  0   answered, nothing missing; or the live view was ended (Ctrl-C)
  1   no router there, or no answer that could be used
  2   no such service, task, node or stack, or more than one
  3   --no-stream: answered, but not everything; the `incomplete:` lines say what is missing and why
  64  the command line was not understood";

/// How the answer is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// docker stats' columns.
    Table,
    /// The router's own JSON document, one a line.
    Json,
}

/// Where the router is: `http://HOST[:PORT]`, port 7770 where none is given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Name or address, an IPv6 address without brackets.
    pub name: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "http://[{}]:{}", self.name, self.port)
        } else {
            write!(f, "http://{}:{}", self.name, self.port)
        }
    }
}

/// Why a text does not say where a router is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostError {
    /// Not a URL, or one with more in it than an address.
    #[error("a router's address is http://HOST or http://HOST:PORT")]
    Shape,
    /// Another scheme.
    #[error("a router speaks plain http, so its address begins with http://")]
    Scheme,
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let uri: Uri = text.parse().map_err(|_| HostError::Shape)?;
        if uri.scheme_str().is_some_and(|scheme| scheme != "http") {
            return Err(HostError::Scheme);
        }
        let authority = uri.authority().filter(|_| uri.scheme().is_some()).ok_or(HostError::Shape)?;
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => 7770,
            Some(_) => authority.port_u16().ok_or(HostError::Shape)?,
            None => return Err(HostError::Shape), // user@host
        };
        if name.is_empty() || uri.path() != "/" || uri.query().is_some() {
            return Err(HostError::Shape);
        }
        Ok(Host { name: name.into(), port })
    }
}

/// A command line, understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// What the rows are.
    pub view: What,
    /// Which of them; empty: all.
    pub names: Vec<String>,
    /// One answer, then exit.
    pub no_stream: bool,
    /// Table or JSON.
    pub format: Format,
    /// Whom to ask.
    pub host: Host,
}

#[derive(Parser)]
#[command(about = ABOUT, after_help = HELP, version, name = "docker-swarmstats", no_binary_name = true)]
struct Flags {
    /// A view, then ids or names; without a view they are services
    #[arg(value_name = "VIEW | NAME")]
    words: Vec<String>,
    /// Print one answer and exit
    #[arg(long)]
    no_stream: bool,
    /// How to print it: docker stats' columns, or the router's own JSON document on one line
    #[arg(long, value_enum, value_name = "table|json", hide_possible_values = true, default_value = "table")]
    format: Format,
    /// Any router's address
    #[arg(long, env = "SWARMSTATS_HOST", value_name = "URL", default_value = "http://127.0.0.1:7770")]
    host: Host,
}

/// What is said at once and ends the command: help, the version, the plugin's metadata, or what was not understood.
#[derive(PartialEq, Eq, Debug)]
pub struct Early {
    text: String,
    code: u8,
}

impl Early {
    /// Prints it (to stderr what was not understood) and gives the exit code.
    pub fn say(self) -> ExitCode {
        if self.code == 0 {
            println!("{}", self.text);
        } else {
            eprintln!("{}", self.text);
        }
        self.code.into()
    }
}

/// Reads a command line (without the program's own name).
///
/// # Errors
/// [`Early`] where there is nothing to ask a router: help, version, metadata, or a usage error.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Options, Early> {
    let argv: Vec<OsString> = argv.into_iter().collect();
    if argv.first().is_some_and(|word| word == "docker-cli-plugin-metadata") {
        return Err(Early { text: metadata(), code: 0 });
    }
    let (called_as, rest) = match after_plugin_name(&argv) {
        Some(rest) => ("docker swarmstats", rest),
        None => ("docker-swarmstats", argv),
    };
    let usage = format!("{called_as} [OPTIONS] [service|task|node|stack] [NAME...]");
    let flags = Flags::command()
        .override_usage(usage)
        .try_get_matches_from(rest)
        .and_then(|matches| Flags::from_arg_matches(&matches))
        .map_err(|error| Early {
            text: error.render().to_string().trim_end().to_owned(),
            code: if error.use_stderr() { USAGE } else { 0 },
        })?;
    let mut names = flags.words;
    let view = names.first().and_then(|word| VIEWS.into_iter().find(|view| view.singular() == word));
    if view.is_some() {
        names.remove(0);
    }
    Ok(Options {
        view: view.unwrap_or(What::Services),
        names,
        no_stream: flags.no_stream,
        format: flags.format,
        host: flags.host,
    })
}

/// What follows the plugin's name, if Docker called: nothing but Docker's own global flags stands before it.
fn after_plugin_name(argv: &[OsString]) -> Option<Vec<OsString>> {
    /// Docker's global flags that take a value, and may carry it after `=` or as the next word.
    const WITH_VALUE: [&str; 10] =
        ["--config", "-c", "--context", "-H", "--host", "-l", "--log-level", "--tlscacert", "--tlscert", "--tlskey"];
    let mut words = argv.iter();
    while let Some(word) = words.next() {
        match word.to_str()? {
            PLUGIN => return Some(words.cloned().collect()),
            // `docker help swarmstats` arrives as it was typed.
            "help" => return (words.next()? == PLUGIN).then(|| vec!["--help".into()]),
            flag if WITH_VALUE.contains(&flag) => {
                words.next()?;
            }
            flag if flag.starts_with('-') => {}
            _ => return None,
        }
    }
    None
}

/// What Docker wants to know of a plugin.
fn metadata() -> String {
    serde_json::json!({
        "SchemaVersion": "0.1.0",
        "Vendor": "swarmstats",
        "Version": env!("CARGO_PKG_VERSION"),
        "ShortDescription": ABOUT,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, Early> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn asked(line: &str) -> (What, Vec<String>) {
        let options = parsed(line).unwrap();
        (options.view, options.names)
    }

    #[test]
    fn the_default_view_is_service() {
        assert_eq!(asked(""), (What::Services, vec![]));
        assert_eq!(asked("web api"), (What::Services, vec!["web".into(), "api".into()]));
        assert_eq!(asked("task web"), (What::Tasks, vec!["web".into()]));
        assert_eq!(asked("service node"), (What::Services, vec!["node".into()]), "a service may be called node");
        assert_eq!(asked("node --no-stream n1"), (What::Nodes, vec!["n1".into()]));
    }

    // As docker 28.2.2 was seen to call a plugin.
    #[test]
    fn docker_puts_its_own_flags_before_the_name() {
        let line = "--config /tmp/x -H tcp://1.2.3.4:5 -D --log-level=debug swarmstats task --host http://r:1 web";
        let options = parsed(line).unwrap();
        assert_eq!((options.view, &*options.names[0], options.host.port), (What::Tasks, "web", 1));
        assert_eq!(parsed("swarmstats").unwrap().host.port, 7770);
        assert_eq!(asked("swarmstats service swarmstats"), (What::Services, vec!["swarmstats".into()]));
    }

    #[test]
    fn standalone_flags_are_our_own() {
        assert_eq!(parsed("--host http://r:1 service swarmstats").unwrap().host, "http://r:1".parse().unwrap());
        assert_eq!(asked("service swarmstats"), (What::Services, vec!["swarmstats".into()]));
    }

    #[test]
    fn help_comes_however_docker_asks_for_it() {
        for line in ["swarmstats --help", "--config /tmp/x help swarmstats", "help swarmstats"] {
            let early = parsed(line).unwrap_err();
            assert_eq!(early.code, 0);
            assert!(
                early.text.contains("Usage: docker swarmstats [OPTIONS] [service|task|node|stack] [NAME...]"),
                "{line}"
            );
            assert!(early.text.contains("Exit status:"), "{line}");
        }
        assert!(parsed("--help").unwrap_err().text.contains("Usage: docker-swarmstats"));
        assert_eq!(parsed("--version").unwrap_err().text, concat!("docker-swarmstats ", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn what_is_not_understood_is_a_usage_error() {
        for line in ["--interval 2", "--format yaml", "--host nonsense", "--host https://r:1", "--host"] {
            assert_eq!(parsed(line).unwrap_err().code, USAGE, "{line}");
        }
    }

    #[test]
    fn a_host_is_an_address_and_nothing_more() {
        let host = |text: &str| text.parse::<Host>().map(|host| (host.name.clone(), host.port, host.to_string()));
        assert_eq!(host("http://r").unwrap(), ("r".into(), 7770, "http://r:7770".into()));
        assert_eq!(host("http://10.0.0.5:80/").unwrap(), ("10.0.0.5".into(), 80, "http://10.0.0.5:80".into()));
        assert_eq!(host("http://[::1]:7770").unwrap(), ("::1".into(), 7770, "http://[::1]:7770".into()));
        assert_eq!(host("tcp://r:1"), Err(HostError::Scheme));
        for bad in
            ["", "r:7770", "http://", "http://u@r", "http://r:99999", "http://r:", "http://r/x", "http://r?x", "/r"]
        {
            assert_eq!(host(bad), Err(HostError::Shape), "{bad:?}");
        }
    }

    #[test]
    fn metadata_is_what_docker_demands_of_a_plugin() {
        let early = parsed("docker-cli-plugin-metadata").unwrap_err();
        let said: serde_json::Value = serde_json::from_str(&early.text).unwrap();
        assert_eq!((early.code, &said["SchemaVersion"]), (0, &"0.1.0".into()));
        assert!(!said["Vendor"].as_str().unwrap().is_empty(), "docker refuses a plugin without a vendor");
    }
}
