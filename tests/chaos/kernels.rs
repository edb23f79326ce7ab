//! The CPU counters of every container of the lab, read from the kernel's own files several times a second, with the
//! last reading of those that are gone.

use crate::env::root;
use crate::tier::held;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

const EVERY: Duration = Duration::from_millis(200);

/// What is known of the containers of swarm tasks, by container id.
#[derive(Default)]
pub(crate) struct Kernels {
    lives: Mutex<BTreeMap<String, Life>>,
}

/// A container's life.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) service: String,
    pub(crate) task: String,
    /// From 0.
    pub(crate) node: usize,
    file: PathBuf,
    /// CPU seconds, oldest first.
    pub(crate) readings: Vec<(Instant, f64)>,
}

impl Life {
    pub(crate) fn first(&self) -> Instant {
        self.readings[0].0
    }
    pub(crate) fn last(&self) -> (Instant, f64) {
        self.readings[self.readings.len() - 1]
    }
    /// The newest reading that is not younger than a moment.
    pub(crate) fn at(&self, when: Instant) -> Option<f64> {
        self.readings.iter().rev().find(|(at, _)| *at <= when).map(|(_, cpu)| *cpu)
    }
    /// Whether its engine takes it for running. An engine that is killed while it starts a container leaves a cgroup
    /// behind that is no task's any more: Swarm has another task in its place.
    pub(crate) fn is_running(&self, id: &str) -> bool {
        written(self.node, id).is_some_and(|config| config["State"]["Running"] == true)
    }
    /// The processes in its cgroup.
    pub(crate) fn n_processes(&self) -> usize {
        let procs = fs::read_to_string(self.file.with_file_name("cgroup.procs"));
        procs.map_or(0, |procs| procs.lines().count())
    }
    /// The counter now, if it is there.
    pub(crate) fn now(&self) -> Option<f64> {
        cpu(&self.file)
    }
}

fn cpu(file: &Path) -> Option<f64> {
    let text = fs::read_to_string(file).ok()?;
    if file.ends_with("cpuacct.usage") {
        return Some(text.trim().parse::<f64>().ok()? / 1e9);
    }
    let usage = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(usage.parse::<f64>().ok()? / 1e6)
}

impl Kernels {
    /// Reads until told to stop.
    pub(crate) fn watch(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.look();
            sleep(EVERY);
        }
    }

    /// Reads all of them once.
    pub(crate) fn look(&self) {
        let v1 = Path::new("/sys/fs/cgroup/cpuacct");
        let (top, name) = if v1.exists() { (v1, "cpuacct.usage") } else { (Path::new("/sys/fs/cgroup"), "cpu.stat") };
        for node in 0..3 {
            let folders = fs::read_dir(top.join(format!("swarmstats-n{}", node + 1)));
            for folder in folders.into_iter().flatten().flatten() {
                let (id, file) = (folder.file_name().to_string_lossy().into_owned(), folder.path().join(name));
                let Some(cpu) = cpu(&file) else { continue };
                let at = Instant::now();
                let mut lives = held(&self.lives);
                if let Some(life) = lives.get_mut(&id) {
                    life.readings.push((at, cpu));
                } else if let Some((service, task)) = labels(node, &id) {
                    lives.insert(id, Life { service, task, node, file, readings: vec![(at, cpu)] });
                }
            }
        }
    }

    /// All lives so far, or those of a task.
    pub(crate) fn lives(&self, task: Option<&str>) -> Vec<(String, Life)> {
        let lives = held(&self.lives);
        let chosen = lives.iter().filter(|(_, life)| task.is_none_or(|task| life.task == task));
        chosen.map(|(id, life)| (id.clone(), life.clone())).collect()
    }

    /// Ids of tasks that were there all the time from a moment until the newest reading, which is new.
    pub(crate) fn lasting(&self, since: Instant) -> Vec<String> {
        let lasts = |life: &&Life| life.first() <= since && life.last().0.elapsed() < EVERY * 3;
        held(&self.lives).values().filter(lasts).map(|life| life.task.clone()).collect()
    }
}

/// What the engine of a node wrote down of a container; `None` once it has removed it.
fn written(node: usize, id: &str) -> Option<Value> {
    let place = root().join(format!("target/lab/n{}/data/containers/{id}/config.v2.json", node + 1));
    serde_json::from_str(&fs::read_to_string(place).ok()?).ok()
}

/// Service and task of a container.
fn labels(node: usize, id: &str) -> Option<(String, String)> {
    let config = written(node, id)?;
    let label = |name: &str| config["Config"]["Labels"][format!("com.docker.swarm.{name}")].as_str().map(str::to_owned);
    Some((label("service.name")?, label("task.id")?))
}
