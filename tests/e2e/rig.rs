//! Daemons as child processes, plain HTTP, and waiting; everything started here ends with the test.

use serde_json::Value;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use swarmstats::model::MemberId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A port that was free a moment ago, for a child process.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

pub(crate) fn member(id: &str) -> MemberId {
    MemberId::new(id).unwrap()
}

/// A folder that goes with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("swarmstats-e2e-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        // Whole or not at all, as whoever edits a watched file should do it.
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A daemon; killed with the test, if it still runs.
pub(crate) struct Daemon {
    pub(crate) api: SocketAddr,
    pub(crate) metrics: SocketAddr,
    child: Child,
    _folder: Folder,
}

impl Daemon {
    /// A collectord of this id, alone unless `more` says otherwise; waits until it is alive.
    pub(crate) async fn collectord(id: &str, more: &str) -> Daemon {
        Daemon::collectord_at(id, free_address(), more).await
    }

    pub(crate) async fn collectord_at(id: &str, api: SocketAddr, more: &str) -> Daemon {
        Daemon::collectord_with(id, api, more, None).await
    }

    /// One whose names are resolved as the `resolv.conf` and `nsswitch.conf` of this folder say.
    pub(crate) async fn collectord_with(id: &str, api: SocketAddr, more: &str, resolver: Option<&Folder>) -> Daemon {
        let text = format!("member: {id}\n{more}");
        Daemon::start(env!("CARGO_BIN_EXE_collectord"), api, &text, resolver).await
    }

    /// A shipper of an engine's socket.
    pub(crate) async fn shipper(engine: &Path, more: &str) -> Daemon {
        Daemon::shipper_with(engine, more, None).await
    }

    pub(crate) async fn shipper_with(engine: &Path, more: &str, resolver: Option<&Folder>) -> Daemon {
        let text = format!("engine: unix://{}\n{more}", engine.display());
        Daemon::start(env!("CARGO_BIN_EXE_shipper"), free_address(), &text, resolver).await
    }

    async fn start(program: &str, api: SocketAddr, text: &str, resolver: Option<&Folder>) -> Daemon {
        let (folder, metrics) = (Folder::new(), free_address());
        let text = format!("{text}\napi: {{listen: '{api}'}}\nmetrics: {{listen: '{metrics}'}}\n");
        let config = folder.write("config.yaml", &text);
        let mut command = match resolver {
            None => Command::new(program),
            Some(folder) => in_own_mounts(folder, program),
        };
        command.arg("--config").arg(config).env_remove("RUST_LOG").stdout(Stdio::null()).stderr(Stdio::piped());
        let daemon = Daemon { api, metrics, child: command.spawn().unwrap(), _folder: folder };
        until("the daemon answers", async || {
            let alive = try_get(daemon.api, "/healthz").await.is_some_and(|answer| answer.status == 200);
            alive && TcpStream::connect(daemon.metrics).await.is_ok()
        })
        .await;
        daemon
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        // A thread stops when it is next scheduled; until then it answers.
        let threads = || std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            // One that ended meanwhile answers nothing.
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
            stat.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
        };
        while signal == rustix::process::Signal::STOP && !threads().all(stopped) {
            std::thread::yield_now();
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end: how it ended, and what it said on stderr.
    pub(crate) async fn ended(&mut self, within: Duration) -> (ExitStatus, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < within, "still running after {within:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (status, said)
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A program in a mount namespace of its own, with this folder's files in the place of the resolver's. It is read before
/// the daemon answers, so that the folder may go then.
fn in_own_mounts(folder: &Folder, program: &str) -> Command {
    let mut command = Command::new("unshare");
    let mount =
        "for name in resolv.conf nsswitch.conf; do mount --bind \"$0/$name\" \"/etc/$name\" || exit; done; exec \"$@\"";
    command.args(["--mount", "sh", "-c", mount]).arg(&folder.0).arg(program);
    command
}

/// Waits until something is so, 15 s at most.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < Duration::from_secs(15), "waited 15 s in vain until {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub(crate) async fn get(address: SocketAddr, target: &str) -> Answer {
    try_get(address, target).await.unwrap_or_else(|| panic!("no answer from {address}{target}"))
}

pub(crate) async fn try_get(address: SocketAddr, target: &str) -> Option<Answer> {
    request(address, &format!("GET {target} HTTP/1.0\r\n\r\n")).await
}

/// Sends bytes and reads what comes until the other end closes; `None` if that is no HTTP.
pub(crate) async fn request(address: SocketAddr, bytes: &str) -> Option<Answer> {
    let exchange = async {
        let mut socket = TcpStream::connect(address).await.ok()?;
        socket.write_all(bytes.as_bytes()).await.ok()?;
        let mut text = Vec::new();
        socket.read_to_end(&mut text).await.ok()?;
        let text = String::from_utf8(text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some(Answer { status: head.get(9..12)?.parse().ok()?, body: body.into() })
    };
    tokio::time::timeout(Duration::from_secs(20), exchange).await.ok()?
}

/// The value of one series, written as in the text; `None` where there is none.
pub(crate) async fn series(metrics: SocketAddr, series: &str) -> Option<f64> {
    value(&get(metrics, "/metrics").await.body, series)
}

pub(crate) fn value(page: &str, series: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

/// Waits until a counter has risen to a value.
#[track_caller]
pub(crate) fn until_series(metrics: SocketAddr, name: &str, at_least: f64) -> impl Future<Output = ()> {
    let name = name.to_string();
    async move {
        let what = format!("{name} is {at_least}");
        until(&what, async || series(metrics, &name).await.is_some_and(|value| value >= at_least)).await;
    }
}
