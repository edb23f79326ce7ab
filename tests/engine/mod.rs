//! A Docker engine of a test's own: its socket, data and containers are in a temporary folder and end with it.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// The engine.
pub(crate) struct Engine {
    root: PathBuf,
    kind: Kind,
    daemon: Child,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its containers outlive it.
    Plain,
    /// The manager of a swarm of its own, in a network namespace where nobody else has Swarm's ports.
    Manager,
}

const PROGRAMS: [(&str, &str); 5] = [
    ("dockerd", "docker.io"),
    ("docker", "docker.io"),
    ("containerd", "containerd"),
    ("runc", "runc"),
    ("busybox", "busybox-static"),
];

impl Engine {
    /// Starts one, with an image `busybox` and a network `lab`.
    ///
    /// # Panics
    /// If it cannot be started; what has to be installed for it is said.
    pub(crate) fn start() -> Engine {
        Engine::start_as(Kind::Plain)
    }

    /// Starts one that is a swarm of one node; its services want `--network host`.
    ///
    /// # Panics
    /// As [`Engine::start`].
    #[allow(dead_code, reason = "not every suite has a swarm")]
    pub(crate) fn start_manager() -> Engine {
        let engine = Engine::for_a_swarm();
        engine.docker("swarm init --advertise-addr 127.0.0.1 --listen-addr 127.0.0.1:2377");
        engine
    }

    /// Starts one that can be in a swarm, with a network of its own.
    ///
    /// # Panics
    /// As [`Engine::start`].
    #[allow(dead_code, reason = "not every suite has a swarm")]
    pub(crate) fn for_a_swarm() -> Engine {
        Engine::start_as(Kind::Manager)
    }

    fn start_as(kind: Kind) -> Engine {
        assert!(rustix::process::geteuid().is_root(), "an engine needs root: run this test as root");
        for (program, package) in PROGRAMS {
            assert!(find(program).is_some(), "this test needs {program}: install the package {package}");
        }
        let root = std::env::temp_dir().join(format!("swarmstats-engine-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let daemon = daemon(&root, kind);
        let engine = Engine { root, kind, daemon };
        engine.wait();
        engine.make_image();
        engine.docker("network create lab");
        engine
    }

    /// Its socket's path.
    pub(crate) fn socket(&self) -> String {
        socket(&self.root).display().to_string()
    }

    /// Runs the docker CLI against it, words separated by blanks; gives what it prints.
    pub(crate) fn docker(&self, words: &str) -> String {
        self.cli(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// Starts a container that runs a shell script.
    pub(crate) fn run(&self, name: &str, options: &str, script: &str) {
        let mut words = vec!["run", "-d", "--name", name, "--init=false"];
        words.extend(options.split_whitespace());
        words.extend(["busybox", "sh", "-c", script]);
        self.cli(&words);
    }

    /// Stops the daemon's process where it stands.
    pub(crate) fn freeze(&self) {
        signal(Pid::from_child(&self.daemon), Signal::STOP);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        signal(Pid::from_child(&self.daemon), Signal::CONT);
    }

    /// Kills the daemon; its containers live on.
    pub(crate) fn kill(&mut self) {
        signal(Pid::from_child(&self.daemon), Signal::KILL);
        self.daemon.wait().unwrap();
    }

    /// Starts the daemon that was killed.
    pub(crate) fn start_again(&mut self) {
        fs::remove_file(self.root.join("pid")).ok();
        self.daemon = daemon(&self.root, self.kind);
        self.wait();
    }

    fn cli(&self, words: &[&str]) -> String {
        let output = self.cli_anyhow(words);
        assert!(output.status.success(), "docker {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn cli_anyhow(&self, words: &[&str]) -> std::process::Output {
        let host = format!("unix://{}", self.socket());
        Command::new("docker").args(words).env("DOCKER_HOST", host).output().unwrap()
    }

    fn wait(&self) {
        let begun = Instant::now();
        let ready = || {
            let mut docker = Command::new("docker");
            docker.arg("version").env("DOCKER_HOST", format!("unix://{}", self.socket()));
            docker.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        while !ready() {
            let log = fs::read_to_string(self.root.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < Duration::from_secs(60), "the engine does not answer; it says:\n{log}");
            sleep(Duration::from_millis(200));
        }
    }

    /// The daemon leaves the empty parent of its containers' cgroups behind.
    fn remove_cgroups(&self) {
        let top = Path::new("/sys/fs/cgroup");
        for hierarchy in top.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()).chain([top.into()]) {
            fs::remove_dir(hierarchy.join(cgroup_parent())).ok();
        }
    }

    fn make_image(&self) {
        let bin = self.root.join("image/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::copy(find("busybox").unwrap(), bin.join("busybox")).unwrap();
        for applet in ["sh", "sleep", "dd", "cat", "true"] {
            symlink("busybox", bin.join(applet)).unwrap();
        }
        let (image, tar) = (self.root.join("image"), self.root.join("image.tar"));
        let made = Command::new("tar").arg("cf").arg(&tar).arg("-C").arg(image).arg(".").status().unwrap();
        assert!(made.success());
        self.docker(&format!("import {} busybox", tar.display()));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A frozen daemon ends no container.
        self.thaw();
        if self.daemon.try_wait().is_ok_and(|ended| ended.is_none()) {
            if self.kind == Kind::Manager {
                // Its services would start what is removed again.
                self.cli_anyhow(&["swarm", "leave", "--force"]);
            }
            let all = self.docker("ps -aq").split_whitespace().collect::<Vec<_>>().join(" ");
            if !all.is_empty() {
                self.docker(&format!("rm -f {all}"));
            }
            self.docker("network rm lab");
        }
        signal(Pid::from_child(&self.daemon), Signal::TERM);
        self.daemon.wait().ok();
        // A daemon that was killed left its containerd behind.
        let left = fs::read_to_string(self.root.join("exec/containerd/containerd.pid")).ok();
        if let Some(pid) = left.and_then(|pid| Pid::from_raw(pid.trim().parse().ok()?)) {
            signal(pid, Signal::TERM);
        }
        fs::remove_dir_all(&self.root).ok();
        self.remove_cgroups();
    }
}

fn socket(root: &Path) -> PathBuf {
    root.join("docker.sock")
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn signal(process: Pid, signal: Signal) {
    // It may have ended by itself; then there is nobody to tell.
    kill_process(process, signal).ok();
}

/// The cgroup its containers are in, in whatever hierarchies there are.
fn cgroup_parent() -> String {
    format!("swarmstats-test-{}", std::process::id())
}

fn daemon(root: &Path, kind: Kind) -> Child {
    let log = fs::File::options().create(true).append(true).open(root.join("log")).unwrap();
    let group = format!("/{}", cgroup_parent());
    let (program, first): (_, &[&str]) = match kind {
        Kind::Plain => ("dockerd", &["--live-restore"]),
        Kind::Manager => ("unshare", &["--net", "sh", "-c", "ip link set lo up; exec dockerd \"$@\"", "dockerd"]),
    };
    Command::new(program)
        .args(first)
        .args(["--bridge=none", "--iptables=false", "--ip6tables=false", "--cgroup-parent", &group])
        .arg("--data-root")
        .arg(root.join("data"))
        .arg("--exec-root")
        .arg(root.join("exec"))
        .arg("--pidfile")
        .arg(root.join("pid"))
        .arg("--host")
        .arg(format!("unix://{}", socket(root).display()))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}
