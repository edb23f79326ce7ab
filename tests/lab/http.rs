//! One GET over TCP or a unix socket, with deadlines. HTTP/1.0, so that an answer is what comes until the end.

use serde_json::Value;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::{Duration, Instant},
};

const DEADLINE: Duration = Duration::from_secs(15);

/// What came back.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
    /// From before connecting to the last byte.
    pub(crate) took: Duration,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.body))
    }
}

/// GET of `http://ADDRESS:PORT/…`.
pub(crate) fn get(url: &str) -> io::Result<Answer> {
    let begun = Instant::now();
    let (host, path) = split(url);
    let address: SocketAddr = host.parse().unwrap_or_else(|_| panic!("{url} names no address"));
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    ask(stream, begun, host, path)
}

/// GET of a path at an engine's socket.
pub(crate) fn get_unix(socket: &Path, path: &str) -> io::Result<Answer> {
    let begun = Instant::now();
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    ask(stream, begun, "engine", path)
}

fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    rest.find('/').map_or((rest, "/"), |at| rest.split_at(at))
}

fn ask(mut stream: impl Read + Write, begun: Instant, host: &str, path: &str) -> io::Result<Answer> {
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let torn = || io::Error::new(io::ErrorKind::UnexpectedEof, "no whole answer");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(torn)?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(torn)?;
    Ok(Answer { code, body: body.into(), took: begun.elapsed() })
}

/// A text as a query's value.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
