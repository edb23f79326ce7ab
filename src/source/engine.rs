//! A client of the Docker Engine API over its unix socket: the calls that are needed, nothing more.
//!
//! Every call has a deadline and a bound on what it takes in; one connection per call, so that nothing waits behind
//! another. It deliberately retries nothing (its caller knows when) and never writes to the engine.

pub mod api;
pub mod version;

use self::{
    api::{Event, Info, Inspect, Listed, Stats},
    version::{ApiVersion, Negotiated, VersionError},
};
use crate::model::ServiceId;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{net::UnixStream, task::JoinSet, time::timeout};

/// For a call that asks the engine for what it has in memory.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// For a stats call: engines before 24.0.7 answer only with their next tick, a second or two later.
pub const STATS_DEADLINE: Duration = Duration::from_millis(2500);
/// The longest answer taken: a list of some ten thousand containers.
pub const MAX_ANSWER: usize = 64 << 20;
/// The longest event line taken; labels make it long.
pub const MAX_EVENT: usize = 1 << 20;

/// Why the engine did not answer, or not well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No socket.
    #[error("the engine's socket {0} is missing: is dockerd installed and running, and is the path right?")]
    Missing(Arc<Path>),
    /// May not connect.
    #[error("permission denied on the engine's socket {0}: add the user to group docker or run as root")]
    Denied(Arc<Path>),
    /// A socket that nobody listens on.
    #[error("nobody listens on the engine's socket {0}: start dockerd")]
    Refused(Arc<Path>),
    /// Any other failure to connect.
    #[error("cannot connect to the engine's socket {0}")]
    Connect(Arc<Path>, #[source] io::Error),
    /// No answer in time.
    #[error("the engine did not answer {what} within {after:?}: it may be frozen or overloaded")]
    Timeout {
        /// The call.
        what: String,
        /// The deadline.
        after: Duration,
    },
    /// The connection broke.
    #[error("the engine broke off {what}")]
    Http {
        /// The call.
        what: String,
        /// How.
        #[source]
        source: hyper::Error,
    },
    /// An answer that is an error.
    #[error("the engine answers {what} with {status}: {message}")]
    Status {
        /// The call.
        what: String,
        /// HTTP status.
        status: StatusCode,
        /// What the engine says.
        message: String,
    },
    /// More than is taken.
    #[error("the engine's answer to {0} is longer than {MAX_ANSWER} bytes")]
    TooLong(String),
    /// A call that panicked.
    #[error("a call to the engine broke: {0}")]
    Broken(String),
    /// An answer that is not what the API says.
    #[error("the engine's answer to {what} is not understood")]
    Json {
        /// The call.
        what: String,
        /// How.
        #[source]
        source: serde_json::Error,
    },
    /// No common version.
    #[error(transparent)]
    Version(#[from] VersionError),
}

impl Error {
    /// Whether the engine has no manager role: a worker, in no swarm, or locked.
    pub fn is_no_manager(&self) -> bool {
        matches!(self, Error::Status { status: StatusCode::SERVICE_UNAVAILABLE, .. })
    }
    /// Whether the engine says that there is no such container.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Status { status: StatusCode::NOT_FOUND, .. })
    }
}

/// The engine of this node; clones share the negotiated version.
#[derive(Clone, Debug)]
pub struct Engine {
    socket: Arc<Path>,
    negotiated: Arc<Mutex<Negotiated>>,
}

/// A connection on which an answer comes; dropping it ends it.
struct Connection {
    response: Response<Incoming>,
    _driver: JoinSet<()>,
}

impl Engine {
    /// Of a socket, given as a path or as `unix://` and a path. `api_version`: what `DOCKER_API_VERSION` says, if set.
    ///
    /// # Errors
    /// If `api_version` is no version. Nothing is connected yet.
    pub fn new(socket: &str, api_version: Option<&str>) -> Result<Engine, Error> {
        let socket = Path::new(socket.strip_prefix("unix://").unwrap_or(socket));
        let negotiated = Negotiated::new(api_version)?;
        Ok(Engine { socket: socket.into(), negotiated: Arc::new(Mutex::new(negotiated)) })
    }

