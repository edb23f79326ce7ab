//! `docker swarmstats top` on a real terminal (a pty): keys, frames, and that the terminal is as it was, however it ends.
//!
//! The router is a fake with canned documents; the terminal's mode is asked of the kernel.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    ffi::OsStr,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener},
    os::{fd::AsFd, unix::ffi::OsStrExt},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

const SERVICES: &str = r#"{"complete": true, "services": [
    {"id": "s1", "name": "web", "tasks": {"fresh": 2, "known": 2}, "figures": {"cpu_percent": 1.5, "memory_used_bytes": 9000}},
    {"id": "s2", "name": "api", "tasks": {"fresh": 1, "known": 1}, "figures": {"cpu_percent": 75.2, "memory_used_bytes": 24}}]}"#;
const TASKS: &str = r#"{"complete": false, "missing": [{"what": "node n9", "why": "no sample for 12 s"}], "tasks": [
    {"id": "t1", "name": "web.1.t1", "state": "running", "node_name": "n1", "tasks": {"fresh": 1, "known": 1}, "figures": {}}]}"#;

/// A stand-in for a router; which paths it was asked.
fn router() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(vec![])));
    let log = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut request, mut header) = (String::new(), String::new());
            reader.read_line(&mut request).unwrap();
            while reader.read_line(&mut header).unwrap() > 2 {
                header.clear();
            }
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let body = if path.starts_with("/v1/tasks") { TASKS } else { SERVICES };
            let body = if path.starts_with("/v1/tasks/") { r#"{"complete": true, "tasks": []}"# } else { body };
            log.lock().unwrap().push(path);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).ok();
        }
    });
    (address, asked)
}

struct Running {
    ours: File,
    /// Kept, so that the terminal lives on when the command is gone.
    theirs: File,
    before: Termios,
    child: Child,
    out: Arc<Mutex<Vec<u8>>>,
}

