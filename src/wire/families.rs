//! Tasks' stats as Prometheus' metric families (`io.prometheus.client`), each with its length before it.
//!
//! Names and labels are those of `/metrics`. It deliberately has tasks alone: counters of services that never fall are
//! a collector's ledger, which only a scrape can be shown.

use crate::model::TaskMeta;
use crate::stat::{Kind, Stat};
use crate::view::Report;
use prost::{Message, encoding};

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// A gauge's or a counter's.
#[derive(Clone, Copy, PartialEq, Message)]
struct Value {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Value>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Value>,
}

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    /// 0 is a counter, 1 a gauge.
    #[prost(int32, optional, tag = "3")]
    r#type: Option<i32>,
}

/// Where a family has its metrics, one after the other.
const METRIC: u32 = 4;

/// More than an answer may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("these tasks' metrics are more than {0} bytes: name services, nodes or stacks, and ask several times")]
pub struct TooLong(usize);

/// The families of a report's fresh tasks, one for each stat that any of them has, in at most so many bytes.
///
/// # Errors
/// If there are more; no more memory than that is taken up before.
pub fn families(report: &Report, most: usize) -> Result<Vec<u8>, TooLong> {
    let mut bytes = Vec::new();
    for stat in Stat::all() {
        let mut metrics = Vec::new();
        for task in report.tasks.iter().filter(|task| task.fresh) {
            let Some(value) = task.values.get(stat) else { continue };
            encoding::message::encode(METRIC, &metric(stat, value, labels(&task.meta)), &mut metrics);
            if bytes.len() + metrics.len() > most {
                return Err(TooLong(most));
            }
        }
        if !metrics.is_empty() {
            let family = MetricFamily {
                name: Some(format!("swarmstats_task_{}", stat.name())),
                help: Some(stat.row().help.into()),
                r#type: Some(if stat.row().kind == Kind::Counter { 0 } else { 1 }),
            };
            let head = family.encode_to_vec();
            encoding::encode_varint((head.len() + metrics.len()) as u64, &mut bytes);
            bytes.extend(head);
            bytes.append(&mut metrics);
        }
    }
    if bytes.len() > most { Err(TooLong(most)) } else { Ok(bytes) }
}

fn metric(stat: Stat, value: u64, label: Vec<LabelPair>) -> Metric {
    let value = Some(Value { value: Some(value as f64 / stat.row().unit.per_base() as f64) });
    match stat.row().kind {
        Kind::Counter => Metric { label, gauge: None, counter: value },
        Kind::Gauge => Metric { label, gauge: value, counter: None },
    }
}

fn labels(meta: &TaskMeta) -> Vec<LabelPair> {
    let pairs = [
        ("node_name", &*meta.node_name),
        ("service_name", &*meta.service_name),
        ("stack", &*meta.stack),
        ("task_id", meta.task_id.as_str()),
        ("task_name", &*meta.task_name),
    ];
    pairs.map(|(name, value)| LabelPair { name: Some(name.into()), value: Some(value.into()) }).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Labels, NodeId, ServiceId, TaskId, Version};
    use crate::stat::{CPU, PIDS};
    use crate::view::TaskView;
    use std::sync::Arc;

    /// A field of protobuf's wire type 2, by hand: all here are shorter than 128 bytes but the metric's family.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        assert!(bytes.len() < 128);
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    #[test]
    fn a_family_is_as_prometheus_reads_it() {
        let meta = TaskMeta {
            task_id: TaskId::new("t1").unwrap(),
            task_name: "web.1.t1".into(),
            slot: "1".into(),
            service_id: ServiceId::new("s1").unwrap(),
            service_name: "web".into(),
            stack: "".into(),
            node_id: NodeId::new("n1").unwrap(),
            node_name: "alpha".into(),
            container_id: "".into(),
            image: "".into(),
            started_at: 0,
            labels: Labels::new(),
            shares_netns: false,
        };
        let task = TaskView {
            meta: Arc::new(meta),
            version: Version::default(),
            fresh: true,
            ended: false,
            primary: true,
            age: 0,
            values: [(PIDS, 3)].into_iter().collect(),
            monotonic: 0,
            previous: None,
            points: Vec::new(),
        };
        let mut stale = TaskView { fresh: false, ..task.clone() };
        stale.values.set(CPU, 1);
        let report = Report { tasks: vec![task, stale], ..Report::default() };
        // metrics.proto: a pair is name 1, value 2; a metric label 1, gauge 2; a gauge its double 1; 3.0 is 0x4008….
        let pair =
            |name: &str, value: &str| field(1, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat());
        let labels = [
            pair("node_name", "alpha"),
            pair("service_name", "web"),
            pair("stack", ""),
            pair("task_id", "t1"),
            pair("task_name", "web.1.t1"),
        ];
        let gauge = field(2, &[1 << 3 | 1, 0, 0, 0, 0, 0, 0, 0x08, 0x40]);
        let metric = field(4, &[labels.concat(), gauge].concat());
        let head = [field(1, b"swarmstats_task_pids"), field(2, b"Kernel tasks (threads)"), vec![3 << 3, 1]];
        let family = [head.concat(), metric].concat();
        assert!((128..256).contains(&family.len()));
        let whole = [vec![(family.len() & 127 | 128) as u8, 1], family].concat();
        assert_eq!(families(&report, whole.len()), Ok(whole.clone()));
        assert_eq!(families(&report, whole.len() - 1), Err(TooLong(whole.len() - 1)));
        // Nor are more metrics than that made before it is seen.
        assert_eq!(families(&report, 10), Err(TooLong(10)));
    }
}