    /// Asks which API version the engine speaks. `anew`: also if that is known, for it may be another engine by now.
    ///
    /// # Errors
    /// If it does not answer, or there is no common version.
    pub async fn negotiate(&self, anew: bool) -> Result<(), Error> {
        let version = |response: &Response<Incoming>| {
            let header = response.headers().get("api-version").and_then(|version| version.to_str().ok());
            header.unwrap_or_default().to_owned()
        };
        let head = self.send(Method::HEAD, "/_ping", DEADLINE).await;
        let ping = match head {
            Ok(connection) if connection.response.status().is_success() => version(&connection.response),
            // Engines before 18.09 know GET only.
            Ok(_) => version(&self.send(Method::GET, "/_ping", DEADLINE).await?.response),
            Err(error) => return Err(error),
        };
        // A poisoned lock is as good as any: the value is replaced whole.
        self.negotiated.lock().unwrap_or_else(PoisonError::into_inner).take(&ping, anew)?;
        Ok(())
    }

    /// Who the engine is.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn info(&self) -> Result<Info, Error> {
        self.get("/info", DEADLINE).await
    }

    /// The running containers.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list(&self) -> Result<Vec<Listed>, Error> {
        // Without filters the engine lists what runs, paused and restarting included.
        self.get("/containers/json", DEADLINE).await
    }

    /// One container, whatever its state.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn inspect(&self, container_id: &str) -> Result<Inspect, Error> {
        self.get(&format!("/containers/{}/json", percent_encoded(container_id)), DEADLINE).await
    }

    /// The engine's own record of a container, read at once where the engine can (API 1.41, release 24.0.7).
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn stats(&self, container_id: &str) -> Result<Stats, Error> {
        let id = percent_encoded(container_id);
        self.get(&format!("/containers/{id}/stats?stream=false&one-shot=true"), STATS_DEADLINE).await
    }

    /// What happens to containers from now on, or from a moment on (nanoseconds since the Unix epoch, by the engine's
    /// clock), as far as the engine still knows it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn events(&self, since: Option<u64>, actions: &[&str]) -> Result<Events, Error> {
        let filters = serde_json::json!({ "type": ["container"], "event": actions }).to_string();
        self.subscribe(since, &filters).await
    }

    /// What happens to a swarm's services and nodes from now on; workers' engines never say anything.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn swarm_events(&self) -> Result<Events, Error> {
        self.subscribe(None, &serde_json::json!({ "type": ["service", "node"] }).to_string()).await
    }

    async fn subscribe(&self, since: Option<u64>, filters: &str) -> Result<Events, Error> {
        let since = since.map(|t| format!("since={}.{:09}&", t / 1_000_000_000, t % 1_000_000_000)).unwrap_or_default();
        let path = self.versioned(&format!("/events?{since}filters={}", percent_encoded(filters)));
        let connection = self.answer(Method::GET, &path, DEADLINE).await?;
        Ok(Events { connection, lines: EventLines::default() })
    }

    /// All services, with the counts of `docker service ls` where the engine knows them (API 1.41), as JSON.
    ///
    /// # Errors
    /// See [`Error`]; an engine that is no manager answers 503.
    pub async fn services(&self) -> Result<Bytes, Error> {
        self.read("/services?status=true", DEADLINE).await
    }

    /// The tasks that Swarm wants to run, or to have run as jobs, as JSON.
    ///
    /// # Errors
    /// See [`Engine::services`].
    pub async fn wanted_tasks(&self) -> Result<Bytes, Error> {
        let filters = r#"{"desired-state":["accepted","ready","running","complete"]}"#;
        self.read(&format!("/tasks?filters={}", percent_encoded(filters)), DEADLINE).await
    }

    /// What became of the tasks of these services that Swarm does not want any more, as JSON.
    ///
    /// # Errors
    /// See [`Engine::services`].
    pub async fn past_tasks(&self, services: &[ServiceId]) -> Result<Bytes, Error> {
        let services: Vec<&str> = services.iter().map(ServiceId::as_str).collect();
        let filters = serde_json::json!({ "desired-state": ["shutdown"], "service": services }).to_string();
        self.read(&format!("/tasks?filters={}", percent_encoded(&filters)), DEADLINE).await
    }

    /// All nodes of the swarm, as JSON.
    ///
    /// # Errors
    /// See [`Engine::services`].
    pub async fn nodes(&self) -> Result<Bytes, Error> {
        self.read("/nodes", DEADLINE).await
    }

    /// Which API version is spoken; settled once [`Engine::negotiate`] was answered.
    pub fn version(&self) -> ApiVersion {
        self.negotiated.lock().unwrap_or_else(PoisonError::into_inner).version()
    }

    /// Any other question: a path without its version.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get<T: DeserializeOwned>(&self, path: &str, deadline: Duration) -> Result<T, Error> {
        let bytes = self.read(path, deadline).await?;
        serde_json::from_slice(&bytes).map_err(|source| Error::Json { what: self.versioned(path), source })
    }

    async fn read(&self, path: &str, deadline: Duration) -> Result<Bytes, Error> {
        let path = self.versioned(path);
        let whole = async {
            let connection = self.answer(Method::GET, &path, deadline).await?;
            body(&path, connection).await
        };
        timeout(deadline, whole).await.map_err(|_| Error::Timeout { what: path.clone(), after: deadline })?
    }

    fn versioned(&self, path: &str) -> String {
        format!("/v{}{path}", self.version())
    }

    /// Sends a request and refuses an answer that is an error, with what the engine says about it.
    async fn answer(&self, method: Method, path: &str, deadline: Duration) -> Result<Connection, Error> {
        let connection = self.send(method, path, deadline).await?;
        let status = connection.response.status();
        if status.is_success() {
            return Ok(connection);
        }
        let text = timeout(deadline, body(path, connection)).await.ok().and_then(Result::ok).unwrap_or_default();
        let said = serde_json::from_slice::<serde_json::Value>(&text).ok();
        let message = said.as_ref().and_then(|said| said["message"].as_str()).unwrap_or("no reason given");
        Err(Error::Status { what: path.to_owned(), status, message: message.chars().take(500).collect() })
    }

    /// Connects and sends a request; gives the answer's head.
    async fn send(&self, method: Method, path: &str, deadline: Duration) -> Result<Connection, Error> {
        let broken = |source| Error::Http { what: path.to_owned(), source };
        let exchange = async {
            let stream = UnixStream::connect(&self.socket).await.map_err(|error| self.unconnected(error))?;
            let (mut sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
            let mut drivers = JoinSet::new();
            drivers.spawn(async move {
                // How it ends shows in the answer's body.
                drop(driver.await);
            });
            let request = Request::builder().method(method).uri(path).header(header::HOST, "docker");
            let request = request.body(Empty::<Bytes>::new()).expect("ids and filters in paths are percent-encoded");
            let response = sender.send_request(request).await.map_err(broken)?;
            Ok(Connection { response, _driver: drivers })
        };
        let late = |_| Error::Timeout { what: path.to_owned(), after: deadline };
        timeout(deadline, exchange).await.map_err(late)?
    }

    fn unconnected(&self, error: io::Error) -> Error {
        let socket = self.socket.clone();
        match error.kind() {
            io::ErrorKind::NotFound => Error::Missing(socket),
            io::ErrorKind::PermissionDenied => Error::Denied(socket),
            io::ErrorKind::ConnectionRefused => Error::Refused(socket),
            _ => Error::Connect(socket, error),
        }
    }
}