fn top(columns: u16, line: &str) -> (Running, Arc<Mutex<Vec<String>>>) {
    let (address, asked) = router();
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    tcsetwinsize(&ours, Winsize { ws_row: 12, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let path = ptsname(&ours, vec![]).unwrap();
    let theirs = File::options().read(true).write(true).open(OsStr::from_bytes(path.to_bytes())).unwrap();
    let before = tcgetattr(theirs.as_fd()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_docker-swarmstats"));
    command.arg("top").args(line.split_whitespace()).env("TERM", "xterm").env_remove("NO_COLOR");
    command.env("SWARMSTATS_HOST", format!("http://{address}")).env("DOCKER_CONFIG", "/nowhere");
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let ours = File::from(ours);
    let out = Arc::new(Mutex::new(vec![]));
    let (into, mut from) = (out.clone(), ours.try_clone().unwrap());
    thread::spawn(move || {
        let mut some = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut some) {
            into.lock().unwrap().extend_from_slice(&some[..n]);
        }
    });
    (Running { ours, theirs, before, child, out }, asked)
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "not within 10 s: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

impl Running {
    fn out(&self) -> String {
        String::from_utf8_lossy(&self.out.lock().unwrap()).into_owned()
    }
    /// The newest whole frame: its lines, without what only a terminal sees.
    fn frame(&self) -> Vec<String> {
        let out = self.out();
        let Some((before, _)) = out.rsplit_once("\x1b[J") else { return vec![] };
        let frame = before.rsplit("\x1b[H").next().unwrap().replace('\r', "");
        let mut text = frame.replace("\x1b[K", "");
        for code in ["0", "1", "2", "7", "33", "1;33"] {
            text = text.replace(&format!("\x1b[{code}m"), "");
        }
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }
    fn shows(&self, text: &str) {
        wait_for(&format!("{text:?} on the screen; last {:#?}", self.frame()), || {
            self.frame().iter().any(|line| line.contains(text))
        });
    }
    fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }
    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
    fn mode(&self) -> Termios {
        tcgetattr(self.theirs.as_fd()).unwrap()
    }
    fn is_as_it_was(&self) -> bool {
        let (now, out) = (self.mode(), self.out());
        (now.local_modes, now.input_modes, now.output_modes)
            == (self.before.local_modes, self.before.input_modes, self.before.output_modes)
            && out.ends_with("\x1b[?1049l")
            && out.rfind("\x1b[?25h") > out.rfind("\x1b[?25l")
    }
    /// Waits for its end, and for the terminal to be as it was.
    fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        wait_for("the end of the command", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        wait_for("the terminal as it was", || self.is_as_it_was());
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
fn keys_sort_filter_switch_views_drill_pause_and_quit() {
    let (mut top, asked) = top(100, "--sort cpu");
    top.shows("api");
    assert!(top.out().starts_with("\x1b[?1049h"), "a screen of its own");
    assert!(!top.mode().local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO));
    let frame = top.frame();
    assert!(
        frame[0].contains("services") && frame[0].contains("3/3 tasks") && frame[0].contains("complete"),
        "{frame:#?}"
    );
    assert!(frame[2].starts_with("api") && frame[3].starts_with("web"), "the busiest first: {frame:#?}");
    assert_eq!(frame.len(), 11, "one line stays free: {frame:#?}");

    top.press("m");
    top.shows("by mem");
    wait_for("the largest first", || top.frame().get(2).is_some_and(|line| line.starts_with("web")));
    top.press("r");
    top.shows("by -mem");
    top.press("/ap");
    wait_for("only what is typed", || top.frame().iter().filter(|line| line.starts_with("web")).count() == 0);
    top.press("\x1b");
    top.shows("web");
    top.press("?");
    top.shows("sort by the next figure");
    top.press("x");
    top.press("N\x1b[B"); // api, web: down to web
    wait_for("web to be selected", || top.out().contains("\x1b[7mweb"));
    top.press("\r");
    top.shows("web.1");
    assert!(top.frame()[0].contains("INCOMPLETE node n9"), "{:#?}", top.frame());
    assert!(asked.lock().unwrap().iter().any(|path| path.starts_with("/v1/tasks?service=s1")), "{asked:?}");
    top.press("\x1b");
    top.shows("api");
    top.press(" ");
    top.shows("PAUSED");
    let n = asked.lock().unwrap().len();
    thread::sleep(Duration::from_millis(1500));
    assert!(asked.lock().unwrap().len() <= n + 1, "nothing is asked while it pauses");
    top.press("q");
    assert_eq!(top.ended(), Some(0));
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    for columns in [40, 80, 200] {
        let (top, _) = top(columns, "");
        top.shows("api");
        let frame = top.frame();
        assert!(frame.iter().all(|line| line.chars().count() <= columns.into()), "{columns}: {frame:#?}");
    }
}

#[test]
fn signals_end_it_and_leave_the_terminal_as_it_was() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (mut top, _) = top(80, "");
        top.shows("api");
        top.send(signal);
        assert_eq!(top.ended(), Some(0), "{signal:?}");
    }
}

#[test]
fn so_does_sigkill() {
    let (mut top, _) = top(80, "");
    top.shows("api");
    top.send(Signal::KILL);
    assert_eq!(top.ended(), None, "killed");
}

#[test]
fn ctrl_z_gives_the_terminal_back_and_fg_takes_it_again() {
    let (mut top, _) = top(80, "");
    top.shows("api");
    top.send(Signal::TSTP);
    wait_for("the terminal as it was", || top.is_as_it_was());
    let before = top.out().len();
    top.send(Signal::CONT);
    wait_for("another frame", || top.out()[before..].contains("\x1b[?1049h") && top.out()[before..].contains("api"));
    assert!(!top.mode().local_modes.contains(LocalModes::ICANON));
    top.press("q");
    assert_eq!(top.ended(), Some(0));
}

#[test]
fn without_a_terminal_it_says_so() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docker-swarmstats"));
    let output = command.arg("top").env("DOCKER_CONFIG", "/nowhere").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("top needs a terminal"), "{output:?}");
}
