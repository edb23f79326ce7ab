//! For tests: machines made of recorded files, laid out as kernels and Docker's cgroup drivers lay them out.
//!
//! `tests/data/source` has the recordings: `v1` of a paused container (so that files, engine JSON and `docker stats`
//! are of the same state), `v2_…` of two kernels.

use super::cgroup::{Host, Target};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

/// The container of the recordings.
pub(crate) const ID: &str = "d7fde0929bf31f8a3d5957216671473e13e87f5221b764330fb0b875ec7154b1";
/// Its first process.
pub(crate) const PID: u32 = 4242;
/// When it was started, as inspect said: 2026-11-30T18:50:36.022138888Z.
pub(crate) const STARTED_AT: u64 = 1_796_064_636_022_138_888;
/// The machine's memory.
pub(crate) const MEMORY_TOTAL: u64 = 24_684_084 * 1024;

/// A recorded file.
pub(crate) fn recording(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/source").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// How controllers are mounted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Layout {
    /// v1, each controller by itself.
    V1Apart,
    /// v1, as systemd mounts it: `cpu,cpuacct`.
    V1Together,
    /// v2 alone.
    V2,
    /// v1 with v2 beside it, which has no controllers.
    Hybrid,
}

/// A machine in a folder of its own, which goes with it.
pub(crate) struct Machine {
    pub(crate) root: PathBuf,
    layout: Layout,
}

impl Drop for Machine {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).ok();
    }
}

impl Machine {
    pub(crate) fn new(layout: Layout) -> Machine {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("swarmstats-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let machine = Machine { root: std::env::temp_dir().join(name), layout };
        let mut mounts =
            "22 1 8:1 / / rw,relatime - ext4 /dev/vda1 rw\n23 22 0:21 / /sys rw - sysfs sysfs rw\n".to_owned();
        for (place, (point, options)) in machine.hierarchies().into_iter().enumerate() {
            let kind = if options.is_empty() { "cgroup2" } else { "cgroup" };
            let (id, options) = (30 + place, if options.is_empty() { "rw".into() } else { format!("rw,{options}") });
            mounts += &format!("{id} 23 0:{id} / /sys/fs/cgroup{point} rw,nosuid shared:9 - {kind} {kind} {options}\n");
        }
        machine.write("proc/self/mountinfo", mounts);
        machine.write("proc/meminfo", "MemTotal:       24684084 kB\n");
        machine.write("proc/stat", "cpu  1 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0\nintr 1\n");
        // The disk, and a volume that stands on it.
        machine.write("sys/dev/block/254:0/size", "1\n");
        machine.write("sys/dev/block/253:0/slaves/vda", "");
        machine
    }

    /// Mount points below `/sys/fs/cgroup` and their v1 controllers.
    fn hierarchies(&self) -> Vec<(&'static str, &'static str)> {
        match self.layout {
            Layout::V1Apart => {
                vec![
                    ("/cpu", "cpu"),
                    ("/cpuacct", "cpuacct"),
                    ("/memory", "memory"),
                    ("/pids", "pids"),
                    ("/blkio", "blkio"),
                ]
            }
            Layout::V1Together => {
                vec![("/cpu,cpuacct", "cpu,cpuacct"), ("/memory", "memory"), ("/pids", "pids"), ("/blkio", "blkio")]
            }
            Layout::V2 => vec![("", "")],
            Layout::Hybrid => {
                let mut all = vec![("/unified", "")];
                all.extend(Machine { root: PathBuf::new(), layout: Layout::V1Together }.hierarchies());
                all
            }
        }
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.root.join(path)).unwrap();
    }

    /// The recorded container at a place in every hierarchy, with its process.
    pub(crate) fn container(&self, path: &str) {
        let mut lines = String::new();
        for (place, (point, controllers)) in self.hierarchies().into_iter().enumerate() {
            let folder = format!("sys/fs/cgroup{point}{path}");
            lines += &format!("{}:{controllers}:{path}\n", if controllers.is_empty() { 0 } else { place + 1 });
            if controllers.is_empty() {
                for file in self.v2_files() {
                    self.write(&format!("{folder}/{file}"), recording(&format!("v2_linux_6.12/{file}")));
                }
            }
            for controller in controllers.split(',').filter(|name| !name.is_empty()) {
                let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/source/v1").join(controller);
                for file in fs::read_dir(recorded).unwrap() {
                    let file = file.unwrap();
                    self.write(&format!("{folder}/{}", file.file_name().display()), fs::read(file.path()).unwrap());
                }
            }
        }
        self.write(&format!("proc/{PID}/cgroup"), lines);
        self.write(&format!("proc/{PID}/net/dev"), recording("v1/net_dev"));
    }

    fn v2_files(&self) -> &'static [&'static str] {
        const PRESSURE: usize = 2;
        const ALL: &[&str] = &[
            "cpu.pressure",
            "cpu.stat",
            "cpu.max",
            "io.stat",
            "memory.current",
            "memory.events",
            "memory.max",
            "memory.peak",
            "memory.stat",
            "memory.swap.current",
            "pids.current",
            "pids.max",
        ];
        if self.layout == Layout::Hybrid { &ALL[..PRESSURE] } else { ALL }
    }

    pub(crate) fn host(&self) -> Host {
        Host::new(self.root.join("proc"), self.root.join("sys")).unwrap()
    }
}

/// The recorded container, with a network of its own.
pub(crate) fn target() -> Target {
    Target { container_id: ID.into(), pid: PID, cgroup_parent: String::new(), network: true, started_at: STARTED_AT }
}
