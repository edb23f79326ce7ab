//! The JSON documents: a report's services, tasks, nodes or stacks, the ring, and errors. All answers look alike.
//!
//! Seconds are decimals made from the core's integers without loss, bytes and counts integers, absent things `null`.
//! Written straight into a text, for an answer may hold thousands of tasks.
//!
//! It deliberately reads no JSON and adds nothing up.

mod machine;
mod ring;
mod swarm;
mod writer;

use crate::figures::{self, By, Group, Machines, Shown};
use crate::model::{MemberId, Millis, RingId, TaskId, bits};
use crate::stat;
use crate::view::{Report, TaskView};
pub use ring::{Besides, Live, ring};
use std::collections::BTreeMap;
use writer::Writer;

/// What a document lists, named as in its path and its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// `services`
    Services,
    /// `tasks`
    Tasks,
    /// `nodes`
    Nodes,
    /// `stacks`
    Stacks,
}

impl What {
    /// The plural, as in paths.
    pub fn plural(self) -> &'static str {
        match self {
            What::Services => "services",
            What::Tasks => "tasks",
            What::Nodes => "nodes",
            What::Stacks => "stacks",
        }
    }
    /// The singular, as in messages.
    pub fn singular(self) -> &'static str {
        match self {
            What::Services => "service",
            What::Tasks => "task",
            What::Nodes => "node",
            What::Stacks => "stack",
        }
    }
}

/// The most readings that cannot be of which each is told.
const MAX_DOUBTS: usize = 100;

/// What a document is to have.
pub struct Shape<'a> {
    /// What it lists.
    pub what: What,
    /// The mask of the stats that `stats` and `totals` list.
    pub stats: u64,
    /// Whether tasks have the older points that the report brings along.
    pub points: bool,
    /// A task's ring owners, the primary first.
    pub owners: &'a dyn Fn(&TaskId) -> Vec<MemberId>,
    /// The ring that the answering process sees, if any.
    pub ring_id: Option<RingId>,
}

/// A report as a document, ending in a newline: data first, then warnings.
pub fn document(report: &Report, shape: &Shape<'_>) -> String {
    let mut json = Writer::new();
    json.open('{');
    json.key("complete").bool(report.complete);
    json.key("missing").open('[');
    for missing in &report.missing {
        json.open('{');
        json.key("what").text(&missing.what);
        json.key("why").text(&missing.why);
        json.close('}');
    }
    json.close(']');
    swarm::age(&mut json, report.swarm.as_ref());
    json.key("ring_id").text_or_null(&shape.ring_id.map(|ring| ring.to_string()).unwrap_or_default());
    json.key(shape.what.plural()).open('[');
    let by = match shape.what {
        What::Services => Some(By::Service),
        What::Nodes => Some(By::Node),
        What::Stacks => Some(By::Stack),
        What::Tasks => None,
    };
    let mut doubts = Vec::new();
    match by {
        None => {
            let machines = Machines::of(report);
            for view in &report.tasks {
                let mut own = figures::of_task(view, &machines);
                task(&mut json, view, &own, shape);
                doubts.append(&mut own.doubts);
            }
        }
        Some(by) => {
            let said = swarm::Said::of(report.swarm.as_ref(), by);
            let nodes: BTreeMap<&str, _> = report.nodes.iter().map(|node| (node.meta.node_id.as_str(), node)).collect();
            for mut group in figures::groups(report, by) {
                json.open('{');
                head(&mut json, &group, by == By::Service);
                said.write(&mut json, &group);
                body(&mut json, &group, said.desired(&group.id), shape.stats);
                if by == By::Node {
                    let mut own = nodes.get(&*group.id).map(|node| figures::of_machine(node)).unwrap_or_default();
                    machine::machine(&mut json, &own, said.capacity(&group.id), shape.stats);
                    doubts.append(&mut own.doubts);
                }
                json.close('}');
                doubts.append(&mut group.doubts);
            }
        }
    }
    json.close(']');
    if let Some(more) = doubts.len().checked_sub(MAX_DOUBTS).filter(|more| *more > 0) {
        doubts.truncate(MAX_DOUBTS);
        doubts.push(format!("{more} more readings cannot be"));
    }
    json.key("warnings").texts(report.warnings.iter().chain(&doubts).map(String::as_str));
    json.close('}');
    json.finish()
}

