//! `docker swarmstats`: asks any router over HTTP and shows its answer as docker stats would, live or once.
//!
//! An answer always comes with what it lacks. Only the first question may fail for good: while a table lives, a
//! router that does not answer is said below it and asked again. It deliberately makes no figure itself: sums and
//! percentages are the router's (but for the lines of a history, which are made from points).

use std::{io, pin::pin, process::ExitCode};
use tokio::{
    io::AsyncReadExt,
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval},
};

pub mod view;
pub mod args;
pub mod docker;
pub mod hosts;
pub mod client;
pub mod format;
pub mod row;
pub mod answer;
pub mod key;
pub mod filter;
pub mod sort;
pub mod history;
pub mod ask;
pub mod field;
pub mod columns;
pub mod table;
pub mod template;
pub mod csv;
pub mod document;
pub mod screen;
pub mod output;
pub mod complete;
pub mod doctor;
pub mod ring;
pub mod terminal;
pub mod top;
mod signals;

use args::{Command, Options};
use ask::{Asker, Heard};
use output::Format;
use screen::Screen;
use signals::{Signals, Told};
use sort::Steady;

/// Why the command ends without what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Docker's configuration is broken.
    #[error(transparent)]
    Docker(#[from] docker::Error),
    /// What it says of the router is.
    #[error(transparent)]
    Host(#[from] hosts::Error),
    /// What it says of the format is.
    #[error("plugins.swarmstats.format in Docker's config.json: {0}")]
    Format(#[from] output::Error),
    /// No answer.
    #[error(transparent)]
    Ask(#[from] ask::Error),
    /// Nothing to tell of the ring.
    #[error(transparent)]
    Ring(#[from] ring::Error),
    /// There is no terminal for a full screen.
    #[error(transparent)]
    Terminal(#[from] terminal::Error),
    /// Nobody reads what is printed.
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
}

/// Exit codes, as `--help` tells them.
const FAILED: u8 = 1;
const WRONG_NAME: u8 = 2;
const INCOMPLETE: u8 = 3;

/// So many questions on end without an answer, and another router is looked for where nobody named one.
const PATIENCE: u64 = 3;

/// Does what the command line says; gives the exit code.
pub async fn run(command: &Command) -> ExitCode {
    let ended = match command {
        Command::Stats(options) => stats(options).await,
        Command::Top(options) => top::run(options).await,
        Command::Guard => {
            terminal::guard();
            Ok(0)
        }
        Command::Doctor(options) => doctor::run(options).await,
        Command::Ring(options) => ring::run(options).await,
        Command::Complete(tab) => {
            screen::write(io::stdout(), &complete::answer(tab).await).map(|()| 0).map_err(Error::from)
        }
    };
    match ended {
        Ok(code) => code.into(),
        // `docker swarmstats | head` has what it wanted.
        Err(Error::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            let code = match error {
                Error::Ask(error) if error.is_a_wrong_name() => WRONG_NAME,
                Error::Ring(ring::Error::Unknown(_)) => WRONG_NAME,
                Error::Docker(_)
                | Error::Host(_)
                | Error::Format(_)
                | Error::Ring(ring::Error::Question(_))
                | Error::Terminal(terminal::Error::None) => args::USAGE,
                _ => FAILED,
            };
            code.into()
        }
    }
}

/// Asks and shows until told to stop, or once; gives the exit code.
async fn stats(options: &Options) -> Result<u8, Error> {
    let config = options.target.docker.config()?;
    let format = match (&options.format, config.setting("format")) {
        (Some(format), _) => format.clone(),
        (None, Some(text)) => Format::read(text)?,
        (None, None) => Format::default(),
    };
    let mut screen = Screen::stdout(format.is_table() && !options.no_stream);
    let stop = told_to_stop(screen.is_live());
    let watched = async {
        let asker = Asker::new(hosts::find(&options.target, &config).await?);
        Watch { options, config: &config, format: &format, asker, steady: Steady::default(), last: None }
            .until_it_ends(&mut screen)
            .await
    };
    // The screen is dropped, so the cursor back, before anything else is said.
    tokio::select! {
        ended = watched => ended,
        () = stop => Ok(0),
    }
}

/// A word on standard error.
fn say(text: &str) {
    for line in text.lines() {
        let line = format!("docker-swarmstats: {}\n", format::printable(line));
        screen::write(io::stderr(), &line).unwrap_or(()); // nobody is left to be told
    }
}

/// What the router last said, when, and what went wrong since.
struct Last {
    heard: Heard,
    at: Instant,
    trouble: Option<String>,
}

struct Watch<'a> {
    options: &'a Options,
    config: &'a docker::Config,
    format: &'a Format,
    asker: Asker,
    steady: Steady,
    last: Option<Last>,
}

impl Watch<'_> {
    async fn until_it_ends(mut self, screen: &mut Screen) -> Result<u8, Error> {
        let mut ticks = interval(self.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut signals = Signals::of_a_terminal(screen.is_live());
        let most = if self.options.no_stream { Some(1) } else { self.options.count };
        let (mut answers, mut failures) = (0, 0);
        loop {
            let heard = {
                let (forgiving, whole) = (self.last.is_some(), self.format.needs_all_stats());
                let asking = async {
                    ticks.tick().await;
                    self.asker.ask(self.options, whole, forgiving).await
                };
                let mut asking = pin!(asking);
                loop {
                    tokio::select! {
                        heard = &mut asking => break heard,
                        told = signals.next() => if told == Told::Sleep {
                            screen.leave()?;
                            signals::sleep();
                        },
                    }
                    // Another size, or the terminal is ours again.
                    if let Some(last) = &self.last {
                        last.draw(self.options, self.format, screen)?;
                    }
                }
            };
            match heard {
                Ok(heard) => {
                    self.show(heard, screen)?;
                    failures = 0;
                }
                Err(error) if self.last.is_none() => return Err(error.into()),
                Err(error) => {
                    self.complain(&error.to_string(), screen)?;
                    failures += 1;
                    if most.is_some_and(|most| failures >= most) {
                        return Ok(FAILED);
                    }
                    if failures % PATIENCE == 0 && hosts::named(&self.options.target, self.config)?.is_none() {
                        self.asker = Asker::new(hosts::find(&self.options.target, self.config).await?);
                    }
                }
            }
            answers += u64::from(self.last.as_ref().is_some_and(|last| last.trouble.is_none()));
            if most.is_some_and(|most| answers >= most) {
                let complete = self.last.is_some_and(|last| last.heard.answer.complete);
                return Ok(if complete { 0 } else { INCOMPLETE });
            }
        }
    }

    fn show(&mut self, mut heard: Heard, screen: &mut Screen) -> io::Result<()> {
        self.steady.arrange(self.options.order, &mut heard.answer.rows);
        self.format.print(self.options, &heard, self.last.is_none(), screen)?;
        self.last = Some(Last { heard, at: Instant::now(), trouble: None });
        Ok(())
    }

    /// Shows the last answer again, with why there is no newer one; where no table lives, says so once.
    fn complain(&mut self, trouble: &str, screen: &mut Screen) -> io::Result<()> {
        let Some(last) = &mut self.last else { return Ok(()) };
        let news = last.trouble.as_deref() != Some(trouble);
        last.trouble = Some(trouble.to_owned());
        if screen.is_live() {
            last.draw(self.options, self.format, screen)?;
        } else if news {
            say(trouble);
        }
        Ok(())
    }
}

impl Last {
    fn draw(&self, options: &Options, format: &Format, screen: &mut Screen) -> io::Result<()> {
        let ago = format::age(self.at.elapsed().as_secs_f64());
        let said = self.trouble.as_ref().map(|trouble| format!("no answer for {ago}: {trouble}"));
        format.draw(options, &self.heard.answer, said.as_deref(), screen)
    }
}

/// Returns once the user or Docker wants the command to end. Signals are caught only where a cursor is to be restored.
pub(crate) async fn told_to_stop(live: bool) {
    let signals = async {
        let (Ok(mut interrupt), Ok(mut quit), Ok(mut terminate), Ok(mut hangup)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::quit()),
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) else {
            return std::future::pending().await; // not caught, so they end the process themselves
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    };
    let (signals, docker) = (pin!(signals), pin!(docker_hangs_up()));
    tokio::select! {
        () = signals, if live => {}
        () = docker => {}
    }
}

/// Docker keeps a socket open to its plugin, and closes it when it was itself told to end.
async fn docker_hangs_up() {
    let address = std::env::var("DOCKER_CLI_PLUGIN_SOCKET").unwrap_or_default();
    let address = match address.strip_prefix('@') {
        Some(name) => format!("\0{name}"), // of the abstract name space
        None => address,
    };
    if let Ok(mut socket) = UnixStream::connect(address).await {
        // It says nothing; whatever ends the reading ends us.
        while socket.read(&mut [0; 64]).await.is_ok_and(|bytes| bytes > 0) {}
    } else {
        std::future::pending().await
    }
}
