//! `docker swarmstats top`: the table on a screen of its own, with keys.
//!
//! [`keys`] makes keys of bytes and [`state`] frames of keys and answers; here is only the loop between them, the router
//! and the terminal. A frame is one write.

pub mod keys;
pub mod state;

use crate::cli::args::Options;
use crate::cli::ask::{self, Asker, Heard};
use crate::cli::docker::Config;
use crate::cli::hosts::{self, Found};
use crate::cli::screen::{Screen, frame};
use crate::cli::signals::{self, Signals, Told};
use crate::cli::table::Space;
use crate::cli::terminal::Terminal;
use crate::clock;
use keys::{Key, keys};
use state::{Then, Top};
use std::{
    future::Future,
    io::Read,
    pin::{Pin, pin},
    time::Duration,
};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// A search that takes longer is said.
const PATIENCE: Duration = Duration::from_millis(300);

type Asking = Pin<Box<dyn Future<Output = Result<Heard, ask::Error>>>>;

/// Runs until the user or a signal ends it.
///
/// # Errors
/// There is no terminal, or Docker's configuration is broken.
pub async fn run(options: &Options) -> Result<u8, super::Error> {
    let config = options.target.docker.config()?;
    Terminal::is_there()?;
    let shown = async {
        let found = search(options, &config).await?;
        let signals = Signals::of_a_terminal(true);
        let mut terminal = Terminal::take()?;
        let top = Top::new(options.clone(), found.host.to_string());
        Loop { screen: Screen::stdout(true), signals, found, top }.until_it_ends(&mut terminal).await
    };
    tokio::select! {
        // Signals are listened to before the terminal is taken.
        biased;
        () = super::told_to_stop(true) => Ok(0),
        ended = shown => ended,
    }
}

/// Finds the router while the terminal is still its user's.
async fn search(options: &Options, config: &Config) -> Result<Found, hosts::Error> {
    let mut found = pin!(hosts::find(&options.target, config));
    match timeout(PATIENCE, &mut found).await {
        Ok(found) => found,
        Err(_) => {
            eprintln!("looking for a router …");
            found.await
        }
    }
}

struct Loop {
    screen: Screen,
    signals: Signals,
    found: Found,
    top: Top,
}

impl Loop {
    async fn until_it_ends(mut self, terminal: &mut Terminal) -> Result<u8, super::Error> {
        let mut typed = listen();
        let mut ticks = paced(&self.top);
        let mut asking: Option<Asking> = None;
        loop {
            self.draw()?;
            tokio::select! {
                _ = ticks.tick(), if asking.is_none() && !self.top.is_paused() => asking = Some(self.ask()),
                heard = answered(&mut asking) => {
                    asking = None;
                    let heard = heard.map(|heard| heard.answer).map_err(|error| error.to_string());
                    self.top.take(heard, clock::wall());
                }
                key = typed.recv() => match key.map_or(Then::Quit, |key| self.top.key(key)) {
                    Then::Draw => {}
                    // What was asked before is of no use.
                    Then::Ask => {
                        asking = None;
                        ticks.reset_immediately();
                    }
                    Then::Pace => ticks = paced(&self.top),
                    Then::Quit => return Ok(0),
                },
                told = self.signals.next() => if told == Told::Sleep {
                    terminal.leave();
                    signals::sleep();
                    terminal.enter()?;
                },
            }
        }
    }

    fn ask(&self) -> Asking {
        let (mut asker, options) = (Asker::new(self.found.clone()), self.top.options().clone());
        Box::pin(async move { asker.ask(&options, false, true).await })
    }

    fn draw(&mut self) -> std::io::Result<()> {
        let Space { width, height } = self.screen.space();
        let lines = self.top.frame(Space { width, height }, clock::wall());
        self.screen.print(&frame(&lines, width, self.screen.has_colours()))
    }
}

fn paced(top: &Top) -> Interval {
    let mut ticks = interval(top.interval());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

async fn answered(asking: &mut Option<Asking>) -> Result<Heard, ask::Error> {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

/// Keys as they come; the channel closes with the terminal. The thread waits in a read, and ends with the process.
fn listen() -> mpsc::Receiver<Key> {
    let (say, heard) = mpsc::channel(64);
    std::thread::spawn(move || {
        let (mut input, mut bytes) = (std::io::stdin().lock(), [0; 256]);
        while let Ok(n @ 1..) = input.read(&mut bytes) {
            if keys(&bytes[..n]).into_iter().any(|key| say.blocking_send(key).is_err()) {
                return;
            }
        }
    });
    heard
}
