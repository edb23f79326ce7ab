//! The tier's containers: where they are, and what they say on their own network, which only they are on.

use crate::env::{Lab, output, text};
use serde_json::Value;
use std::process::Command;

/// A container of the stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Container {
    /// The node, from 0.
    pub(crate) node: usize,
    pub(crate) id: String,
    /// Its task's name without the task's id: `swarmstats_collectord.2`.
    pub(crate) name: String,
}

impl Container {
    /// Everything its engine says of it.
    pub(crate) fn inspect(&self, lab: &Lab) -> Value {
        let text = lab.docker(self.node, &format!("inspect {}", self.id));
        serde_json::from_str::<Value>(&text).unwrap()[0].clone()
    }

    /// A GET at 127.0.0.1 inside of it; `None` where nobody answers any more.
    pub(crate) fn get(&self, lab: &Lab, port: u16, path: &str) -> Option<String> {
        let mut docker = Command::new("docker");
        docker.arg("-H").arg(format!("unix://{}", lab.engine(self.node).display()));
        docker.args(["inspect", "--format", "{{.State.Pid}}", &self.id]);
        let pid = String::from_utf8(docker.output().ok()?.stdout).ok()?.trim().to_owned();
        if pid.is_empty() || pid == "0" {
            return None;
        }
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET {path} HTTP/1.0\\r\\nHost: it\\r\\n\\r\\n' >&3; exec cat <&3"
        );
        let answer = Command::new("timeout").args(["10", "nsenter", "-t", &pid, "-n", "bash", "-c", &script]).output();
        let answer = String::from_utf8(answer.ok()?.stdout).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.contains(" 200 ").then(|| body.to_owned())
    }
}

/// The containers of one of the stack's services that run.
pub(crate) fn containers(lab: &Lab, service: &str) -> Vec<Container> {
    let of_node = |node: usize| {
        let filter = format!("label=com.docker.swarm.service.name=swarmstats_{service}");
        let lines = lab.docker(node, &format!("ps --no-trunc --filter {filter} --format {{{{.ID}}}}|{{{{.Names}}}}"));
        let container = |line: &str| {
            let (id, name) = line.split_once('|')?;
            let (name, _task) = name.rsplit_once('.')?;
            Some(Container { node, id: id.to_owned(), name: name.to_owned() })
        };
        lines.lines().filter_map(container).collect::<Vec<_>>()
    };
    let mut all: Vec<Container> = (0..lab.nodes().len()).flat_map(of_node).collect();
    all.sort();
    all
}

/// The series of a name on a text page: each one's labels as written, and its value.
pub(crate) fn series<'a>(page: &'a str, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
    page.lines().filter_map(move |line| {
        let (series, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
        let labels = if series.is_empty() { "" } else { series.strip_prefix('{')?.strip_suffix('}')? };
        Some((labels, value.parse().ok()?))
    })
}

/// A label's value; the stack's values hold neither quotes nor backslashes.
pub(crate) fn label<'a>(labels: &'a str, name: &str) -> &'a str {
    let value = labels.split("\",").find_map(|label| label.strip_prefix(name)?.strip_prefix("=\""));
    value.unwrap_or_else(|| panic!("no {name} in {labels}")).trim_end_matches('"')
}

/// The ring as a router sees it: id, and each member's name.
pub(crate) fn ring(lab: &Lab, router: usize) -> (String, Vec<String>) {
    let ring = lab.ask(router, "/v1/ring");
    let members = crate::env::items(&ring, "members");
    (text(&ring, "ring_id").to_owned(), members.iter().map(|member| text(member, "id").to_owned()).collect())
}

/// The docker CLI at the first manager; a command that may take its time.
pub(crate) fn swarm(lab: &Lab, words: &str) -> String {
    let mut docker = Command::new("docker");
    docker.arg("-H").arg(format!("unix://{}", lab.engine(0).display())).args(words.split(' '));
    output(docker)
}
