//! What the user asks for: the command line, as Docker calls a plugin and as a shell calls a command.
//!
//! Docker passes its own global flags first, then the plugin's name, then the rest; a `--host` before the name is
//! therefore the engine's, after it the router's. Pure but for the environment variable that names the router.

use crate::cli::columns::Show;
use crate::cli::complete::Tab;
use crate::cli::docker::Docker;
use crate::cli::doctor;
use crate::cli::filter::{self, Filters};
use crate::cli::history;
use crate::cli::hosts::Host;
use crate::cli::key::Unit;
use crate::cli::output::Format;
use crate::cli::ring;
use crate::cli::screen;
use crate::cli::sort::Order;
use crate::cli::terminal;
use crate::cli::view::{Base, View};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::{ffi::OsString, io, process::ExitCode, time::Duration};

mod help;

/// The name Docker calls this plugin by.
pub const PLUGIN: &str = "swarmstats";
/// One sentence, also shown by `docker --help`.
const ABOUT: &str = "Live resource usage of a whole swarm: docker stats for services, tasks, nodes and stacks";
/// A command line that cannot be understood (sysexits' `EX_USAGE`).
pub const USAGE: u8 = 64;

/// A command line, understood.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Figures, live or once.
    Stats(Options),
    /// Figures on a screen of their own, with keys.
    Top(Options),
    /// The guardian of another's terminal.
    Guard,
    /// An examination.
    Doctor(doctor::Options),
    /// The ring of collectors.
    Ring(ring::Options),
    /// What a shell may complete.
    Complete(Tab),
}

/// Where to look for a router.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// `--host` or `SWARMSTATS_HOST`.
    pub host: Option<Host>,
    /// Docker's own flags.
    pub docker: Docker,
}

/// Which figures, of what, and how they are shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The view and its columns.
    pub show: Show,
    /// Which rows, by id or name; empty: all.
    pub names: Vec<String>,
    /// Which of these.
    pub filters: Filters,
    /// In which order.
    pub order: Order,
    /// Table or otherwise; `None`: what the user's config says, else a table.
    pub format: Option<Format>,
    /// One answer, then exit.
    pub no_stream: bool,
    /// How often the router is asked.
    pub interval: Duration,
    /// So many answers, then exit.
    pub count: Option<u64>,
    /// Whom to ask.
    pub target: Target,
}

#[derive(Parser)]
#[command(about = ABOUT, version, name = "docker-swarmstats", no_binary_name = true)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Line {
    #[command(flatten)]
    stats: Stats,
    #[command(subcommand)]
    sub: Option<Sub>,
}

#[derive(Subcommand)]
enum Sub {
    /// Sums over each service's tasks (the default)
    #[command(after_help = help::SERVICE)]
    Service(Stats),
    /// Each task
    #[command(after_help = help::TASK)]
    Task(Stats),
    /// Each node: sums over its tasks, and the machine itself
    #[command(after_help = help::NODE)]
    Node(Stats),
    /// Sums over each stack's tasks
    #[command(after_help = help::STACK)]
    Stack(Stats),
    /// The tasks of services, as `docker service ps` lists them, with their figures
    #[command(after_help = help::PS)]
    Ps(Stats),
    /// A full screen with keys: sort, filter, switch view, look into a service; `?` lists them
    #[command(after_help = help::TOP)]
    Top(Stats),
    /// Why is my task not shown? Examines engine, kernel, router, ring, shippers, clocks and ports
    #[command(after_help = doctor::HELP)]
    Doctor {
        #[command(flatten)]
        flags: doctor::Flags,
        #[command(flatten)]
        at: At,
    },
    /// The ring of collectors: members and their state, owners of a task, what scaling would move, who disagrees
    #[command(after_help = ring::HELP)]
    Ring(ring::Flags),
    /// Print a script that completes `docker-swarmstats` on TAB (Docker's own completion needs none)
    #[command(after_help = help::COMPLETION)]
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Args)]
struct Stats {
    /// Ids or names; none: all
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Print one answer and exit
    #[arg(long)]
    no_stream: bool,
    /// How often to ask, from 100ms to 1h
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    interval: Duration,
    /// Exit after so many answers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Sort by name, cpu, mem, net, block, pids, age, …: figures the greatest first; `-KEY` the other way round
    #[arg(long, value_name = "[-]KEY", allow_hyphen_values = true, default_value = "name")]
    sort: String,
    /// Sort the other way round
    #[arg(long)]
    reverse: bool,
    /// Only rows with this: name=web, stack=shop, cpu>50, mem>1GiB, …; may be repeated
    #[arg(short, long = "filter", value_name = "FILTER")]
    filters: Vec<String>,
    /// table, json, csv, 'table TEMPLATE' or TEMPLATE, such as '{{.Name}}: {{.CPUPerc}}'
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Ids and names in full
    #[arg(long)]
    no_trunc: bool,
    /// Ended tasks too, with their last figures and exit code
    #[arg(short, long)]
    all: bool,
    /// The last N values of CPU and memory as bars
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = help::HISTORY)]
    #[arg(value_parser = clap::value_parser!(u16).range(2..=history::MOST as i64))]
    history: Option<u16>,
    /// Network and block I/O per second instead of since the start
    #[arg(long)]
    rates: bool,
    /// What CPU % is of: one CPU, all CPUs of the node, or the tasks' limits
    #[arg(long, value_enum, value_name = "cpu|node|limit", hide_possible_values = true, default_value = "cpu")]
    of: Base,
    /// Swap, throttling, pressure, OOM kills and restarts besides
    #[arg(long)]
    wide: bool,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
