//! One question to a router over HTTP: a path in, a status and a bounded body out.
//!
//! Each question has a connection of its own, a deadline over everything ([`DEADLINE`]) and a largest answer
//! ([`MAX_BODY`]). It deliberately knows nothing of what the body means.

use crate::cli::hosts::Host;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use std::{
    error::Error as _,
    fmt::Write as _,
    time::{Duration, SystemTime},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// For everything from the first packet to the last byte; a router itself answers, partially if need be, well before.
pub const DEADLINE: Duration = Duration::from_secs(5);
/// The largest answer read, in bytes.
pub const MAX_BODY: usize = 64 << 20;

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens there, or there is no such place.
    #[error("cannot reach a router at {0}: {1}; name another with --host or SWARMSTATS_HOST")]
    Unreachable(Host, std::io::Error),
    /// The deadline is over.
    #[error("the router at {0} did not answer within {limit} s", limit = .1.as_secs_f64())]
    Late(Host, Duration),
    /// More than [`MAX_BODY`].
    #[error("the answer of the router at {0} is larger than {limit} MiB; ask for fewer by NAME", limit = MAX_BODY >> 20)]
    TooLarge(Host),
    /// Not HTTP, or broken off.
    #[error("{0} did not answer as a router does: {1}")]
    Http(Host, String),
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    /// HTTP's.
    pub status: StatusCode,
    /// At most [`MAX_BODY`].
    pub body: Bytes,
    /// The answerer's clock, in whole seconds, if it tells.
    pub date: Option<SystemTime>,
}

/// Asks for a path, which is already encoded (see [`encoded`]).
///
/// # Errors
/// Whatever kept a whole reply from coming; a status such as 404 is a reply.
pub async fn get(host: &Host, path: &str) -> Result<Reply, Error> {
    get_within(DEADLINE, host, path).await
}

/// Asks with a deadline of its own.
///
/// # Errors
/// As [`get`].
pub async fn get_within(deadline: Duration, host: &Host, path: &str) -> Result<Reply, Error> {
    let exchanged = async {
        let to = (&*host.name, host.port);
        let stream = TcpStream::connect(to).await.map_err(|error| Error::Unreachable(host.clone(), error))?;
        let reply = exchange(stream, host.to_string().trim_start_matches("http://"), path).await;
        reply.map_err(|fault| match fault {
            Fault::TooLarge => Error::TooLarge(host.clone()),
            Fault::Http(why) => Error::Http(host.clone(), why),
        })
    };
    tokio::time::timeout(deadline, exchanged).await.unwrap_or_else(|_| Err(Error::Late(host.clone(), deadline)))
}

/// Asks an engine at a socket of this machine; why it does not answer matters to nobody.
pub(super) async fn get_from_socket(deadline: Duration, socket: &str, path: &str) -> Result<Reply, ()> {
    let exchanged = async {
        let stream = UnixStream::connect(socket).await.map_err(|_| ())?;
        exchange(stream, "docker", path).await.map_err(|_| ())
    };
    tokio::time::timeout(deadline, exchanged).await.unwrap_or(Err(()))
}

enum Fault {
    TooLarge,
    Http(String),
}

async fn exchange<S>(stream: S, name: &str, path: &str) -> Result<Reply, Fault>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let http = |error: hyper::Error| {
        let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
        Fault::Http(format!("{error}{cause}"))
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
    let request = Request::get(path)
        .header(header::HOST, name)
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, concat!("docker-swarmstats/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .map_err(|error| Fault::Http(error.to_string()))?;
    let reply = async {
        let response = sender.send_request(request).await.map_err(http)?;
        let status = response.status();
        let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(|error| match error
            .downcast::<hyper::Error>()
        {
            Ok(error) => http(*error),
            Err(error) if error.is::<LengthLimitError>() => Fault::TooLarge,
            Err(error) => Fault::Http(error.to_string()),
        })?;
        Ok(Reply { status, body: body.to_bytes(), date })
    };
    // The connection moves the bytes; what fails in it, the reply says too.
    tokio::pin!(reply, connection);
    tokio::select! {
        biased;
        reply = &mut reply => reply,
        _ = &mut connection => reply.await,
    }
}

/// A name as one segment of a path or the value of a query: everything but RFC 3986's unreserved bytes as `%XX`.
pub fn encoded(name: &str) -> String {
    name.bytes().fold(String::with_capacity(name.len()), |mut path, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => path.push(byte.into()),
            _ => write!(path, "%{byte:02X}").unwrap_or(()), // a String takes all
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_as_one_segment() {
        assert_eq!(encoded("shop_web.1"), "shop_web.1");
        assert_eq!(encoded("compose/p/web"), "compose%2Fp%2Fweb");
        assert_eq!(encoded("a b?c#d%é"), "a%20b%3Fc%23d%25%C3%A9");
    }
}
