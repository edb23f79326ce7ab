//! What the two daemons share: arguments, reading the config, logs, signals, exit codes.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use swarmstats::config::Mistakes;
use swarmstats::model::MemberId;
use tokio_util::sync::CancellationToken;

/// Usage and config mistakes.
pub(crate) const USAGE: u8 = 64;

/// The daemons' arguments; each gives its own name and examples.
#[derive(Parser, Debug)]
pub(crate) struct Args {
    /// The config file (YAML); without it the defaults hold, as config/*.yaml shows them
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Check the config, say what is wrong with it, and exit
    #[arg(long)]
    pub(crate) check: bool,
}

/// Parses the command line; `examples` go below the help.
pub(crate) fn args(name: &'static str, about: &'static str, examples: &'static str) -> Result<Args, ExitCode> {
    use clap::{CommandFactory, FromArgMatches};
    let command = Args::command().name(name).about(about).version(env!("CARGO_PKG_VERSION")).after_help(examples);
    let parsed = command.try_get_matches().and_then(|matches| Args::from_arg_matches(&matches));
    parsed.map_err(|error| {
        // Help and version are errors to clap, but not to people.
        let code = if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        drop(error.print());
        code
    })
}

/// Reads and checks the config, printing all its mistakes. `Err` is how to exit; so is `--check`.
pub(crate) fn config<C>(args: &Args, parse: impl Fn(&str, &MemberId) -> Result<C, Mistakes>) -> Result<C, ExitCode> {
    let (place, text) = match &args.config {
        None => ("the defaults".to_string(), String::new()),
        Some(path) => match std::fs::read_to_string(path) {
            Ok(text) => (path.display().to_string(), text),
            Err(error) => {
                eprintln!("cannot read {}: {error}", path.display());
                return Err(ExitCode::from(USAGE));
            }
        },
    };
    match parse(&text, &host_name()) {
        Ok(_) if args.check => {
            println!("{place}: good");
            Err(ExitCode::SUCCESS)
        }
        Ok(config) => Ok(config),
        Err(mistakes) => {
            eprintln!("{place}:\n{mistakes}");
            Err(ExitCode::from(USAGE))
        }
    }
}

/// This machine's name, as an identity that can be configured otherwise.
fn host_name() -> MemberId {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    MemberId::new(name).unwrap_or_else(|_| MemberId::new("localhost").expect("a good name"))
}

/// Logs to stderr, by the config's level or RUST_LOG; colours only on a terminal.
pub(crate) fn logs(level: &str) {
    use std::io::IsTerminal;
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    let stderr = std::io::stderr;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr).with_ansi(stderr().is_terminal()).init();
}

/// Cancelled by SIGTERM or SIGINT.
pub(crate) fn stop_on_signals() -> std::io::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let stop = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn({
        let stop = stop.clone();
        async move {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            stop.cancel();
        }
    });
    Ok(stop)
}

/// Runs a daemon on the runtime; an error is printed once, with its causes.
pub(crate) fn run(daemon: impl Future<Output = Result<(), Box<dyn std::error::Error>>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(daemon);
    // A look-up or a file that hangs must not hold up the end: its thread goes with the process.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
