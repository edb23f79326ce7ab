//! What a machine recorded, as lab/vm/guest.sh has it.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The machines, as their folders in `target/vm` are called.
pub(crate) const MACHINES: [&str; 2] = ["systemd", "cgroupfs"];

/// A machine's record.
pub(crate) struct Record {
    pub(crate) machine: &'static str,
    out: PathBuf,
    pub(crate) containers: Vec<Container>,
}

/// A container of the machine.
pub(crate) struct Container {
    /// Of its service, or its own.
    pub(crate) name: String,
    pub(crate) id: String,
    /// Its place in the hierarchy.
    pub(crate) cgroup: String,
}

impl Record {
    /// Of a machine that ended well.
    pub(crate) fn of(machine: &'static str) -> Record {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/vm").join(machine);
        let out = dir.join("out");
        if !out.join("done").exists() {
            let console = fs::read(dir.join("console.log")).unwrap_or_default();
            let console = String::from_utf8_lossy(&console);
            let tail: Vec<&str> = console.lines().rev().take(40).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            panic!("no record of machine {machine}: run  ./dev vm run;  its console ended with:\n{}", tail.join("\n"));
        }
        let mut record = Record { machine, out, containers: Vec::new() };
        let container = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let (id, name, cgroup) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            Container { name, id, cgroup }
        };
        record.containers = record.text("containers").lines().map(container).collect();
        record.containers.sort_by(|a, b| a.name.cmp(&b.name));
        record
    }

    /// Both machines'.
    pub(crate) fn all() -> [Record; 2] {
        MACHINES.map(Record::of)
    }

    pub(crate) fn text(&self, file: &str) -> String {
        let path = self.out.join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn json(&self, file: &str) -> Value {
        serde_json::from_str(&self.text(file)).unwrap_or_else(|error| panic!("{file} of {}: {error}", self.machine))
    }

    pub(crate) fn container(&self, name: &str) -> &Container {
        let found = self.containers.iter().find(|container| container.name == name);
        found.unwrap_or_else(|| panic!("no container {name} in machine {}", self.machine))
    }

    /// The folder of a container's kernel files and engine record in a look.
    pub(crate) fn look(&self, look: u8, container: &Container) -> PathBuf {
        self.out.join(format!("look{look}")).join(&container.name)
    }

    /// What the collector answered, by the containers' names.
    pub(crate) fn asked(&self, ask: u8) -> BTreeMap<String, Value> {
        let document = self.json(&format!("ask{ask}.json"));
        assert_eq!(document["complete"], true, "ask {ask} of {}: {}", self.machine, document["missing"]);
        let tasks = document["tasks"].as_array().unwrap().iter().filter(|task| task["state"] == "running");
        tasks.map(|task| (short(task["name"].as_str().unwrap()), task.clone())).collect()
    }

    /// `docker stats` of a look, by container id.
    pub(crate) fn docker(&self, look: u8) -> BTreeMap<String, Value> {
        let text = self.text(&format!("look{look}.docker"));
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["ID"].as_str().unwrap().to_owned(), line)
        };
        text.lines().map(line).collect()
    }
}

/// `vm_burn.1.x2f…` is burn's, `custom` is itself.
fn short(name: &str) -> String {
    name.strip_prefix("vm_").unwrap_or(name).split('.').next().unwrap().to_owned()
}

/// Panics with everything that is wrong, if anything is.
pub(crate) fn judge(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