/// An answer's whole body, within the bound.
async fn body(what: &str, connection: Connection) -> Result<Bytes, Error> {
    let Connection { response, _driver } = connection;
    let collected = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    collected.map(|body| body.to_bytes()).map_err(|error| match error.downcast::<hyper::Error>() {
        Ok(source) => Error::Http { what: what.to_owned(), source: *source },
        Err(other) => {
            debug_assert!(other.is::<LengthLimitError>());
            Error::TooLong(what.to_owned())
        }
    })
}

/// The stream of events.
pub struct Events {
    connection: Connection,
    lines: EventLines,
}

impl Events {
    /// The next event; `None` when the engine ends the stream. May be dropped and called again without losing any.
    /// Silence is no error: nothing may happen for days.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            if let Some(event) = self.lines.next() {
                return Ok(Some(event));
            }
            let Some(frame) = self.connection.response.frame().await else { return Ok(None) };
            let frame = frame.map_err(|source| Error::Http { what: "/events".to_owned(), source })?;
            if let Some(data) = frame.data_ref() {
                self.lines.push(data);
            }
        }
    }

    /// How many lines were too long or not understood since last asked.
    pub fn take_unusable(&mut self) -> u64 {
        std::mem::take(&mut self.lines.unusable)
    }
}

/// Bytes, in whatever pieces they come, into events, one a line. An engine may also send JSON text sequences, whose
/// lines begin with a record separator.
#[derive(Debug, Default)]
struct EventLines {
    buffer: Vec<u8>,
    /// How much of the buffer is known to have no line's end.
    searched: usize,
    /// Within a line that is too long, up to its end.
    skipping: bool,
    unusable: u64,
}

