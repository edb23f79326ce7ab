//! Bytes of a terminal → keys. Pure.
//!
//! What a terminal sends for one key comes in one piece, so an escape alone is the key of that name. What is not known
//! is no key.

/// A key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A character.
    Char(char),
    /// Return.
    Enter,
    /// Esc.
    Escape,
    /// Tab.
    Tab,
    /// Shift and Tab.
    BackTab,
    /// Backspace, or Delete.
    Backspace,
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the first.
    Home,
    /// To the last.
    End,
}

/// The keys of what was read at once.
pub fn keys(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let (mut rest, mut keys) = (&*text, vec![]);
    while let Some(first) = rest.chars().next() {
        if first == '\x1b' {
            let (key, length) = sequence(rest);
            keys.extend(key);
            rest = &rest[length..];
            continue;
        }
        keys.extend(match first {
            '\r' | '\n' => Some(Key::Enter),
            '\t' => Some(Key::Tab),
            '\x08' | '\x7f' => Some(Key::Backspace),
            c if c.is_control() || c == char::REPLACEMENT_CHARACTER => None,
            c => Some(Key::Char(c)),
        });
        rest = &rest[first.len_utf8()..];
    }
    keys
}

/// A key that begins with an escape, and how many bytes it takes.
fn sequence(text: &str) -> (Option<Key>, usize) {
    let body = text.strip_prefix("\x1b[").or_else(|| text.strip_prefix("\x1bO"));
    let Some(body) = body.filter(|body| !body.is_empty()) else { return (Some(Key::Escape), 1) };
    // Parameters, then one last character.
    let end = body.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(body.len());
    let last = body[end..].chars().next();
    let key = match (last, body[..end].split(';').next()) {
        (Some('A'), _) => Some(Key::Up),
        (Some('B'), _) => Some(Key::Down),
        (Some('H'), _) | (Some('~'), Some("1" | "7")) => Some(Key::Home),
        (Some('F'), _) | (Some('~'), Some("4" | "8")) => Some(Key::End),
        (Some('Z'), _) => Some(Key::BackTab),
        (Some('~'), Some("5")) => Some(Key::PageUp),
        (Some('~'), Some("6")) => Some(Key::PageDown),
        (Some('~'), Some("3")) => Some(Key::Backspace),
        _ => None,
    };
    (key, 2 + end + last.map_or(0, char::len_utf8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Key::{BackTab, Backspace, Char, Down, End, Enter, Escape, Home, PageDown, PageUp, Tab, Up};

    // As xterm, Linux's console and tmux send them.
    #[test]
    fn keys_are_known_however_a_terminal_writes_them() {
        assert_eq!(keys(b"c/\xc3\xa9"), [Char('c'), Char('/'), Char('\u{e9}')]);
        assert_eq!(keys(b"\x1b[A\x1bOA\x1b[B\x1bOB\x1b[1;5A"), [Up, Up, Down, Down, Up]);
        assert_eq!(
            keys(b"\x1b[5~\x1b[6~\x1b[H\x1b[1~\x1bOH\x1b[F\x1b[4~"),
            [PageUp, PageDown, Home, Home, Home, End, End]
        );
        assert_eq!(keys(b"\x1b\r\n\t\x1b[Z\x7f\x08"), [Escape, Enter, Enter, Tab, BackTab, Backspace, Backspace]);
    }

    #[test]
    fn what_is_not_known_is_no_key_and_spoils_none() {
        assert_eq!(keys(b"\x1b[15~q"), [Char('q')]);
        assert_eq!(keys(b"\xff\x01\x1b[?q"), [Char('q')]);
        for n in 0..4 {
            keys(&b"\x1b[6~"[..n]);
        }
    }
}
