//! The figures of tasks, services and nodes as Prometheus text 0.0.4, in chunks, without a tree of families.
//!
//! Names, types and help come from the catalogue. All series of a family stand together under its HELP and TYPE; a
//! family without series is not mentioned; an absent stat has no series. Nanoseconds are written as exact decimals,
//! never through a float. No timestamps: Prometheus marks a series stale as soon as it is gone.
//!
//! It deliberately takes no lock and asks nobody: a page is made of one snapshot, however slowly it is read.

use super::labels::{self, TaskLabels};
use crate::aggregate::{ScrapedNode, ScrapedService};
use crate::model::{Millis, Values, bits};
use crate::outbox::RowFigures;
use crate::stat::{Kind, NODES, Stat, TASKS, Unit};
use std::sync::Arc;

/// A chunk is at least this long, except the last.
pub const CHUNK: usize = 64 * 1024;

/// What one scrape shows, apart from the process's own metrics.
#[derive(Debug, Default)]
pub struct Series {
    /// `swarmstats_task_…`
    pub tasks: Vec<TaskSeries>,
    /// `swarmstats_service_…`: a collector's part of each service.
    pub services: Vec<GroupSeries>,
    /// `swarmstats_node_…`: machines.
    pub nodes: Vec<NodeSeries>,
    /// `swarmstats_node_service_…`: a shipper's own rows.
    pub node_services: Vec<GroupSeries>,
    /// A router's page of the whole cluster: `services` are whole, and there are `swarmstats_stack_…` and how many tasks
    /// are in which state.
    pub cluster: Option<Cluster>,
}

/// What only a router's page of the whole cluster has.
#[derive(Debug, Default)]
pub struct Cluster {
    /// `swarmstats_cluster_complete`: nothing known is missing (LEDGER 21).
    pub complete: bool,
    /// `swarmstats_stack_…`
    pub stacks: Vec<GroupSeries>,
    /// `swarmstats_service_tasks` and `swarmstats_stack_tasks`, by state.
    pub tasks: [Vec<CountSeries>; 2],
    /// `swarmstats_service_tasks_desired` and `swarmstats_stack_tasks_desired`.
    pub desired: [Vec<CountSeries>; 2],
}

/// A number of things with labels of their own.
#[derive(Debug)]
pub struct CountSeries {
    pub(super) labels: Box<[u8]>,
    pub(super) value: u64,
}

/// A task in a scrape.
#[derive(Debug)]
pub struct TaskSeries {
    /// Rendered once, see [`super::LabelCache`].
    pub labels: Arc<TaskLabels>,
    /// Its figures.
    pub values: Values,
    /// Their age.
    pub age: Millis,
}

/// A node's machine in a scrape.
#[derive(Debug)]
pub struct NodeSeries {
    labels: Box<[u8]>,
    values: Values,
    age: Millis,
}

impl From<ScrapedNode> for NodeSeries {
    fn from(node: ScrapedNode) -> NodeSeries {
        NodeSeries { labels: labels::of_node(&node.meta), values: node.values, age: node.age }
    }
}

/// A group of tasks in a scrape.
#[derive(Debug)]
pub struct GroupSeries {
    pub(super) labels: Box<[u8]>,
    pub(super) values: Values,
    /// Fresh tasks; `None` where tasks are told by state.
    pub(super) fresh: Option<u64>,
}

impl From<&ScrapedService> for GroupSeries {
    /// A service: its counters are of the ledger, its gauges sums of rows; no stat is both.
    fn from(service: &ScrapedService) -> GroupSeries {
        let values = service.counters.iter().chain(service.gauges.iter()).collect();
        GroupSeries { labels: labels::of_service(service), values, fresh: Some(service.fresh) }
    }
}

impl From<&RowFigures> for GroupSeries {
    /// A node's part of a service.
    fn from(row: &RowFigures) -> GroupSeries {
        GroupSeries { labels: labels::of_row(&row.meta), values: row.values.clone(), fresh: Some(row.fresh) }
    }
}

/// The text of a scrape, chunk by chunk.
#[derive(Debug)]
pub struct Page {
    series: Series,
    families: Vec<Family>,
    /// Where the next chunk goes on: the family, and the place among its things.
    family: usize,
    at: usize,
    /// The family's head is written.
    begun: bool,
    written: u64,
}

impl Page {
    /// The page of a snapshot.
    pub fn new(series: Series) -> Page {
        let families = families(series.cluster.is_some());
        Page { series, families, family: 0, at: 0, begun: false, written: 0 }
    }
    /// How many series the chunks so far had.
    pub fn n_series(&self) -> u64 {
        self.written
    }

