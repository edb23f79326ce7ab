//! What the kernel's own files say of a container, on cgroup v1 and v2.

use crate::env::{Lab, text};
use serde_json::Value;
use std::{fs, path::PathBuf};

/// A container's files.
pub(crate) struct Kernel {
    /// `<parent cgroup>/<container id>`.
    group: String,
}

impl Kernel {
    /// Of a task of the lab.
    pub(crate) fn of(task: &Value) -> Kernel {
        Kernel { group: format!("{}/{}", text(task, "node_name"), text(task, "container_id")) }
    }

    /// Of a container under a parent cgroup.
    pub(crate) fn under(parent: &str, container: &str) -> Kernel {
        Kernel { group: format!("{parent}/{container}") }
    }

    /// CPU seconds used.
    pub(crate) fn cpu(&self) -> f64 {
        match self.read("cpuacct", "cpuacct.usage") {
            Some(nanos) => nanos.trim().parse::<f64>().unwrap() / 1e9,
            None => self.field("", "cpu.stat", "usage_usec") / 1e6,
        }
    }

    /// Memory as docker stats counts it: usage less the inactive page cache.
    pub(crate) fn memory_used(&self) -> f64 {
        match self.read("memory", "memory.usage_in_bytes") {
            Some(usage) => {
                usage.trim().parse::<f64>().unwrap() - self.field("memory", "memory.stat", "total_inactive_file")
            }
            None => self.number("", "memory.current") - self.field("", "memory.stat", "inactive_file"),
        }
    }

    /// CFS periods, and those in which it was throttled.
    pub(crate) fn throttling(&self) -> (f64, f64) {
        let field =
            |name| self.field(if self.read("cpu", "cpu.stat").is_some() { "cpu" } else { "" }, "cpu.stat", name);
        (field("nr_periods"), field("nr_throttled"))
    }

    fn number(&self, controller: &str, file: &str) -> f64 {
        self.must(controller, file).trim().parse().unwrap()
    }

    fn field(&self, controller: &str, file: &str, name: &str) -> f64 {
        let text = self.must(controller, file);
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {file}")).parse().unwrap()
    }

    fn must(&self, controller: &str, file: &str) -> String {
        self.read(controller, file).unwrap_or_else(|| panic!("no {file} of {}", self.group))
    }

    fn read(&self, controller: &str, file: &str) -> Option<String> {
        let place = PathBuf::from("/sys/fs/cgroup").join(controller).join(&self.group).join(file);
        fs::read_to_string(place).ok()
    }
}

/// CPU seconds of all tasks of a service that run, with the number of these tasks.
pub(crate) fn cpu_of_service(lab: &Lab, service: &str) -> (f64, usize) {
    let tasks = lab.tasks(0);
    let of_service = tasks.iter().filter(|task| task["service_name"] == service);
    of_service.fold((0.0, 0), |(sum, n), task| (sum + Kernel::of(task).cpu(), n + 1))
}
