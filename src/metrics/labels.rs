//! Label sets as the bytes that stand between name and value, rendered once a task.
//!
//! A set is open at its end (`{a="b",c="d"`): the writer closes it, or adds one label more. Always the whole set, empty
//! where unknown, so that series of one family have the same labels.

use super::exposition::TaskSeries;
use crate::aggregate::{ScrapedService, ScrapedTask};
use crate::model::{NodeMeta, RowMeta, TaskMeta};
use std::collections::HashMap;
use std::sync::Arc;

/// A task's two label sets.
#[derive(Debug, PartialEq, Eq)]
pub struct TaskLabels {
    /// Of each of its series.
    pub(super) series: Box<[u8]>,
    /// Of `swarmstats_task_info`: everything known.
    pub(super) info: Box<[u8]>,
}

impl TaskLabels {
    /// Renders a task's labels.
    pub fn new(task: &TaskMeta) -> TaskLabels {
        let series = rendered(&[
            ("task_id", task.task_id.as_str()),
            ("task_name", &task.task_name),
            ("service_name", &task.service_name),
            ("stack", &task.stack),
            ("node_name", &task.node_name),
        ]);
        let mut info = series.clone();
        for (name, value) in [
            ("service_id", task.service_id.as_str()),
            ("node_id", task.node_id.as_str()),
            ("slot", &*task.slot),
            ("container_id", &*task.container_id),
            ("image", &*task.image),
        ] {
            push(&mut info, name, value);
        }
        let mut names: Vec<String> = Vec::with_capacity(task.labels.len());
        for (label, value) in &task.labels {
            // `a.b` and `a_b` come out alike: the later one gets underscores until it is alone.
            let mut name = label_name(label);
            while names.contains(&name) {
                name.push('_');
            }
            push(&mut info, &name, value);
            names.push(name);
        }
        TaskLabels { series: series.into(), info: info.into() }
    }
}

/// The labels of tasks from one scrape to the next; forgets a task with the first scrape that lacks it.
#[derive(Debug, Default)]
pub struct LabelCache {
    /// By the address of the meta, which the entry itself keeps from being given to another.
    rendered: HashMap<usize, (Arc<TaskMeta>, Arc<TaskLabels>)>,
}

impl LabelCache {
    /// The series of a scrape's tasks.
    pub fn tasks(&mut self, tasks: Vec<ScrapedTask>) -> Vec<TaskSeries> {
        let mut before = std::mem::take(&mut self.rendered);
        self.rendered.reserve(tasks.len());
        let series = |ScrapedTask { meta, values, age }| {
            let address = Arc::as_ptr(&meta).addr();
            let (meta, labels) = before.remove(&address).unwrap_or_else(|| {
                let labels = Arc::new(TaskLabels::new(&meta));
                (meta, labels)
            });
            self.rendered.insert(address, (meta, labels.clone()));
            TaskSeries { labels, values, age }
        };
        tasks.into_iter().map(series).collect()
    }
}

/// The labels of a service.
pub(super) fn of_service(service: &ScrapedService) -> Box<[u8]> {
    of_group(service.service_id.as_str(), &service.name, &service.stack).into()
}

/// The labels of a service by its texts.
pub(super) fn of_group(id: &str, name: &str, stack: &str) -> Vec<u8> {
    rendered(&[("service_id", id), ("service_name", name), ("stack", stack)])
}

/// The labels of a stack.
pub(super) fn of_stack(stack: &str) -> Vec<u8> {
    rendered(&[("stack", stack)])
}

/// The labels of a node.
pub(super) fn of_node(node: &NodeMeta) -> Box<[u8]> {
    rendered(&[("node_id", node.node_id.as_str()), ("node_name", &node.node_name)]).into()
}

/// The labels of a node's part of a service.
pub(super) fn of_row(row: &RowMeta) -> Box<[u8]> {
    rendered(&[
        ("node_id", row.node_id.as_str()),
        ("node_name", &row.node_name),
        ("service_id", row.service_id.as_str()),
        ("service_name", &row.service_name),
        ("stack", &row.stack),
    ])
    .into()
}

fn rendered(labels: &[(&str, &str)]) -> Vec<u8> {
    let mut set = Vec::with_capacity(192);
    for (name, value) in labels {
        push(&mut set, name, value);
    }
    set
}

pub(super) fn push(set: &mut Vec<u8>, name: &str, value: &str) {
    set.push(if set.is_empty() { b'{' } else { b',' });
    set.extend_from_slice(name.as_bytes());
    set.extend_from_slice(b"=\"");
    for byte in value.bytes() {
        match byte {
            b'\\' => set.extend_from_slice(b"\\\\"),
            b'"' => set.extend_from_slice(b"\\\""),
            b'\n' => set.extend_from_slice(b"\\n"),
            _ => set.push(byte),
        }
    }
    set.push(b'"');
}

/// A container label's name as Prometheus allows it.
fn label_name(label: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    "label_".chars().chain(label.chars().map(allowed)).collect()
}