    /// Writes on in the present family; whether it is finished.
    fn go_on(&mut self, out: &mut Vec<u8>) -> bool {
        let Page { series, families, family, at, begun, written } = self;
        let family = &families[*family];
        let mut writer = Writer { out, family, at, begun, written };
        match family.of {
            Of::Task(stat) => writer.all(&series.tasks, |task| Some((&*task.labels.series, task.values.get(stat)?))),
            Of::TaskAge => writer.all(&series.tasks, |task| Some((&*task.labels.series, task.age))),
            Of::TaskInfo => writer.all(&series.tasks, |task| Some((&*task.labels.info, 1))),
            Of::Service(stat) => writer.all(&series.services, |group| group.stat(stat)),
            Of::ServiceTasks => writer.all(&series.services, GroupSeries::tasks),
            Of::Node(stat) => writer.all(&series.nodes, |node| Some((&*node.labels, node.values.get(stat)?))),
            Of::NodeAge => writer.all(&series.nodes, |node| Some((&*node.labels, node.age))),
            Of::NodeService(stat) => writer.all(&series.node_services, |group| group.stat(stat)),
            Of::NodeServiceTasks => writer.all(&series.node_services, GroupSeries::tasks),
            Of::Complete => {
                writer.all(series.cluster.as_slice(), |cluster| Some((&b""[..], u64::from(cluster.complete))))
            }
            Of::Stack(stat) => writer.all(series.stacks(), |group| group.stat(stat)),
            Of::States(of) => writer.all(series.counts(|cluster| &cluster.tasks[of as usize]), CountSeries::count),
            Of::Desired(of) => writer.all(series.counts(|cluster| &cluster.desired[of as usize]), CountSeries::count),
        }
    }
}

impl GroupSeries {
    fn stat(&self, stat: Stat) -> Option<(&[u8], u64)> {
        Some((&self.labels, self.values.get(stat)?))
    }
    fn tasks(&self) -> Option<(&[u8], u64)> {
        Some((&self.labels, self.fresh?))
    }
}

impl CountSeries {
    fn count(&self) -> Option<(&[u8], u64)> {
        Some((&self.labels, self.value))
    }
}

impl Series {
    fn stacks(&self) -> &[GroupSeries] {
        self.cluster.as_ref().map_or(&[], |cluster| &cluster.stacks)
    }
    fn counts(&self, which: impl Fn(&Cluster) -> &Vec<CountSeries>) -> &[CountSeries] {
        self.cluster.as_ref().map_or(&[], |cluster| which(cluster))
    }
}

impl Iterator for Page {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        while self.family < self.families.len() && out.len() < CHUNK {
            if out.is_empty() {
                out.reserve(CHUNK + 4096);
            }
            if self.go_on(&mut out) {
                (self.family, self.at, self.begun) = (self.family + 1, 0, false);
            }
        }
        (!out.is_empty()).then_some(out)
    }
}

/// What the series of a family are of.
#[derive(Clone, Copy, Debug)]
enum Of {
    Task(Stat),
    TaskAge,
    TaskInfo,
    Service(Stat),
    ServiceTasks,
    Node(Stat),
    NodeAge,
    NodeService(Stat),
    NodeServiceTasks,
    Complete,
    Stack(Stat),
    States(Whole),
    Desired(Whole),
}

/// What a router tells whole.
#[derive(Clone, Copy, Debug)]
enum Whole {
    Service,
    Stack,
}

#[derive(Debug)]
struct Family {
    of: Of,
    name: String,
    /// Its HELP and TYPE lines.
    head: String,
    /// What comes between the labels and the value.
    close: &'static str,
    /// How many of the value's digits stand behind the point.
    decimals: usize,
}

impl Family {
    fn new(of: Of, name: String, kind: &str, help: &str, decimals: usize) -> Family {
        let close = match of {
            Of::ServiceTasks | Of::NodeServiceTasks => ",state=\"fresh\"} ",
            Of::Complete => " ",
            _ => "} ",
        };
        let head = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { of, name, head, close, decimals }
    }

    /// The family of a stat; `more` is said behind its help.
    fn of_stat(of: fn(Stat) -> Of, prefix: &str, stat: Stat, more: &str) -> Family {
        let row = stat.row();
        let kind = match row.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let decimals = match row.unit {
            Unit::Nanoseconds | Unit::Nanocores => 9,
            Unit::Thousandths => 3,
            Unit::Bytes | Unit::Count => 0,
        };
        let of = of(stat);
        let help = if matches!(of, Of::Node(_)) { stat.help_of_node() } else { row.help };
        Family::new(of, format!("{prefix}_{}", row.name), kind, &format!("{help}{more}"), decimals)
    }
}

