//! `docker-swarmstats` from outside: the real binary against a fake router, into pipes and on a terminal of its own.
//!
//! The fake answers paths with canned texts, or misbehaves; no figure here is made by the project's own code.

#![allow(clippy::unwrap_used)] // a fake or a helper that fails is a failed test

#[path = "query/fixtures.rs"]
mod fixtures;

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    ffi::OsStr,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{linux::net::SocketAddrExt, unix::ffi::OsStrExt},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use swarmstats::{
    json::{self, What},
    stat,
    view::{Missing, Report},
};

/// What the fake does with a connection once it has read a request.
#[derive(Clone)]
enum Does {
    /// Answers with a status line's rest and a body.
    Answer(&'static str, String),
    /// Sends these bytes and closes.
    Send(&'static [u8]),
    /// Keeps silent.
    Nothing,
    /// Sends a body of so many MiB.
    Flood(usize),
}

type Behaviour = Arc<dyn Fn(&str) -> Does + Send + Sync>;

/// A stand-in for a router.
struct FakeRouter {
    address: SocketAddr,
    /// Paths asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeRouter {
    fn start(behaviour: impl Fn(&str) -> Does + Send + Sync + 'static) -> FakeRouter {
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

    fn saying(status: &'static str, body: &str) -> FakeRouter {
        let body = body.to_owned();
        FakeRouter::start(move |_| Does::Answer(status, body.clone()))
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// The command, set to ask this router.
    fn client(&self, line: &str) -> Command {
        let mut command = swarmstats(line);
        command.env("SWARMSTATS_HOST", format!("http://{}", self.address));
        command
    }

    fn run(&self, line: &str) -> Output {
        self.client(line).output().unwrap()
    }
}

fn serve(mut stream: TcpStream, behaviour: &Behaviour, log: &Mutex<Vec<String>>) {
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
fn swarmstats(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docker-swarmstats"));
    for name in ["SWARMSTATS_HOST", "DOCKER_CLI_PLUGIN_SOCKET", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm").args(line.split_whitespace()).stdin(Stdio::null());
    command
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("ended by a signal: {output:?}"))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Waits until something holds, 10 s at most.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what} did not happen within 10 s");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The row of docker stats' documentation as a service, with a network nobody could read.
const SERVICES: &str = r#"{
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
const SERVICES_TABLE: &str = "\
NAME   TASKS     CPU %   MEM USAGE / LIMIT       MEM %     NET I/O          BLOCK I/O         PIDS
api     1/1     75.20%         24B / --             --       -- / --       1e+03kB / 12B        10
web     2/2      0.03%    2.352MiB / 982.5MiB    0.24%    539kB / 606kB         0B / 13.3kB      2
";
const INCOMPLETE: &str = r#"{"complete": false, "missing": [{"what": "node worker-3", "why": "no sample for 12 s"}],
  "warnings": ["two services are called cache"], "tasks": [{"id": "9mnpnzenvg8p8tdbtq4wvbkcz",
  "name": "web.1.9mnpnzenvg8p8tdbtq4wvbkcz", "node_name": "worker-3", "tasks": {"fresh": 0, "known": 1},
  "state": "stale", "age_seconds": 12.2, "figures": {"cpu_percent": null}}]}"#;

#[test]
fn a_table_once() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let output = router.run("--no-stream");
    assert_eq!((text(&output.stdout), text(&output.stderr), code(&output)), (SERVICES_TABLE, "", 0));
    assert_eq!(router.asked(), ["/v1/services"]);
}

/// The other tests' documents are by hand; here they are as the project's own router writes them.
#[test]
fn the_routers_own_documents_are_understood() {
    use fixtures::{node, row, stale, task, with};
    let nameless = with(task("t3", "db", "n2"), |task| {
        let meta = Arc::make_mut(&mut task.meta);
        (meta.task_name, meta.node_name) = ("".into(), "".into());
    });
    let limited = with(task("t1", "web", "n1"), |task| task.values.set(stat::MEMORY_LIMIT, 400));
    let report = Report {
        tasks: vec![limited, stale(task("t2", "web", "n2"), 9_000), nameless],
        rows: vec![row("n1", "web", 1), row("n2", "web", 1), row("n2", "db", 1)],
        nodes: vec![node("n1", &["web"]), node("n2", &["web", "db"])],
        complete: false,
        missing: vec![Missing { what: "task t2".into(), why: "not read for 9 s".into() }],
        warnings: vec![],
    };
    let router = FakeRouter::start(move |path| {
        let what = match path.split('/').nth(2).unwrap() {
            "services" => What::Services,
            "tasks" => What::Tasks,
            "nodes" => What::Nodes,
            _ => What::Stacks,
        };
        Does::Answer("200 OK", json::document(&report, what, &|_| vec![], false))
    });
    let shown = |line: &str| {
        let output = router.run(&format!("{line} --no-stream"));
        assert_eq!((text(&output.stderr), code(&output)), ("", 3), "{line}");
        let stdout = text(&output.stdout);
        assert!(stdout.ends_with("\n\nincomplete: task t2: not read for 9 s\n"), "{stdout}");
        stdout.lines().skip(1).take_while(|line| !line.is_empty()).map(squeezed).collect::<Vec<_>>()
    };
    // One CPU busy and 100 B used by each; only t1 has a limit.
    let db = "db 1/1 100.00% 100B / -- -- -- / -- -- / -- --";
    assert_eq!(shown("service"), [db, "web 1/2 100.00% 100B / 400B 25.00% -- / -- -- / -- --"]);
    assert_eq!(
        shown("task"),
        [
            "t3 t3 n2 100.00% 100B / -- -- -- / -- -- / -- --",
            "t1 web.1 host-n1 100.00% 100B / 400B 25.00% -- / -- -- / -- --",
            "t2 web.1 host-n2 100.00% 100B / -- -- -- / -- -- / -- -- 9s",
        ]
    );
    assert_eq!(
        shown("node"),
        [
            "host-n1 1/1 100.00% 100B / 400B 25.00% -- / -- -- / -- --",
            "host-n2 1/2 100.00% 100B / -- -- -- / -- -- / -- --"
        ]
    );
    assert_eq!(shown("stack"), ["demo 2/3 200.00% 200B / -- 25.00% -- / -- -- / -- --"]);
}

/// A line with one space wherever there are several.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_view_asks_its_own_path_and_names_are_encoded() {
    let router = FakeRouter::start(|path| {
        let view = path.split(['/', '?']).nth(2).unwrap();
        Does::Answer("200 OK", format!(r#"{{"complete": true, "{view}": []}}"#))
    });
    for line in ["service web compose/p/db", "task", "node n1", "stack shop", "web"] {
        assert_eq!(code(&router.run(&format!("--no-stream {line}"))), 0, "{line}");
    }
    assert_eq!(
        router.asked(),
        [
            "/v1/services/web",
            "/v1/services/compose%2Fp%2Fdb",
            "/v1/tasks",
            "/v1/nodes/n1",
            "/v1/stacks/shop",
            "/v1/services/web"
        ]
    );
}

#[test]
fn json_is_the_routers_own_document_on_one_line() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let output = router.run("--no-stream --format json web api");
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 2, "one for each name");
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(lines[0]), value(SERVICES));
    assert_eq!(code(&output), 0);
}

#[test]
fn what_is_missing_is_said_and_is_exit_code_3() {
    let router = FakeRouter::saying("200 OK", INCOMPLETE);
    let output = router.run("task --no-stream");
    assert_eq!(
        text(&output.stdout),
        "\
TASK ID        NAME    NODE         CPU %   MEM USAGE / LIMIT       MEM %     NET I/O         BLOCK I/O         PIDS   AGE
9mnpnzenvg8p   web.1   worker-3        --          -- / --             --       -- / --           -- / --         --   12s

incomplete: node worker-3: no sample for 12 s
warning: two services are called cache
"
    );
    assert_eq!(code(&output), 3);
    assert_eq!(code(&router.run("task --no-stream --format json")), 3);
}

#[test]
fn a_wrong_name_is_exit_code_2_with_the_routers_reason() {
    let router = FakeRouter::saying("404 Not Found", r#"{"error": "no service is called \"\u001b[2Jx\""}"#);
    let output = router.run("x --no-stream");
    assert_eq!((text(&output.stdout), code(&output)), ("", 2));
    assert_eq!(text(&output.stderr), "docker-swarmstats: no service is called \"\\u{1b}[2Jx\"\n");

    let router =
        FakeRouter::saying("409 Conflict", r#"{"error": "9mnp is ambiguous", "candidates": ["9mnpa", "9mnpb"]}"#);
    let output = router.run("task 9mnp");
    assert_eq!(text(&output.stderr), "docker-swarmstats: 9mnp is ambiguous: 9mnpa, 9mnpb\n");
    assert_eq!(code(&output), 2, "also when it was to be a live view");
}

#[test]
fn a_tasks_name_may_be_a_services() {
    const DARK: &str = r#"{"complete": false, "missing": [{"what": "node n", "why": "silent"}], "tasks": []}"#;
    let router = FakeRouter::start(|path| match path {
        "/v1/tasks?service=web" => Does::Answer("200 OK", INCOMPLETE.into()),
        "/v1/tasks?service=nope" => Does::Answer("200 OK", r#"{"complete": true, "tasks": []}"#.into()),
        "/v1/tasks/dark" | "/v1/tasks?service=dark" => Does::Answer("200 OK", DARK.into()),
        _ => Does::Answer("404 Not Found", r#"{"error": "no task \"nope\" is known"}"#.into()),
    });
    assert!(text(&router.run("task web --no-stream").stdout).contains("web.1"));
    let output = router.run("task nope --no-stream");
    let said = "docker-swarmstats: no task \"nope\" is known, and no service of that name has tasks\n";
    assert_eq!((text(&output.stderr), code(&output)), (said, 2));
    assert_eq!(code(&router.run("task dark --no-stream")), 3, "nobody can say that it does not exist");
}

#[test]
fn no_router_no_answer() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(); // closed again at once
    let output = swarmstats(&format!("--host http://{address}")).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.starts_with(&format!("docker-swarmstats: cannot reach a router at http://{address}: ")), "{said}");
    assert!(said.contains("--host") && said.contains("SWARMSTATS_HOST"), "names the remedy: {said}");
    assert_eq!((text(&output.stdout), code(&output)), ("", 1));
}

#[test]
fn a_router_that_keeps_silent_is_not_waited_for_longer_than_5_seconds() {
    let router = FakeRouter::start(|_| Does::Nothing);
    let start = Instant::now();
    let output = router.run("--no-stream");
    assert!(start.elapsed() >= Duration::from_secs(5) && start.elapsed() < Duration::from_secs(15));
    assert!(text(&output.stderr).contains("did not answer within 5 s"), "{output:?}");
    assert_eq!(code(&output), 1);
}

#[test]
fn an_answer_that_is_none_is_exit_code_1() {
    let broken_off: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{\"complete\": true, \"services\": [";
    for (does, said) in [
        (Does::Send(b"\x16\x03\x01 no HTTP at all \x1b[2J\r\n\r\n"), "did not answer as a router does"),
        (Does::Send(b""), "did not answer as a router does"),
        (Does::Send(broken_off), "did not answer as a router does"),
        (Does::Answer("200 OK", "<html>It works!</html>".into()), "the answer is not a router's"),
        (Does::Answer("200 OK", r#"{"complete": true, "tasks": []}"#.into()), "no list of services"),
        (Does::Answer("404 Not Found", "<html>".into()), "answered 404 Not Found without a reason"),
        (Does::Answer("503 Service Unavailable", r#"{"error": "starting"}"#.into()), "Unavailable: starting"),
        (Does::Flood(65), "larger than 64 MiB"),
    ] {
        let router = FakeRouter::start(move |_| does.clone());
        for line in ["--no-stream", "--no-stream --format json"] {
            let output = router.run(line);
            assert!(text(&output.stderr).contains(said), "{said}: {output:?}");
            assert!(!output.stderr.contains(&0x1b));
            assert_eq!((text(&output.stdout), code(&output)), ("", 1), "{said}");
        }
    }
}

#[test]
fn what_is_not_understood_is_exit_code_64() {
    for line in ["--interval 2", "--format yaml", "--host r:7770", "swarmstats --nope"] {
        let output = swarmstats(line).output().unwrap();
        assert_eq!((text(&output.stdout), code(&output)), ("", 64), "{line}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn docker_sees_a_plugin() {
    let output = swarmstats("docker-cli-plugin-metadata").output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((code(&output), &said["SchemaVersion"]), (0, &"0.1.0".into()));
    for key in ["Vendor", "Version", "ShortDescription"] {
        assert!(said[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {said}");
    }
}

#[test]
fn docker_calls_a_plugin_with_its_own_flags_first() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let output = router.run("--context c -H tcp://192.0.2.1:2375 -D swarmstats service --no-stream web");
    assert_eq!((text(&output.stdout), code(&output)), (SERVICES_TABLE, 0));
    assert_eq!(router.asked(), ["/v1/services/web"]);
    for line in ["swarmstats --help", "help swarmstats"] {
        let output = swarmstats(line).output().unwrap();
        assert!(text(&output.stdout).contains("Usage: docker swarmstats [OPTIONS]"), "{line}");
        assert_eq!(code(&output), 0);
    }
}

/// A running command whose output lines are gathered as they come.
struct Running {
    child: Child,
    out: Arc<Mutex<Vec<u8>>>,
    err: Arc<Mutex<Vec<u8>>>,
}

fn gather(mut from: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let gathered = Arc::new(Mutex::new(vec![]));
    let into = gathered.clone();
    thread::spawn(move || {
        let mut some = [0; 4096];
        // A terminal whose other side is closed reports an error, a pipe its end.
        while let Ok(length @ 1..) = from.read(&mut some) {
            into.lock().unwrap().extend_from_slice(&some[..length]);
        }
    });
    gathered
}

impl Running {
    fn in_a_pipe(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (gather(child.stdout.take().unwrap()), gather(child.stderr.take().unwrap()));
        Running { child, out, err }
    }

    fn on_a_terminal(mut command: Command, columns: u16, rows: u16) -> Running {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        tcsetwinsize(&ours, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let path = ptsname(&ours, vec![]).unwrap();
        let theirs = File::options().read(true).write(true).open(OsStr::from_bytes(path.to_bytes())).unwrap();
        let child = command.stdout(theirs).stderr(Stdio::piped()).spawn().unwrap();
        drop(command); // and with it the only other hold on their side
        let mut running = Running { child, out: gather(File::from(ours)), err: Arc::default() };
        running.err = gather(running.child.stderr.take().unwrap());
        running
    }

    fn out(&self) -> String {
        String::from_utf8_lossy(&self.out.lock().unwrap()).into_owned()
    }

    fn err(&self) -> String {
        String::from_utf8_lossy(&self.err.lock().unwrap()).into_owned()
    }

    fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        wait_for("the end of the command", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn a_pipe_gets_a_table_every_second_and_no_escape_code() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let running = Running::in_a_pipe(router.client(""));
    let start = Instant::now();
    wait_for("a third table", || running.out().matches("NAME").count() == 3);
    assert!(start.elapsed() > Duration::from_millis(1500), "three tables are two seconds");
    let three = format!("{SERVICES_TABLE}\n{SERVICES_TABLE}\n{SERVICES_TABLE}");
    wait_for("its rows", || running.out() == three);
    assert_eq!(running.err(), "");
}

#[test]
fn json_streams_one_document_a_line() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let running = Running::in_a_pipe(router.client("--format json"));
    wait_for("two lines", || running.out().lines().count() >= 2);
    let out = running.out();
    assert!(out.lines().take(2).all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{out}");
}

#[test]
fn a_reader_that_has_enough_ends_the_stream() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let mut child = router.client("").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let mut running = Running { err: gather(child.stderr.take().unwrap()), out: Arc::default(), child };
    assert_eq!((running.ended(), running.err()), (Some(0), String::new()));
}

#[test]
fn a_stream_outlives_a_router_that_fails_for_a_while() {
    let failing = Arc::new(Mutex::new(false));
    let switch = failing.clone();
    let router = FakeRouter::start(move |_| match *switch.lock().unwrap() {
        false => Does::Answer("200 OK", SERVICES.into()),
        true => Does::Answer("503 Service Unavailable", r#"{"error": "no member answers"}"#.into()),
    });
    let running = Running::in_a_pipe(router.client(""));
    wait_for("a table", || running.out().contains("NAME"));
    *failing.lock().unwrap() = true;
    let asked = router.asked().len();
    wait_for("three failures", || router.asked().len() > asked + 3);
    assert_eq!(
        running.err(),
        "docker-swarmstats: the router answered 503 Service Unavailable: no member answers\n",
        "once"
    );
    let tables = running.out().matches("NAME").count();
    *failing.lock().unwrap() = false;
    wait_for("another table", || running.out().matches("NAME").count() > tables);
}

#[test]
fn the_stream_ends_when_docker_hangs_up() {
    let name = format!("swarmstats-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let docker = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let router = FakeRouter::saying("200 OK", SERVICES);
    let mut command = router.client("swarmstats");
    command.env("DOCKER_CLI_PLUGIN_SOCKET", format!("@{name}"));
    let mut running = Running::in_a_pipe(command);
    let (line, _) = docker.accept().unwrap();
    wait_for("a table", || running.out().contains("NAME"));
    assert!(running.child.try_wait().unwrap().is_none());
    drop(line);
    assert_eq!(running.ended(), Some(0));
}

/// What a terminal shows of a frame's lines, without colours and erasing.
fn bare(frame: &str) -> Vec<String> {
    let mut text = frame.replace('\r', "");
    for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[1;33m", "\x1b[K", "\x1b[J"] {
        text = text.replace(code, "");
    }
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_terminal_is_redrawn_in_place_and_gets_its_cursor_back() {
    for signal in [Signal::INT, Signal::TERM] {
        let router = FakeRouter::saying("200 OK", SERVICES);
        let mut running = Running::on_a_terminal(router.client(""), 80, 24);
        wait_for("a third frame", || running.out().matches("\x1b[H").count() == 3);
        kill_process(Pid::from_child(&running.child), signal).unwrap();
        assert_eq!((running.ended(), running.err()), (Some(0), String::new()), "{signal:?}");
        wait_for("the cursor", || running.out().ends_with("\x1b[?25h"));
        let out = running.out();
        let frames: Vec<&str> = out.split("\x1b[H").collect();
        assert!(frames[0].ends_with("\x1b[?25l"), "the cursor is hidden before the first frame: {:?}", frames[0]);
        assert_eq!(
            bare(frames[1]),
            [
                "NAME   TASKS     CPU %   MEM USAGE / LIMIT       MEM %     NET I/O         PIDS",
                "api     1/1     75.20%         24B / --             --       -- / --         10",
                "web     2/2      0.03%    2.352MiB / 982.5MiB    0.24%    539kB / 606kB       2",
                "",
                "too narrow for BLOCK I/O",
            ]
        );
        assert_eq!(bare(frames[1]), bare(frames[2]));
        assert!(!out.contains("\x1b[2J"), "never cleared, so it does not flicker");
    }
}

#[test]
fn a_table_that_lives_keeps_its_figures_and_says_what_is_wrong() {
    let failing = Arc::new(Mutex::new(false));
    let switch = failing.clone();
    let router = FakeRouter::start(move |_| match *switch.lock().unwrap() {
        false => Does::Answer("200 OK", SERVICES.into()),
        true => Does::Send(b""),
    });
    let running = Running::on_a_terminal(router.client(""), 200, 24);
    wait_for("a frame", || running.out().contains("web"));
    *failing.lock().unwrap() = true;
    wait_for("a frame that says it", || running.out().contains("no answer for "));
    let out = running.out();
    let last = out.split("\x1b[H").last().unwrap();
    assert!(last.contains("2.352MiB / 982.5MiB"), "{last:?}");
}

#[test]
fn a_dumb_terminal_gets_plain_text() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let mut command = router.client("--no-stream");
    command.env("TERM", "dumb");
    let mut running = Running::on_a_terminal(command, 80, 24);
    assert_eq!(running.ended(), Some(0));
    wait_for("the table", || running.out().replace('\r', "") == SERVICES_TABLE);
}