impl EventLines {
    fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Takes lines off the buffer up to the first that is an event.
    fn next(&mut self) -> Option<Event> {
        while let Some(end) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=self.searched + end).collect();
            self.searched = 0;
            let text = line.strip_prefix(b"\x1e").unwrap_or(&line).trim_ascii();
            let usable = !std::mem::take(&mut self.skipping);
            match serde_json::from_slice(text) {
                Ok(event) if usable => return Some(event),
                _ if text.is_empty() && usable => {}
                _ => self.unusable += 1,
            }
        }
        self.searched = self.buffer.len();
        if self.searched > MAX_EVENT {
            self.buffer.clear();
            self.searched = 0;
            self.skipping = true;
        }
        None
    }
}

/// Text for a path or query: all but unreserved characters as `%` and two hexadecimal digits.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::UnixListener,
    };

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("swarmstats-{}-{name}.sock", std::process::id()))
    }

    fn engine(path: &Path) -> Engine {
        Engine::new(&format!("unix://{}", path.display()), None).unwrap()
    }

    /// An engine that answers each request with what is scripted for its line; what is not scripted is not answered,
    /// and no connection is closed unless the answer says so.
    fn scripted(name: &str, script: &'static [(&'static str, &'static str)]) -> Engine {
        let path = path(name);
        std::fs::remove_file(&path).ok();
        let listener = UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let n = stream.read(&mut request).await.unwrap();
                let line = String::from_utf8_lossy(&request[..n]).lines().next().unwrap_or_default().to_owned();
                let answer = script.iter().find(|(start, _)| line.starts_with(start)).map_or("", |(_, answer)| answer);
                stream.write_all(answer.as_bytes()).await.unwrap();
                if !answer.contains("Connection: close") {
                    open.push(stream);
                }
            }
        });
        engine(&path)
    }

    const PING: &str = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 0\r\n\r\n";

    #[tokio::test]
    async fn the_version_is_the_engines_and_in_every_path() {
        const INFO: &str =
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"ID\":\"e1\",\"Name\":\"host\",\"Swarm\":null,\"NCPU\":2}";
        let engine = scripted("version", &[("HEAD /_ping", PING), ("GET /v1.41/info ", INFO)]);
        engine.negotiate(false).await.unwrap();
        let info = engine.info().await.unwrap();
        assert_eq!((&*info.id, &*info.name, info.n_cpu, &*info.swarm.node_id), ("e1", "host", 2, ""));
    }

    #[tokio::test]
    async fn an_engine_that_knows_no_head_is_asked_with_get() {
        const NO: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
        let engine = scripted("get", &[("HEAD /_ping", NO), ("GET /_ping", PING)]);
        engine.negotiate(false).await.unwrap();
        assert_eq!(engine.versioned("/x"), "/v1.41/x");
    }

    #[tokio::test]
    async fn what_is_wrong_with_the_socket_is_said_with_its_remedy() {
        let missing = path("missing");
        let error = engine(&missing).info().await.unwrap_err();
        assert!(matches!(error, Error::Missing(_)), "{error}");
        assert!(error.to_string().contains("is dockerd installed and running"));

        let stale = path("stale");
        std::fs::remove_file(&stale).ok();
        drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
        let error = engine(&stale).info().await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");

        let error = engine(&missing).unconnected(io::ErrorKind::PermissionDenied.into());
        assert!(error.to_string().ends_with("add the user to group docker or run as root"), "{error}");
    }

    #[tokio::test]
    async fn b097_b119_b121_an_engine_that_does_not_answer_is_waited_for_no_longer_than_the_deadline() {
        // Connects, and hears nothing; sends a head, and no body.
        const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{";
        let engine = scripted("silent", &[("GET /v1.56/containers/half/", HALF)]);
        for container in ["silent", "half"] {
            let begun = std::time::Instant::now();
            let error = engine.stats(container).await.unwrap_err();
            let took = begun.elapsed();
            assert!(took >= STATS_DEADLINE && took < STATS_DEADLINE + Duration::from_secs(1), "{took:?}, {error}");
            assert!(matches!(error, Error::Timeout { .. }), "{error}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_an_error_says_what_the_engine_said() {
        const GONE: &str =
            "HTTP/1.1 404 Not Found\r\nContent-Length: 35\r\n\r\n{\"message\":\"No such container: x\"}\n";
        const ODD: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nhtml";
        const GARBAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{\"a]";
        let script =
            &[("GET /v1.56/containers/x/", GONE), ("GET /v1.56/containers/y/", ODD), ("GET /v1.56/info", GARBAGE)];
        let engine = scripted("error", script);
        let gone = engine.inspect("x").await.unwrap_err();
        assert!(gone.is_not_found() && gone.to_string().contains("No such container: x"), "{gone}");
        let odd = engine.inspect("y").await.unwrap_err();
        assert!(odd.to_string().contains("500") && !odd.is_not_found(), "{odd}");
        assert!(matches!(engine.info().await, Err(Error::Json { .. })));
    }

    #[tokio::test]
    async fn a_listing_with_states_and_fields_nobody_knows_is_read() {
        const LIST: &str = concat!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
            r#"[{"Id":"a","State":"hibernating","Labels":null,"New":{}},{"Id":"b","Labels":{"x":"y"}}]"#
        );
        let engine = scripted("list", &[("GET /v1.56/containers/json ", LIST)]);
        let listed = engine.list().await.unwrap();
        assert_eq!((&*listed[0].id, &*listed[0].state, listed[0].labels.len()), ("a", "hibernating", 0));
        assert_eq!((&*listed[1].id, &*listed[1].labels["x"]), ("b", "y"));
    }

    #[tokio::test]
    async fn events_are_asked_for_since_a_moment_and_come_until_the_stream_ends() {
        const PATH: &str = "GET /v1.56/events?since=1796057769.000000005&\
            filters=%7B%22event%22%3A%5B%22start%22%2C%22die%22%5D%2C%22type%22%3A%5B%22container%22%5D%7D ";
        const EVENTS: &str =
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"Action\":\"start\"}\n{\"Action\":\"die\"}\n";
        let engine = scripted("events", &[(PATH, EVENTS)]);
        let mut events = engine.events(Some(1_796_057_769_000_000_005), &["start", "die"]).await.unwrap();
        assert_eq!(events.next().await.unwrap().unwrap().action, "start");
        assert_eq!(events.next().await.unwrap().unwrap().action, "die");
        assert_eq!(events.next().await.unwrap(), None);
    }

    fn actions(pieces: &[&[u8]]) -> (Vec<String>, u64) {
        let mut lines = EventLines::default();
        let mut actions = Vec::new();
        for piece in pieces {
            lines.push(piece);
            actions.extend(std::iter::from_fn(|| lines.next()).map(|event| event.action));
        }
        assert!(lines.buffer.len() <= MAX_EVENT);
        (actions, lines.unusable)
    }

    #[test]
    fn event_lines_come_in_any_pieces_and_forms() {
        let text = b"{\"Action\":\"start\"}\n\x1e{\"Action\":\"die\"}\r\n\n{\"Action\":\"oom\"}\n";
        let expected = (vec!["start".to_owned(), "die".to_owned(), "oom".to_owned()], 0);
        assert_eq!(actions(&[text]), expected);
        assert_eq!(actions(&text.chunks(1).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn an_event_line_that_is_garbage_or_endless_spoils_only_itself() {
        let endless = vec![b'x'; MAX_EVENT / 2 + 1];
        let (read, unusable) =
            actions(&[b"nonsense\n", &endless, &endless, &endless, b"\n{\"Action\":\"start\"}\n[1]\n"]);
        assert_eq!((read, unusable), (vec!["start".to_owned()], 3));
    }
}
