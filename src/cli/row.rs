//! One service, task, node or stack as a router describes it.
//!
//! Every field may be `null` or missing, which is absent; fields this version does not know are ignored, so that an
//! old command works with a new router. Texts are kept as they came: who shows one makes it
//! [`printable`](super::format::printable). Pure.

use crate::cli::history::History;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// One service, task, node or stack.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Row {
    /// Its id.
    pub id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// The stack of a service or a task.
    pub stack: Option<String>,
    /// Of a task: its service.
    pub service_id: Option<String>,
    /// Of a task: its service, by name.
    pub service_name: Option<String>,
    /// Of a task: where it runs.
    pub node_id: Option<String>,
    /// Of a task: where it runs, by name.
    pub node_name: Option<String>,
    /// Of a task.
    pub container_id: Option<String>,
    /// Of a task: what it was made from.
    pub image: Option<String>,
    /// Of a task: those the shipper passes on.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// How many of its tasks are counted.
    pub tasks: Option<Coverage>,
    /// How old the figures are.
    pub age_seconds: Option<f64>,
    /// Of a task: when it was started, RFC 3339.
    pub since: Option<String>,
    /// docker stats' columns and what else there is.
    #[serde(deserialize_with = "or_default")]
    pub figures: Figures,
    /// Of a task: `running`, `paused`, `stale` or `ended`.
    pub state: Option<String>,
    /// Of a task with a health check: `starting`, `healthy` or `unhealthy`.
    pub health: Option<String>,
    /// Of an ended task.
    pub exit_code: Option<i64>,
    /// Of a service, from Swarm: `replicated`, `global` or a kind of job.
    pub mode: Option<String>,
    /// Of a service, from Swarm: the state of its last update.
    pub update: Option<String>,
    /// Of a job, from Swarm: tasks that have completed.
    pub completed: Option<u64>,
    /// Of a job, from Swarm: how many are to complete.
    pub total_completions: Option<u64>,
    /// Of a node: the machine's own figures.
    #[serde(deserialize_with = "or_default")]
    pub machine: Machine,
    /// Of a node: what there is.
    #[serde(deserialize_with = "or_default")]
    pub capacity: Resources,
    /// Of a node, from Swarm: what is promised to tasks.
    #[serde(deserialize_with = "or_default")]
    pub reserved: Resources,
    /// Of a node, from Swarm: `active`, `pause` or `drain`.
    pub availability: Option<String>,
    /// Of a node, from Swarm: `ready`, `down` …
    pub status: Option<String>,
    /// Of a node, from Swarm: `manager` or `worker`.
    pub role: Option<String>,
    /// Of a task, where they were asked for: older samples, the oldest first.
    #[serde(deserialize_with = "or_default")]
    pub points: Vec<Point>,
    /// Of a task: how long ago it was started, by this machine's clock.
    #[serde(skip)]
    pub started_seconds_ago: Option<f64>,
    /// The last values of CPU and memory.
    #[serde(skip)]
    pub history: History,
}

impl Row {
    /// Whether none of its figures is fresh; then the word for it.
    pub fn stale(&self) -> Option<&str> {
        match (self.tasks, self.state.as_deref()) {
            (Some(Coverage { fresh: 1.., .. }), _) | (_, Some("running" | "paused")) => None,
            (_, Some(state)) => Some(state),
            (Some(Coverage { fresh: 0, known: 1.., .. }), None) => Some("stale"),
            (_, None) => None,
        }
    }

    /// Whether it has ended.
    pub fn ended(&self) -> bool {
        self.state.as_deref() == Some("ended")
    }

    /// For how long a task that has not ended has been running.
    pub fn up_seconds(&self) -> Option<f64> {
        self.started_seconds_ago.filter(|_| !self.ended())
    }

    /// A task's state, or how much of a group is fresh: `running`, `partial` or `stale`.
    pub fn state_word(&self) -> Option<&str> {
        self.state.as_deref().or_else(|| {
            let tasks = self.tasks?;
            Some(if tasks.fresh >= tasks.known {
                "running"
            } else if tasks.fresh > 0 {
                "partial"
            } else {
                "stale"
            })
        })
    }

    /// A task's name without the ids that have columns of their own: `web.1`, as `docker service ps` shows it.
    pub fn short_name(&self) -> Option<&str> {
        let mut name = self.name.as_deref()?;
        for id in [&self.id, &self.node_id].into_iter().flatten() {
            let rest = name.strip_suffix(&**id).and_then(|name| name.strip_suffix('.'));
            name = rest.filter(|rest| !rest.is_empty()).unwrap_or(name);
        }
        Some(name)
    }
}

/// k of n, and how many Swarm wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct Coverage {
    /// k: fresh, so counted.
    pub fresh: u64,
    /// n: known to be running.
    pub known: u64,
    /// What Swarm was asked for.
    #[serde(default)]
    pub desired: Option<u64>,
}

