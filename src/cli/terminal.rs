//! A whole terminal for one command: keys come at once and unseen, the frame is on a screen of its own.
//!
//! However the command ends, the terminal is as it was: when it is dropped, when it panics (before the panic's words), and
//! when it is killed. For that a *guardian*, a second process of the same program in a process group of its own, has
//! learned the terminal's mode before it was changed, and waits at a pipe that only the command holds open: where the
//! pipe closes without a farewell, it restores the terminal. It takes no signal but SIGKILL.

use nix::sys::signal::SigSet;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The word that makes this program a guardian.
pub const GUARDIAN: &str = "__restore-terminal";
/// What the guardian hears when there is nothing left to restore.
const FAREWELL: u8 = b'.';
/// The other screen, and no cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Colours off, the cursor, the first screen.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// Why there is no terminal to take.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A pipe, a file, or a terminal that can do nothing.
    #[error("top needs a terminal for its keys and its screen; use docker swarmstats or --no-stream elsewhere")]
    None,
    /// It cannot be changed.
    #[error("cannot take the terminal: {0}")]
    Mode(#[from] io::Error),
}

/// The terminal, taken.
pub struct Terminal {
    before: Termios,
    guardian: Option<Child>,
}

impl Terminal {
    /// Whether there is one to take.
    ///
    /// # Errors
    /// Standard input and output are no terminal.
    pub fn is_there() -> Result<(), Error> {
        let dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        if dumb || !io::stdin().is_terminal() || !io::stdout().is_terminal() { Err(Error::None) } else { Ok(()) }
    }

    /// Takes standard input and output. Whoever takes it listens to signals already, for only he can give it back.
    ///
    /// # Errors
    /// They are no terminal, or it cannot be changed.
    pub fn take() -> Result<Terminal, Error> {
        Terminal::is_there()?;
        let before = tcgetattr(io::stdout()).map_err(io::Error::from)?;
        let mut terminal = Terminal { guardian: guardian().ok(), before };
        let (saved, words) = (terminal.before.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            restore(&saved);
            words(panic);
        }));
        terminal.enter()?;
        Ok(terminal)
    }

    /// Takes it, again.
    ///
    /// # Errors
    /// It cannot be changed.
    pub fn enter(&mut self) -> io::Result<()> {
        let mut mode = self.before.clone();
        // Ctrl-C and Ctrl-Z stay signals, and line ends what they are.
        mode.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        mode.special_codes[SpecialCodeIndex::VMIN] = 1;
        mode.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdout(), OptionalActions::Drain, &mode)?;
        say(ENTER)
    }

    /// Gives it back for a while.
    pub fn leave(&mut self) {
        restore(&self.before);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
        let Some(mut guardian) = self.guardian.take() else { return };
        if let Some(mut pipe) = guardian.stdin.take() {
            pipe.write_all(&[FAREWELL]).unwrap_or(()); // if it is gone, it restores nothing either
        }
        drop(guardian.wait());
    }
}

fn restore(before: &Termios) {
    // The terminal may be gone; then there is nothing to restore.
    tcsetattr(io::stdout(), OptionalActions::Now, before).unwrap_or(());
    say(LEAVE).unwrap_or(());
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Starts one, and waits until it knows the terminal's mode.
fn guardian() -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(GUARDIAN).stdin(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    if let Some(mut ready) = child.stderr.take() {
        ready.read_exact(&mut [0])?;
    }
    Ok(child)
}

/// A guardian's life.
pub fn guard() {
    // Blocked, SIGTTOU lets a process in the background change the terminal, and the others do not end this one.
    let blocked = SigSet::all().thread_block();
    let Ok(before) = tcgetattr(io::stdout()) else { return };
    if blocked.is_err() || io::stderr().write_all(&[FAREWELL]).is_err() {
        return;
    }
    let mut heard = vec![];
    if io::stdin().read_to_end(&mut heard).is_err() || heard.is_empty() {
        restore(&before);
    }
}
