//! Where lines are printed: a terminal redrawn in place, a terminal once, or anything else as plain text.
//!
//! A frame is one write, from the top left corner, each line erasing what stood behind it: nothing flickers. The
//! cursor is hidden while the table lives and is back when a [`Screen`] is left or dropped. What is no terminal never
//! gets an escape code.

use crate::cli::table::{Line, Space, Style};
use rustix::termios::tcgetwinsize;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

/// Standard output.
#[derive(Debug)]
pub struct Screen {
    terminal: bool,
    colours: bool,
    /// Redrawn in place.
    live: bool,
    drawn: bool,
}

impl Screen {
    /// Standard output; `live` asks for a table redrawn in place, which only a terminal can do.
    pub fn stdout(live: bool) -> Screen {
        let says = |name: &str| std::env::var_os(name).unwrap_or_default();
        let terminal = io::stdout().is_terminal() && says("TERM") != "dumb";
        Screen { terminal, colours: terminal && says("NO_COLOR").is_empty(), live: live && terminal, drawn: false }
    }

    /// Whether it is redrawn in place.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Whether colours may be used.
    pub fn has_colours(&self) -> bool {
        self.colours
    }

    /// What fits on it now.
    pub fn space(&self) -> Space {
        if !self.terminal {
            return Space { width: None, height: None };
        }
        let (width, height) = match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24), // a terminal that does not know its size
        };
        // The last line stays free for the cursor.
        Space { width: Some(width), height: self.live.then_some(height - 1) }
    }

    /// Shows a table instead of the last one, or after it.
    ///
    /// # Errors
    /// What writing fails with.
    pub fn show(&mut self, lines: &[Line]) -> io::Result<()> {
        let Space { width, height } = self.space();
        let mut text = String::new();
        if self.live && !self.drawn {
            // What stood there moves up, out of the table's way.
            text += &"\n".repeat(height.unwrap_or(0));
            text += "\x1b[?25l";
        } else if !self.live && self.drawn {
            text.push('\n');
        }
        self.drawn = true;
        text += &if self.live { frame(lines, width, self.colours) } else { plain(lines, self.colours) };
        self.print(&text)
    }

    /// Gives the terminal back as it was, with the last table on it; the next [`show`](Screen::show) takes it again.
    ///
    /// # Errors
    /// What writing fails with.
    pub fn leave(&mut self) -> io::Result<()> {
        if self.live && self.drawn {
            self.drawn = false;
            self.print("\x1b[?25h")?;
        }
        Ok(())
    }

    /// Prints a text as it is.
    ///
    /// # Errors
    /// What writing fails with.
    pub fn print(&mut self, text: &str) -> io::Result<()> {
        write(io::stdout(), text)
    }
}

/// Writes a text at once, past the buffers of the standard library, which would break it at its last line.
///
/// # Errors
/// What writing fails with.
pub fn write(to: impl AsFd, text: &str) -> io::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(&to, rest))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => rest = &rest[written..],
        }
    }
    Ok(())
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave().unwrap_or(()); // the terminal is gone, then so is its cursor
    }
}

fn plain(lines: &[Line], colours: bool) -> String {
    lines.iter().fold(String::new(), |mut text, line| {
        paint(&mut text, line, colours);
        text.push('\n');
        text
    })
}

/// The bytes of one frame of a table that is redrawn in place.
pub fn frame(lines: &[Line], width: Option<usize>, colours: bool) -> String {
    let mut frame = String::from("\x1b[H");
    for line in lines {
        paint(&mut frame, line, colours);
        // After a full line the cursor still stands on its last character, which erasing would take.
        if width.is_none_or(|width| line.text.chars().count() < width) {
            frame += "\x1b[K";
        }
        frame.push('\n');
    }
    frame + "\x1b[J"
}

fn paint(text: &mut String, line: &Line, colours: bool) {
    let code = match line.style {
        Style::Plain | Style::Note => "",
        Style::Heading => "1",
        Style::Partial => "33",
        Style::Stale => "2",
        Style::Alarm => "1;33",
        Style::Selected => "7",
    };
    if colours && !code.is_empty() && !line.text.is_empty() {
        for part in ["\x1b[", code, "m", &line.text, "\x1b[0m"] {
            text.push_str(part);
        }
    } else {
        text.push_str(&line.text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> [Line; 2] {
        [("NAME", Style::Heading), ("web.1", Style::Plain)].map(|(text, style)| Line { text: text.into(), style })
    }

    #[test]
    fn a_frame_starts_at_home_erases_behind_each_line_and_below_the_last() {
        assert_eq!(frame(&lines(), Some(80), false), "\x1b[HNAME\x1b[K\nweb.1\x1b[K\n\x1b[J");
        assert_eq!(
            frame(&lines(), Some(5), true),
            "\x1b[H\x1b[1mNAME\x1b[0m\x1b[K\nweb.1\n\x1b[J",
            "web.1 fills its line"
        );
    }

    #[test]
    fn a_frame_is_one_write() {
        let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap(); // which keeps writes apart
        let text = frame(&lines(), Some(80), true);
        write(&theirs, &text).unwrap();
        let mut read = [0; 1000];
        assert_eq!(ours.recv(&mut read).unwrap(), text.len());
    }

    #[test]
    fn without_colours_plain_text_is_only_text() {
        assert_eq!(plain(&lines(), false), "NAME\nweb.1\n");
    }
}