/// An error document: what is wrong, what helps, and what may have been meant.
pub fn error(error: &str, remedy: Option<&str>, candidates: &[&str]) -> String {
    let mut json = Writer::new();
    json.open('{');
    json.key("error").text(error);
    if let Some(remedy) = remedy {
        json.key("remedy").text(remedy);
    }
    if !candidates.is_empty() {
        json.key("candidates").texts(candidates.iter().copied());
    }
    json.close('}');
    json.finish()
}

/// Whether a process is ready, and if not, why.
pub fn readiness(reasons: &[String]) -> String {
    let mut json = Writer::new();
    json.open('{');
    json.key("ready").bool(reasons.is_empty());
    json.key("reasons").texts(reasons.iter().map(String::as_str));
    json.close('}');
    json.finish()
}

fn head(json: &mut Writer, group: &Group, stack: bool) {
    json.key("id").text(&group.id);
    json.key("name").text_or_null(&group.name);
    if stack {
        json.key("stack").text_or_null(&group.stack);
    }
}

fn task(json: &mut Writer, task: &TaskView, own: &Group, shape: &Shape<'_>) {
    let meta = &task.meta;
    json.open('{');
    head(json, own, true);
    json.key("service_id").text(meta.service_id.as_str());
    json.key("service_name").text_or_null(&meta.service_name);
    json.key("node_id").text(meta.node_id.as_str());
    json.key("node_name").text_or_null(&meta.node_name);
    json.key("slot").text_or_null(&meta.slot);
    json.key("container_id").text_or_null(&meta.container_id);
    json.key("image").text_or_null(&meta.image);
    json.key("labels").open('{');
    for (name, value) in &meta.labels {
        json.label(name).text(value);
    }
    json.close('}');
    json.key("owners").texts((shape.owners)(&meta.task_id).iter().map(MemberId::as_str));
    json.key("state").text(state(task));
    json.key("health").text_or_null(match task.values.get(stat::HEALTH) {
        Some(0) => "starting",
        Some(1) => "healthy",
        Some(2) => "unhealthy",
        _ => "",
    });
    json.key("exit_code").number(task.values.get(stat::EXIT_CODE).filter(|_| task.ended));
    body(json, own, None, shape.stats);
    if shape.points {
        json.key("points").open('[');
        for point in &task.points {
            json.open('{');
            json.key("seconds_before").decimal(Some(task.monotonic.saturating_sub(point.monotonic)), 9);
            json.key("stats").open('{');
            for (stat, value) in point.values.iter() {
                json.stat(stat, Some(value));
            }
            json.close('}');
            json.close('}');
        }
        json.close(']');
    }
    json.close('}');
}

/// What became of a task, as far as its last reading tells.
fn state(task: &TaskView) -> &'static str {
    match task.values.get(stat::PAUSED) {
        _ if task.ended => "ended",
        _ if !task.fresh => "stale",
        Some(1..) => "paused",
        _ => "running",
    }
}

/// What every item has; `stats` is the mask of the stats to list.
fn body(json: &mut Writer, group: &Group, desired: Option<u64>, stats: u64) {
    json.key("tasks").open('{');
    json.key("fresh").number(Some(group.tasks.fresh));
    json.key("known").number(Some(group.tasks.known));
    json.key("desired").number(desired);
    json.close('}');
    json.key("age_seconds").decimal(group.age, 3);
    json.key("since");
    match group.since {
        Some(since) => json.text(&rfc3339(since)),
        None => json.null(),
    }
    json.key("totals").open('{');
    for stat in bits(stat::TASKS & stat::COUNTERS & stats) {
        json.stat(stat, group.totals.get(stat));
    }
    json.close('}');
    json.key("figures").open('{');
    for (figure, value) in group.figures.iter() {
        json.key(figure.name);
        match figure.shown {
            Shown::Percent => json.decimal(value, 6),
            Shown::Integer => json.number(value),
        }
    }
    json.close('}');
    json.key("stats").open('{');
    for stat in bits(stat::TASKS & stats) {
        json.stat(stat, group.stats.get(stat));
    }
    json.close('}');
}

/// Wall-clock milliseconds as an RFC 3339 moment in UTC.
pub fn rfc3339(at: Millis) -> String {
    let (days, of_day) = (at / 86_400_000, at % 86_400_000);
    // Civil date from a day number, in 400-year eras that begin on 1 March, so that the leap day is a year's last.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let date = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}
