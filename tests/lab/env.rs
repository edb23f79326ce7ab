//! Where the lab is, how its parts are asked, ended and started again, and how a test says what is wrong.

use crate::http::{self, Answer};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant, SystemTime},
};

/// The interval of the lab's shippers.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// The routers' deadline for a query, and what a loaded machine and this client may add.
pub(crate) const DEADLINE: Duration = Duration::from_secs(1);
pub(crate) const MARGIN: Duration = Duration::from_millis(750);

/// What `./dev lab up` made. Nodes are counted from 0 here.
pub(crate) struct Lab {
    vars: BTreeMap<String, Vec<String>>,
}

/// The lab, which has to be up.
pub(crate) fn lab() -> Lab {
    let place = root().join("target/lab/env");
    let text = fs::read_to_string(&place).unwrap_or_default();
    let var = |line: &str| {
        let (name, values) = line.split_once('=')?;
        Some((name.to_owned(), values.trim_matches('"').split(' ').map(str::to_owned).collect()))
    };
    let vars: BTreeMap<_, _> = text.lines().filter_map(var).collect();
    let lab = Lab { vars };
    let up = lab.vars.contains_key("ROUTERS") && http::get(&format!("{}/healthz", lab.routers()[0])).is_ok();
    assert!(up, "the lab is not up: run  ./dev lab up");
    lab
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Lab {
    fn list(&self, name: &str) -> &[String] {
        self.vars.get(name).unwrap_or_else(|| panic!("target/lab/env has no {name}"))
    }
    pub(crate) fn routers(&self) -> &[String] {
        self.list("ROUTERS")
    }
    pub(crate) fn metrics(&self) -> &[String] {
        self.list("METRICS")
    }
    pub(crate) fn shippers(&self) -> &[String] {
        self.list("SHIPPERS")
    }
    /// Host names, which are also the names of the cgroups that the nodes' containers are in.
    pub(crate) fn nodes(&self) -> &[String] {
        self.list("NODES")
    }
    pub(crate) fn engine(&self, node: usize) -> &Path {
        Path::new(&self.list("ENGINES")[node])
    }
    /// A file of `target/lab`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        root().join("target/lab").join(name)
    }
    /// The process that a pid file of `target/lab` names, as `run/c1.pid`.
    pub(crate) fn pid(&self, name: &str) -> u32 {
        fs::read_to_string(self.file(name)).unwrap().trim().parse().unwrap()
    }
    /// The router of a place asks the cluster; a path begins with `/`.
    pub(crate) fn ask(&self, router: usize, path: &str) -> Value {
        let url = format!("{}{path}", self.routers()[router]);
        let answer = http::get(&url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(answer.code, 200, "{url}: {}", answer.body);
        answer.json()
    }
    /// The tasks that run or are paused, as a router knows them.
    pub(crate) fn tasks(&self, router: usize) -> Vec<Value> {
        let tasks = items(&self.ask(router, "/v1/tasks"), "tasks");
        tasks.into_iter().filter(|task| task["state"] == "running" || task["state"] == "paused").collect()
    }
    /// The docker CLI at a node's engine, words separated by blanks.
    pub(crate) fn docker(&self, node: usize, words: &str) -> String {
        let mut docker = Command::new("docker");
        docker.arg("-H").arg(format!("unix://{}", self.engine(node).display())).args(words.split(' '));
        output(docker)
    }
    /// Starts again what a test has ended, as `c2`.
    pub(crate) fn start(&self, what: &str) {
        let mut dev = Command::new(root().join("dev"));
        dev.args(["lab", "start", what]);
        // Of two tests' processes only one is the parent of what it starts.
        output(dev);
    }
    /// A GET at an engine's API.
    pub(crate) fn engine_get(&self, node: usize, path: &str) -> Answer {
        http::get_unix(self.engine(node), path).unwrap()
    }
    /// The engine's own record of a container, and when it was made.
    pub(crate) fn record(&self, node: usize, container: &str) -> Value {
        let answer = self.engine_get(node, &format!("/containers/{container}/stats?stream=false&one-shot=true"));
        assert_eq!(answer.code, 200, "{}", answer.body);
        answer.json()
    }
    /// Whether the engines see as many running tasks as each service wants.
    pub(crate) fn services_run(&self) -> bool {
        let all = self.docker(0, "service ls --format {{.Replicas}}");
        all.lines().all(|line| line.split_once('/').is_some_and(|(running, wanted)| running == wanted))
    }
    /// The place of a node by its name.
    pub(crate) fn node(&self, name: &str) -> usize {
        self.nodes().iter().position(|node| node == name).unwrap_or_else(|| panic!("no node {name}"))
    }
    /// Nothing that the lab's processes logged is a panic.
    pub(crate) fn no_panic(&self) {
        for log in fs::read_dir(self.file("log")).unwrap() {
            let path = log.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let panic = text.lines().find(|line| line.contains("panicked"));
            assert!(panic.is_none(), "{}: {}", path.display(), panic.unwrap_or_default());
        }
    }
}

/// What a command prints, which must succeed.
pub(crate) fn output(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// Sends a signal, as `KILL` or `STOP`, to a process by its id; it has stopped when this returns.
pub(crate) fn signal(pid: u32, signal: &str) {
    let mut kill = Command::new("kill");
    kill.arg(format!("-{signal}")).arg(pid.to_string());
    output(kill);
    // A thread stops when it is next scheduled; until then it answers.
    let began = Instant::now();
    while signal == "STOP" && !threads(pid).all(|state| state == 'T') {
        assert!(began.elapsed() < Duration::from_secs(10), "process {pid} does not stop");
        std::thread::yield_now();
    }
}

/// The states of a process's threads.
fn threads(pid: u32) -> impl Iterator<Item = char> {
    let state = |stat: String| stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    let stats =
        std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|thread| thread.unwrap().path().join("stat"));
    // One that ended meanwhile answers nothing.
    stats.filter_map(move |stat| state(std::fs::read_to_string(stat).ok()?))
}

/// A process of a test's own: ends with it.
pub(crate) struct Own(pub(crate) Child);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Is done at the end of a test, however it ends.
pub(crate) struct Finally<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Waits until something holds; gives how long that took.
pub(crate) fn wait_for(what: &str, within: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < within, "not within {within:?}: {what}");
        sleep(Duration::from_millis(100));
    }
    begun.elapsed()
}

/// A folder of a test's own under `target/`, empty.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = root().join("target/lab-test").join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A port of 127.0.0.1 that nobody listens on.
pub(crate) fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let port = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let before = TAKEN.load(Ordering::Relaxed);
    let port = std::iter::repeat_with(port).find(|port| u32::from(*port) != before).unwrap();
    TAKEN.store(port.into(), Ordering::Relaxed);
    port
}

/// Now, in seconds since the Unix epoch.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
}

pub(crate) fn items(document: &Value, what: &str) -> Vec<Value> {
    document[what].as_array().unwrap_or_else(|| panic!("no {what} in {document}")).clone()
}

pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// A stat of a task or service in its base unit.
pub(crate) fn stat(item: &Value, name: &str) -> Option<f64> {
    item["stats"][name].as_f64()
}

/// What is wrong, all of it said at the end.
#[derive(Default)]
pub(crate) struct Check(pub(crate) Vec<String>);

impl Check {
    pub(crate) fn that(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }
    pub(crate) fn done(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}
