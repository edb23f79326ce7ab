//! A stand-in for a router, the command set to ask it, and what it answers.
//!
//! It answers paths with canned texts, or misbehaves; no figure here is made by the project's own code.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What the fake does with a connection once it has read a request.
#[derive(Clone)]
pub(crate) enum Does {
    /// Answers with a status line's rest and a body.
    Answer(&'static str, String),
    /// Sends these bytes and closes.
    Send(&'static [u8]),
    /// Keeps silent.
    Nothing,
    /// Sends a body of so many MiB.
    Flood(usize),
}

pub(crate) type Behaviour = Arc<dyn Fn(&str) -> Does + Send + Sync>;

/// A stand-in for a router.
pub(crate) struct FakeRouter {
    pub(crate) address: SocketAddr,
    /// Paths asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeRouter {
    pub(crate) fn start(behaviour: impl Fn(&str) -> Does + Send + Sync + 'static) -> FakeRouter {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(vec![]));
        let (behaviour, log): (Behaviour, _) = (Arc::new(behaviour), asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (behaviour, log) = (behaviour.clone(), log.clone());
                thread::spawn(move || serve(stream.unwrap(), &behaviour, &log));
            }
        });
        FakeRouter { address, asked }
    }

    pub(crate) fn saying(status: &'static str, body: &str) -> FakeRouter {
        let body = body.to_owned();
        FakeRouter::start(move |_| Does::Answer(status, body.clone()))
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// The command, set to ask this router.
    pub(crate) fn client(&self, line: &str) -> Command {
        let mut command = swarmstats(line);
        command.env("SWARMSTATS_HOST", format!("http://{}", self.address));
        command
    }

    pub(crate) fn run(&self, line: &str) -> Output {
        self.client(line).output().unwrap()
    }
}

pub(crate) fn serve(mut stream: TcpStream, behaviour: &Behaviour, log: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut request = String::new();
    reader.read_line(&mut request).unwrap();
    let mut header = String::new();
    while reader.read_line(&mut header).unwrap() > 2 {
        header.clear();
    }
    let path = request.split(' ').nth(1).unwrap().to_owned();
    log.lock().unwrap().push(path.clone());
    // The client may hang up while the fake still writes: that is its right.
    match behaviour(&path) {
        Does::Answer(status, body) => {
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).ok();
        }
        Does::Send(bytes) => {
            stream.write_all(bytes).ok();
        }
        Does::Nothing => thread::sleep(Duration::from_secs(60)),
        Does::Flood(mebibytes) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok();
            let spaces = vec![b' '; 1 << 20];
            for _ in 0..mebibytes {
                if stream.write_all(&spaces).is_err() {
                    return;
                }
            }
        }
    }
}

/// The command with nothing of this test's environment that it listens to.
pub(crate) fn swarmstats(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docker-swarmstats"));
    for name in ["SWARMSTATS_HOST", "DOCKER_CLI_PLUGIN_SOCKET", "NO_COLOR", "DOCKER_HOST", "DOCKER_CONTEXT"] {
        command.env_remove(name);
    }
    // A folder that is not there: nothing of the user's own configuration.
    command.env("DOCKER_CONFIG", "/nonexistent/docker");
    command.env("TERM", "xterm").args(line.split_whitespace()).stdin(Stdio::null());
    command
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("ended by a signal: {output:?}"))
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Waits until something holds, 10 s at most.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what} did not happen within 10 s");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The row of docker stats' documentation as a service, with a network nobody could read.
pub(crate) const SERVICES: &str = r#"{
  "complete": true, "missing": [], "warnings": [],
  "services": [
    {"id": "s2", "name": "web", "stack": "shop", "tasks": {"fresh": 2, "known": 2}, "age_seconds": 0.4,
     "since": "2026-01-01T00:00:00Z", "totals": {"cpu_seconds_total": 1.5}, "stats": {},
     "figures": {"cpu_percent": 0.03, "memory_used_bytes": 2466251, "memory_limit_bytes": 1030225920,
       "memory_percent": 0.2394, "network_receive_bytes": 539000, "network_transmit_bytes": 606000,
       "block_read_bytes": 0, "block_written_bytes": 13300, "pids": 2}},
    {"id": "s1", "name": "api", "stack": "", "tasks": {"fresh": 1, "known": 1}, "age_seconds": 0.4,
     "figures": {"cpu_percent": 75.2, "memory_used_bytes": 24, "memory_limit_bytes": null,
       "memory_percent": null, "network_receive_bytes": null, "network_transmit_bytes": null,
       "block_read_bytes": 999500, "block_written_bytes": 12, "pids": 10}}
  ]
}"#;
pub(crate) const SERVICES_TABLE: &str = "\
NAME   TASKS     CPU %   MEM USAGE / LIMIT       MEM %     NET I/O          BLOCK I/O         PIDS
api     1/1     75.20%         24B / --             --       -- / --       1e+03kB / 12B        10
web     2/2      0.03%    2.352MiB / 982.5MiB    0.24%    539kB / 606kB         0B / 13.3kB      2
";
pub(crate) const INCOMPLETE: &str = r#"{"complete": false, "missing": [{"what": "node worker-3", "why": "no sample for 12 s"}],
  "warnings": ["two services are called cache"], "tasks": [{"id": "9mnpnzenvg8p8tdbtq4wvbkcz",
  "name": "web.1.9mnpnzenvg8p8tdbtq4wvbkcz", "node_name": "worker-3", "tasks": {"fresh": 0, "known": 1},
  "state": "stale", "age_seconds": 12.2, "figures": {"cpu_percent": null}}]}"#;