struct At {
    /// Any router's address, http://HOST[:PORT]
    #[arg(long, env = "SWARMSTATS_HOST", value_name = "URL")]
    host: Option<Host>,
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
        let text = self.text + "\n";
        // Who reads no further has what they wanted.
        let said = if self.code == 0 { screen::write(io::stdout(), &text) } else { screen::write(io::stderr(), &text) };
        match said {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => 1.into(),
            _ => self.code.into(),
        }
    }

    fn usage(why: &str) -> Early {
        Early { text: format!("error: {why}\n\nFor more information, try '--help'."), code: USAGE }
    }
}

/// Reads a command line (without the program's own name).
///
/// # Errors
/// [`Early`] where there is nothing to ask a router: help, version, metadata, a script, or a usage error.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Command, Early> {
    let argv: Vec<OsString> = argv.into_iter().collect();
    match argv.first().and_then(|word| word.to_str()) {
        Some("docker-cli-plugin-metadata") => return Err(Early { text: metadata(), code: 0 }),
        Some(asked @ ("__complete" | "__completeNoDesc")) => {
            let (docker, words) = called_by_docker(&argv[1..]).unwrap_or((Docker::default(), argv[1..].to_vec()));
            let words = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            return Ok(Command::Complete(Tab { words, described: asked == "__complete", docker }));
        }
        Some(terminal::GUARDIAN) => return Ok(Command::Guard),
        _ => {}
    }
    let (called_as, docker, rest) = match called_by_docker(&argv) {
        Some((docker, rest)) => ("docker swarmstats", docker, rest),
        None => ("docker-swarmstats", Docker::default(), argv),
    };
    let rest = match &rest[..] {
        // As of Docker's own commands: `help`, `help VIEW`.
        [help, view @ ..] if help == "help" && view.len() < 2 => {
            view.iter().cloned().chain(["--help".into()]).collect()
        }
        _ => rest,
    };
    let command = grammar().bin_name(called_as);
    let rest = sub_command_first(&command, rest);
    let line = command.try_get_matches_from(rest).and_then(|matches| Line::from_arg_matches(&matches));
    let line = line.map_err(|error| Early {
        text: error.render().to_string().trim_end().to_owned(),
        code: if error.use_stderr() { USAGE } else { 0 },
    })?;
    let (view, stats) = match line.sub {
        None => (View::Service, line.stats),
        Some(Sub::Service(stats)) => (View::Service, stats),
        Some(Sub::Task(stats)) => (View::Task, stats),
        Some(Sub::Node(stats)) => (View::Node, stats),
        Some(Sub::Stack(stats)) => (View::Stack, stats),
        Some(Sub::Ps(stats)) => (View::Ps, stats),
        Some(Sub::Top(stats)) => return stats.top(docker).map_err(|why| Early::usage(&why)),
        Some(Sub::Doctor { flags, at }) => {
            return Ok(Command::Doctor(flags.options(Target { host: at.host, docker })));
        }
        Some(Sub::Ring(flags)) => return Ok(Command::Ring(flags.options(docker))),
        Some(Sub::Completion { shell }) => return Err(script(shell)),
    };
    stats.options(view, docker).map(Command::Stats).map_err(|why| Early::usage(&why))
}