/// All families there can be, in order; `whole`: of a router's page of the cluster.
fn families(whole: bool) -> Vec<Family> {
    let gauge = |of, name: &str, help, decimals| Family::new(of, name.to_owned(), "gauge", help, decimals);
    let (part, node) = (
        if whole {
            "; of the whole cluster, counted from this router's start"
        } else {
            "; this collector's part, add up by service"
        },
        "; this node's part, add up by service",
    );
    let mut families = vec![
        gauge(Of::TaskInfo, "swarmstats_task_info", "What is known of a task beside its figures, always 1", 0),
        gauge(Of::TaskAge, "swarmstats_task_sample_age_seconds", "Age of a task's figures", 3),
    ];
    families.extend(bits(TASKS).map(|stat| Family::of_stat(Of::Task, "swarmstats_task", stat, "")));
    let help = "Tasks by state; this collector's part, add up by service";
    families.push(gauge(Of::ServiceTasks, "swarmstats_service_tasks", help, 0));
    families.extend(bits(TASKS).map(|stat| Family::of_stat(Of::Service, "swarmstats_service", stat, part)));
    families.extend(bits(TASKS).map(|stat| Family::of_stat(Of::Stack, "swarmstats_stack", stat, part)));
    for (of, name) in [(Whole::Service, "swarmstats_service"), (Whole::Stack, "swarmstats_stack")] {
        let help = "Tasks by state: fresh are counted in the figures, stale have older ones, missing none";
        families.push(gauge(Of::States(of), &format!("{name}_tasks"), help, 0));
        families.push(gauge(Of::Desired(of), &format!("{name}_tasks_desired"), "Tasks that Swarm wants", 0));
    }
    let help = "1 if nothing known is missing on this page, 0 if members or nodes did not answer";
    families.push(gauge(Of::Complete, "swarmstats_cluster_complete", help, 0));
    families.push(gauge(Of::NodeAge, "swarmstats_node_sample_age_seconds", "Age of a node's own figures", 3));
    families.extend(bits(NODES).map(|stat| Family::of_stat(Of::Node, "swarmstats_node", stat, "")));
    let help = "Tasks by state; this node's part, add up by service";
    families.push(gauge(Of::NodeServiceTasks, "swarmstats_node_service_tasks", help, 0));
    families.extend(bits(TASKS).map(|stat| Family::of_stat(Of::NodeService, "swarmstats_node_service", stat, node)));
    families
}

/// Writes the series of one family into one chunk.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    family: &'a Family,
    at: &'a mut usize,
    begun: &'a mut bool,
    written: &'a mut u64,
}

impl Writer<'_> {
    /// Goes on through `things` until the chunk is full; whether all are through.
    fn all<'t, T>(&mut self, things: &'t [T], series: impl Fn(&'t T) -> Option<(&'t [u8], u64)>) -> bool {
        for thing in &things[*self.at..] {
            if self.out.len() >= CHUNK {
                return false;
            }
            *self.at += 1;
            let Some((labels, value)) = series(thing) else { continue };
            if !std::mem::replace(self.begun, true) {
                self.out.extend_from_slice(self.family.head.as_bytes());
            }
            self.out.extend_from_slice(self.family.name.as_bytes());
            self.out.extend_from_slice(labels);
            self.out.extend_from_slice(self.family.close.as_bytes());
            number(self.out, value, self.family.decimals);
            self.out.push(b'\n');
            *self.written += 1;
        }
        true
    }
}

/// Writes an integer with its point moved left by 0, 3 or 9 places, without trailing zeros.
fn number(out: &mut Vec<u8>, value: u64, decimals: usize) {
    let mut digits = itoa::Buffer::new();
    let scale = 10_u64.pow(decimals as u32);
    let (whole, mut rest) = (value / scale, value % scale);
    out.extend_from_slice(digits.format(whole).as_bytes());
    if rest == 0 {
        return;
    }
    let mut fraction = *b".000000000";
    for place in (1..=decimals).rev() {
        fraction[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let length = 1 + fraction[1..=decimals].iter().rposition(|digit| *digit != b'0').unwrap_or_default();
    out.extend_from_slice(&fraction[..=length]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        let written = |value, decimals| {
            let mut out = Vec::new();
            number(&mut out, value, decimals);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(0, 9), "0");
        assert_eq!(written(1, 9), "0.000000001");
        assert_eq!(written(1_500_000_000, 9), "1.5");
        assert_eq!(written(12_000_000_000, 9), "12");
        assert_eq!(written(100_000_010, 9), "0.10000001");
        assert_eq!(written(u64::MAX, 9), "18446744073.709551615");
        assert_eq!(written(u64::MAX, 0), "18446744073709551615");
        assert_eq!(written(1_020, 3), "1.02");
    }
}
