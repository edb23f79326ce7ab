//! One question to a router over HTTP: a path in, a status and a bounded body out.
//!
//! Each question has a connection of its own, a deadline over everything ([`DEADLINE`]) and a largest answer
//! ([`MAX_BODY`]). It deliberately knows nothing of what the body means.

use crate::cli::args::Host;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{Request, StatusCode, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use std::{error::Error as _, fmt::Write as _, time::Duration};
use tokio::net::TcpStream;

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
    /// [`DEADLINE`] is over.
    #[error("the router at {0} did not answer within {limit} s", limit = DEADLINE.as_secs())]
    Late(Host),
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
}

/// Asks for a path, which is already encoded (see [`encoded`]).
///
/// # Errors
/// Whatever kept a whole reply from coming; a status such as 404 is a reply.
pub async fn get(host: &Host, path: &str) -> Result<Reply, Error> {
    tokio::time::timeout(DEADLINE, exchange(host, path)).await.unwrap_or_else(|_| Err(Error::Late(host.clone())))
}

async fn exchange(host: &Host, path: &str) -> Result<Reply, Error> {
    let http = |error: hyper::Error| {
        let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
        Error::Http(host.clone(), format!("{error}{cause}"))
    };
    let stream =
        TcpStream::connect((&*host.name, host.port)).await.map_err(|error| Error::Unreachable(host.clone(), error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
    let request = Request::get(path)
        .header(header::HOST, host.to_string().trim_start_matches("http://"))
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, concat!("docker-swarmstats/", env!("CARGO_PKG_VERSION")))
        .body(Empty::<Bytes>::new())
        .map_err(|error| Error::Http(host.clone(), error.to_string()))?;
    let reply = async {
        let response = sender.send_request(request).await.map_err(http)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(|error| match error
            .downcast::<hyper::Error>()
        {
            Ok(error) => http(*error),
            Err(error) if error.is::<LengthLimitError>() => Error::TooLarge(host.clone()),
            Err(error) => Error::Http(host.clone(), error.to_string()),
        })?;
        Ok(Reply { status, body: body.to_bytes() })
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