/// All flags and words there are.
pub(crate) fn grammar() -> clap::Command {
    Line::command().after_help(help::ALL).mut_subcommand("ps", |ps| ps.mut_arg("names", |names| names.required(true)))
}

fn script(shell: clap_complete::Shell) -> Early {
    let mut text = vec![];
    clap_complete::generate(shell, &mut grammar(), "docker-swarmstats", &mut text);
    Early { text: String::from_utf8_lossy(&text).trim_end().to_owned(), code: 0 }
}

impl Stats {
    /// A first word that is a view is the one to begin with.
    fn top(mut self, docker: Docker) -> Result<Command, String> {
        let first = self.names.first();
        let view =
            first.and_then(|word| View::ALL.into_iter().find(|view| *view != View::Ps && view.command() == word));
        if view.is_some() {
            self.names.remove(0);
        }
        let options = self.options(view.unwrap_or_default(), docker)?;
        if options.no_stream || options.count.is_some() || options.format.is_some() {
            return Err("top is a full screen: it takes no --no-stream, --count or --format".into());
        }
        Ok(Command::Top(options))
    }

    fn options(self, view: View, docker: Docker) -> Result<Options, String> {
        let filters = Filters::read(&self.filters, view, self.of, self.rates).map_err(|error| error.to_string());
        let order = Order::read(&self.sort, self.of, self.rates).map_err(|error| error.to_string());
        let format = self.format.as_deref().map(Format::read).transpose().map_err(|error| error.to_string());
        let (filters, mut order, format) = match (filters, order, format) {
            (Ok(filters), Ok(order), Ok(format)) => (filters, order, format),
            // All that is wrong, at once.
            (filters, order, format) => {
                let wrong = [filters.err(), order.err(), format.err()];
                return Err(wrong.into_iter().flatten().collect::<Vec<_>>().join("\n"));
            }
        };
        let word = order.key.word();
        if !filter::has(view, word) {
            let keys: Vec<_> = filter::words(view).filter(|word| *word != "label").collect();
            return Err(format!("--sort {word:?}: {}s have no such key; keys: {}", view.word(), keys.join(", ")));
        }
        order.reversed ^= self.reverse;
        let show = Show {
            view,
            of: self.of,
            rates: self.rates,
            wide: self.wide,
            all: self.all,
            no_trunc: self.no_trunc,
            history: self.history.map(usize::from),
        };
        Ok(Options {
            show,
            names: self.names,
            filters,
            order,
            format,
            no_stream: self.no_stream,
            interval: self.interval,
            count: self.count,
            target: Target { host: self.at.host, docker },
        })
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let seconds = Unit::Seconds.read(text).filter(|_| text.ends_with(|c: char| c.is_ascii_alphabetic()));
    let seconds = seconds.ok_or("a duration has a unit: 500ms, 2s, 1m")?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("from 100ms to 1h".into())
    }
}

/// Flags may stand before a view as well as behind it: the view is moved to the front, where clap wants it.
fn sub_command_first(command: &clap::Command, mut words: Vec<OsString>) -> Vec<OsString> {
    let takes_next = |word: &str| {
        command.get_arguments().any(|arg| {
            let named = word.strip_prefix("--").map_or_else(
                || arg.get_short().is_some_and(|short| word == format!("-{short}")),
                |long| arg.get_long() == Some(long),
            );
            named && arg.get_action().takes_values() && !arg.is_require_equals_set()
        })
    };
    let mut at = 0;
    while let Some(word) = words.get(at).and_then(|word| word.to_str()) {
        if !word.starts_with('-') {
            if command.find_subcommand(word).is_some() {
                words[..=at].rotate_right(1);
            }
            break;
        }
        if word == "--" {
            break;
        }
        at += 1 + usize::from(takes_next(word));
    }
    words
}

