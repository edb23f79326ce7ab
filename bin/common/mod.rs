//! What the two daemons share: arguments, reading the config, logs, signals, exit codes.

use clap::Parser;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
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
    /// Ask the daemon that runs here with this config whether it is alive, and exit with 0 or 1 (for health checks)
    #[arg(long)]
    pub(crate) healthy: bool,
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

/// Reads and checks the config, printing all its mistakes. `Err` is how to exit; so are `--check` and `--healthy`, for
/// which `members` says what is wrong with a file of members and `listens` where the API is.
pub(crate) fn config<C>(
    args: &Args,
    parse: impl Fn(&str, &MemberId) -> Result<C, Mistakes>,
    members: impl Fn(&C) -> Result<(), String>,
    listens: impl Fn(&C) -> Option<SocketAddr>,
) -> Result<C, ExitCode> {
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
        Ok(config) if args.check => match members(&config) {
            Ok(()) => {
                println!("{place}: good");
                Err(ExitCode::SUCCESS)
            }
            Err(why) => {
                eprintln!("{place}:\n{why}");
                Err(ExitCode::from(USAGE))
            }
        },
        Ok(config) if args.healthy => Err(healthy(listens(&config))),
        Ok(config) => Ok(config),
        Err(mistakes) => {
            eprintln!("{place}:\n{mistakes}");
            Err(ExitCode::from(USAGE))
        }
    }
}

/// Asks the daemon that listens at an address of this machine for `/healthz`.
fn healthy(address: Option<SocketAddr>) -> ExitCode {
    let Some(mut address) = address else {
        eprintln!("api.listen is none: there is nothing to ask");
        return ExitCode::FAILURE;
    };
    if address.ip().is_unspecified() {
        let v4 = address.is_ipv4();
        address.set_ip(if v4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    match health(address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{address}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn health(address: SocketAddr) -> std::io::Result<()> {
    let deadline = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&address, deadline)?;
    stream.set_read_timeout(Some(deadline))?;
    stream.write_all(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = [0; 12]; // "HTTP/1.x 200"
    stream.read_exact(&mut answer)?;
    if answer.ends_with(b" 200") {
        return Ok(());
    }
    Err(std::io::Error::other(format!("it answers {:?}", String::from_utf8_lossy(&answer))))
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

/// Cancelled by SIGTERM or SIGINT; a second one ends the process at once.
pub(crate) fn stop_on_signals() -> std::io::Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let stop = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn({
        let stop = stop.clone();
        async move {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            stop.cancel();
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            tracing::warn!("a second signal: ended at once, whatever is not finished");
            std::process::exit(1);
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