/// docker stats' columns first; bytes, and percentages whose base is in the name (`cpu_percent`: 100 is one CPU).
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the API's, which documents them")]
pub struct Figures {
    pub cpu_percent: Option<f64>,
    pub memory_used_bytes: Option<u64>,
    pub memory_limit_bytes: Option<u64>,
    pub memory_percent: Option<f64>,
    pub network_receive_bytes: Option<u64>,
    pub network_transmit_bytes: Option<u64>,
    pub block_read_bytes: Option<u64>,
    pub block_written_bytes: Option<u64>,
    pub pids: Option<u64>,
    pub cpu_percent_of_node: Option<f64>,
    pub cpu_percent_of_limit: Option<f64>,
    pub memory_percent_of_node: Option<f64>,
    pub memory_working_set_bytes: Option<u64>,
    pub memory_anon_bytes: Option<u64>,
    pub memory_file_bytes: Option<u64>,
    pub memory_shmem_bytes: Option<u64>,
    pub memory_swap_bytes: Option<u64>,
    pub network_receive_bytes_per_second: Option<f64>,
    pub network_transmit_bytes_per_second: Option<f64>,
    pub block_read_bytes_per_second: Option<f64>,
    pub block_written_bytes_per_second: Option<f64>,
    pub cpu_throttled_percent: Option<f64>,
    pub pressure_cpu_percent: Option<f64>,
    pub pressure_memory_percent: Option<f64>,
    pub pressure_io_percent: Option<f64>,
    pub oom_kills: Option<u64>,
    pub restarts: Option<u64>,
}

/// What a machine itself reports, whoever uses it.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Its figures.
    #[serde(deserialize_with = "or_default")]
    pub figures: MachineFigures,
}

/// Of a whole machine; loads are Linux' load averages.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the API's, which documents them")]
pub struct MachineFigures {
    pub cpu_percent: Option<f64>,
    pub cpu_percent_of_node: Option<f64>,
    pub load1: Option<f64>,
    pub load5: Option<f64>,
    pub load15: Option<f64>,
    pub memory_used_bytes: Option<u64>,
    pub memory_limit_bytes: Option<u64>,
    pub memory_percent: Option<f64>,
    pub swap_used_bytes: Option<u64>,
    pub swap_limit_bytes: Option<u64>,
    pub filesystem_used_bytes: Option<u64>,
    pub filesystem_size_bytes: Option<u64>,
    pub filesystem_available_bytes: Option<u64>,
    pub network_receive_bytes_per_second: Option<f64>,
    pub network_transmit_bytes_per_second: Option<f64>,
    pub block_read_bytes_per_second: Option<f64>,
    pub block_written_bytes_per_second: Option<f64>,
    pub pressure_cpu_percent: Option<f64>,
    pub pressure_memory_percent: Option<f64>,
    pub pressure_io_percent: Option<f64>,
}

/// CPUs and memory that there are or that are promised.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Whole CPUs and parts of them.
    pub cpu_cores: Option<f64>,
    /// Bytes.
    pub memory_bytes: Option<u64>,
}

/// One older sample of a task.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Point {
    /// Before the newest sample.
    pub seconds_before: f64,
    /// What was read then.
    #[serde(deserialize_with = "or_default")]
    pub stats: PointStats,
}

/// The stats of a point that a history is made of.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are the API's, which documents them")]
pub struct PointStats {
    pub cpu_seconds_total: Option<f64>,
    pub memory_used_bytes: Option<u64>,
}

/// `null` is the default.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A count or bytes beside figures that have decimals.
#[allow(clippy::cast_precision_loss, reason = "9 PB are exact")]
pub(super) fn whole(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

#[cfg(test)]
impl Figures {
    /// A row of docker stats' documentation: `0.03%  2.352MiB / 982.5MiB  0.24%  539kB / 606kB  0B / 13.3kB  2`.
    pub(super) fn documented() -> Figures {
        Figures {
            cpu_percent: Some(0.03),
            memory_used_bytes: Some(2_466_251),
            memory_limit_bytes: Some(1_030_225_920),
            memory_percent: Some(0.239_4),
            network_receive_bytes: Some(539_000),
            network_transmit_bytes: Some(606_000),
            block_read_bytes: Some(0),
            block_written_bytes: Some(13_300),
            pids: Some(2),
            ..Figures::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fresh: u64, known: u64, state: Option<&str>) -> Row {
        Row { tasks: Some(Coverage { fresh, known, desired: None }), state: state.map(Into::into), ..Row::default() }
    }

    #[test]
    fn a_group_is_stale_only_without_any_fresh_task_and_a_task_by_its_state() {
        assert_eq!(row(1, 3, None).stale(), None);
        assert_eq!(row(0, 3, None).stale(), Some("stale"));
        assert_eq!(row(0, 0, None).stale(), None, "a service of no tasks");
        assert_eq!(row(0, 1, Some("ended")).stale(), Some("ended"));
        assert_eq!(row(1, 1, Some("running")).stale(), None);
        assert_eq!(row(1, 1, Some("paused")).stale(), None, "what is paused is still read");
    }

    #[test]
    fn a_groups_state_is_how_much_of_it_is_fresh() {
        let words = [row(3, 3, None), row(1, 3, None), row(0, 3, None), row(0, 1, Some("ended"))];
        assert_eq!(
            words.each_ref().map(|row| row.state_word()),
            [Some("running"), Some("partial"), Some("stale"), Some("ended")]
        );
        assert_eq!(Row::default().state_word(), None);
    }

    #[test]
    fn null_is_absent_wherever_it_stands() {
        let text = r#"{"id": null, "labels": null, "tasks": null, "figures": null, "points": null, "machine": null,
            "capacity": {"cpu_cores": null}, "reserved": null, "exit_code": null}"#;
        assert_eq!(serde_json::from_str::<Row>(text).unwrap(), Row::default());
    }
}
