//! What a terminal tells the command that draws on it: it has another size, or another command wants it (Ctrl-Z).
//!
//! Only a table that is redrawn in place listens; otherwise the signals do what they always do.

use rustix::process::{Signal as Kind, getpid, kill_process};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    /// The terminal has another size.
    Resized,
    /// The user wants it for something else: leave it, then [`sleep`].
    Sleep,
}

/// The signals of a terminal.
pub(super) struct Signals {
    size: Option<Signal>,
    stop: Option<Signal>,
}

impl Signals {
    /// Listens, if a table lives there.
    pub(super) fn of_a_terminal(live: bool) -> Signals {
        let listen = |kind| if live { signal(kind).ok() } else { None };
        Signals { size: listen(SignalKind::window_change()), stop: listen(SignalKind::from_raw(Kind::TSTP.as_raw())) }
    }

    /// Returns when the terminal tells something. May be dropped and asked again: nothing is lost.
    pub(super) async fn next(&mut self) -> Told {
        tokio::select! {
            () = heard(&mut self.size) => Told::Resized,
            () = heard(&mut self.stop) => Told::Sleep,
        }
    }
}

async fn heard(signal: &mut Option<Signal>) {
    let heard = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if heard.is_none() {
        std::future::pending().await
    }
}

/// Stops this process until the shell lets it go on (SIGCONT).
pub(super) fn sleep() {
    kill_process(getpid(), Kind::STOP).unwrap_or(()); // one may always stop oneself
}