/// Docker's own flags and what follows the plugin's name, if Docker called: nothing else stands before that, so with a
/// flag of ours before it the name is a service's.
fn called_by_docker(argv: &[OsString]) -> Option<(Docker, Vec<OsString>)> {
    let mut docker = Docker::default();
    let mut words = argv.iter();
    while let Some(word) = words.next() {
        let word = word.to_str()?;
        let (flag, value) = match word.as_bytes() {
            // A short flag with its value in the same word.
            [b'-', b'c' | b'H' | b'l', _, ..] => (&word[..2], Some(word[2..].trim_start_matches('='))),
            _ => word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value))),
        };
        let mut value = || value.map(str::to_owned).or_else(|| Some(words.next()?.to_string_lossy().into_owned()));
        match flag {
            PLUGIN => return Some((docker, words.cloned().collect())),
            // `docker help swarmstats` arrives as it was typed.
            "help" => return (words.next()? == PLUGIN).then(|| (docker, vec!["--help".into()])),
            "--config" => docker.config = Some(value()?.into()),
            "-c" | "--context" => docker.context = Some(value()?),
            "-H" | "--host" => docker.host = Some(value()?),
            "-l" | "--log-level" | "--tlscacert" | "--tlscert" | "--tlskey" => {
                value()?;
            }
            "-D" | "--debug" | "--tls" | "--tlsverify" => {}
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
        match parse(line.split_whitespace().map(OsString::from))? {
            Command::Stats(options) => Ok(options),
            other => panic!("{other:?}"),
        }
    }

    fn asked(line: &str) -> (View, Vec<String>) {
        let options = parsed(line).unwrap();
        (options.show.view, options.names)
    }

    fn host(options: &Options) -> Option<String> {
        options.target.host.as_ref().map(Host::to_string)
    }

    #[test]
    fn the_default_view_is_service() {
        assert_eq!(asked(""), (View::Service, vec![]));
        assert_eq!(asked("web api"), (View::Service, vec!["web".into(), "api".into()]));
        assert_eq!(asked("task web"), (View::Task, vec!["web".into()]));
        assert_eq!(asked("web node"), (View::Service, vec!["web".into(), "node".into()]), "only the first is a view");
        assert_eq!(asked("service node"), (View::Service, vec!["node".into()]), "a service may be called node");
        assert_eq!(asked("-- node"), (View::Service, vec!["node".into()]));
        assert_eq!(asked("ps web"), (View::Ps, vec!["web".into()]));
    }

    #[test]
    fn flags_stand_before_a_view_or_behind_it() {
        for line in ["--sort -cpu --filter cpu>5 node --filter pids>1 n1", "node n1 -f cpu>5 --sort=-cpu -f pids>1"] {
            let options = parsed(line).unwrap();
            assert_eq!((options.show.view, &options.names[..]), (View::Node, &["n1".to_owned()][..]), "{line}");
            assert_eq!((options.order.key.word(), options.order.reversed), ("cpu", true), "{line}");
            let both = Filters::read(&["cpu>5", "pids>1"], View::Node, Base::Cpu, false).unwrap();
            assert_eq!(options.filters, both, "{line}");
        }
        assert_eq!(asked("--no-stream service"), (View::Service, vec![]));
        assert!(!parsed("--sort -cpu --reverse").unwrap().order.reversed, "twice the other way round");
    }

    #[test]
    fn each_option_is_understood() {
        let options = parsed("--interval 500ms --count 3 --history --rates --of node --wide -a --no-trunc").unwrap();
        assert_eq!((options.interval, options.count), (Duration::from_millis(500), Some(3)));
        let show = Show {
            of: Base::Node,
            rates: true,
            wide: true,
            all: true,
            no_trunc: true,
            history: Some(30),
            view: View::Service,
        };
        assert_eq!(options.show, show);
        assert_eq!(parsed("--history=60 web").unwrap().show.history, Some(60));
        assert_eq!(asked("--history web").1, ["web"], "the number is written after =");
    }

    // As docker 28.2.2 was seen to call a plugin.
    #[test]
    fn docker_puts_its_own_flags_before_the_name() {
        let line = "--config /tmp/x -H tcp://1.2.3.4:5 -D --log-level=debug swarmstats task --host http://r:1 web";
        let options = parsed(line).unwrap();
        assert_eq!(
            (options.show.view, &*options.names[0], host(&options)),
            (View::Task, "web", Some("http://r:1".into()))
        );
        let docker = Docker { config: Some("/tmp/x".into()), host: Some("tcp://1.2.3.4:5".into()), context: None };
        assert_eq!(options.target.docker, docker);
        for line in ["-cc swarmstats", "-c=c swarmstats", "--tls -c c swarmstats"] {
            assert_eq!(parsed(line).unwrap().target.docker.context, Some("c".into()), "{line}");
        }
        assert_eq!(parsed("-Htcp://h:1 swarmstats").unwrap().target.docker.host, Some("tcp://h:1".into()));
        assert_eq!(parsed("--context=c swarmstats").unwrap().target.docker.context, Some("c".into()));
        assert_eq!(asked("swarmstats service swarmstats"), (View::Service, vec!["swarmstats".into()]));
    }

    #[test]
    fn standalone_flags_are_our_own() {
        for line in ["--no-stream swarmstats", "--sort cpu swarmstats", "-f cpu>1 swarmstats", "--wide swarmstats"] {
            assert_eq!(asked(line), (View::Service, vec!["swarmstats".into()]), "{line}");
        }
        assert_eq!(host(&parsed("--host http://r:1 service swarmstats").unwrap()), Some("http://r:1".into()));
        assert_eq!(asked("service swarmstats"), (View::Service, vec!["swarmstats".into()]));
    }

    #[test]
    fn help_comes_however_docker_asks_for_it() {
        for line in ["swarmstats --help", "--config /tmp/x help swarmstats", "help swarmstats"] {
            let early = parsed(line).unwrap_err();
            assert_eq!(early.code, 0);
            assert!(early.text.contains("Usage: docker swarmstats [OPTIONS] [NAME]..."), "{line}: {}", early.text);
            assert!(early.text.contains("Exit status:"), "{line}");
        }
        assert!(parsed("swarmstats help node").unwrap_err().text.contains("Usage: docker swarmstats node"));
        assert!(parsed("help").unwrap_err().text.contains("Usage: docker-swarmstats"));
        assert!(parsed("--help").unwrap_err().text.contains("Usage: docker-swarmstats"));
        assert_eq!(parsed("--version").unwrap_err().text, concat!("docker-swarmstats ", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn each_view_has_help_with_examples() {
        for word in ["service", "task", "node", "stack", "ps", "top", "doctor", "completion"] {
            let text = parsed(&format!("swarmstats {word} --help")).unwrap_err().text;
            assert!(text.contains(&format!("Usage: docker swarmstats {word}")), "{text}");
            assert!(text.contains("Examples:\n"), "{text}");
        }
    }

    #[test]
    fn a_script_comes_for_each_shell() {
        for shell in ["bash", "zsh", "fish"] {
            let early = parsed(&format!("swarmstats completion {shell}")).unwrap_err();
            assert!(early.code == 0 && early.text.contains("docker-swarmstats"), "{shell}");
        }
    }

    #[test]
    fn what_is_not_understood_is_a_usage_error() {
        for line in [
            "--interval 2",
            "--interval 1ms",
            "--interval 2h",
            "--count 0",
            "--history=1",
            "--of core",
            "--format yaml",
            "--format {{.Nope}}",
            "--sort nope",
            "--sort up",
            "node --sort stack",
            "--filter nope=1",
            "--host nonsense",
            "--host https://r:1",
            "--host",
            "ps",
            "completion",
        ] {
            assert_eq!(parsed(line).unwrap_err().code, USAGE, "{line}");
        }
        let all = parsed("--sort x --filter y=1 --filter z=2 --format w").unwrap_err().text;
        assert_eq!(["\"x\"", "\"y=1\"", "\"z=2\"", "\"w\""].map(|wrong| all.contains(wrong)), [true; 4], "{all}");
    }

    #[test]
    fn metadata_is_what_docker_demands_of_a_plugin() {
        let early = parsed("docker-cli-plugin-metadata").unwrap_err();
        let said: serde_json::Value = serde_json::from_str(&early.text).unwrap();
        assert_eq!((early.code, &said["SchemaVersion"]), (0, &"0.1.0".into()));
        assert!(!said["Vendor"].as_str().unwrap().is_empty(), "docker refuses a plugin without a vendor");
    }
}
