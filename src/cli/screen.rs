//! Where lines are printed: a terminal redrawn in place, a terminal once, or anything else as plain text.
//!
//! A frame is one write, from the top left corner, each line erasing what stood behind it: nothing flickers. The
//! cursor is hidden while the table lives and is back when a [`Screen`] is dropped. What is no terminal never gets an
//! escape code.

use crate::cli::table::{Line, Space, Style};
use rustix::termios::tcgetwinsize;
use std::io::{self, IsTerminal, Write};

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

    /// Prints a text as it is.
    ///
    /// # Errors
    /// What writing fails with.
    pub fn print(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.live && self.drawn {
            self.print("\x1b[?25h").unwrap_or(()); // the terminal is gone, then so is its cursor
        }
    }
}

fn plain(lines: &[Line], colours: bool) -> String {
    lines.iter().map(|line| painted(line, colours) + "\n").collect()
}

fn frame(lines: &[Line], width: Option<usize>, colours: bool) -> String {
    let mut frame = String::from("\x1b[H");
    for line in lines {
        frame += &painted(line, colours);
        // After a full line the cursor still stands on its last character, which erasing would take.
        if width.is_none_or(|width| line.text.chars().count() < width) {
            frame += "\x1b[K";
        }
        frame.push('\n');
    }
    frame + "\x1b[J"
}

fn painted(line: &Line, colours: bool) -> String {
    let code = match line.style {
        Style::Plain | Style::Note => "",
        Style::Heading => "1",
        Style::Partial => "33",
        Style::Stale => "2",
        Style::Alarm => "1;33",
    };
    if colours && !code.is_empty() && !line.text.is_empty() {
        format!("\x1b[{code}m{}\x1b[0m", line.text)
    } else {
        line.text.clone()
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
    fn without_colours_plain_text_is_only_text() {
        assert_eq!(plain(&lines(), false), "NAME\nweb.1\n");
    }
}
