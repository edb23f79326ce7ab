//! The unsharded oracle: what one shipper life read, round by round, and what LEDGER 1 makes of it, written from the
//! rule's words and not from the outbox.

use crate::host::{COUNTED, Version};
use crate::money::Money;
use std::collections::BTreeMap;
use std::sync::Arc;
use swarmstats::model::{Counts, ServiceId, TaskId, TaskMeta, Values, bits};
use swarmstats::outbox::{Ended, Reading};
use swarmstats::stat::{CATALOGUE, GROUPED, Group, Kind, Of, PER_NETNS, Stat};

/// A task as known after a round.
#[derive(Debug, Clone)]
pub struct Known {
    pub container: Arc<str>,
    started: u64,
    /// Its newest reading, and when (true time) that was.
    pub values: Values,
    pub read: u64,
    /// Read in this very round.
    pub fresh: bool,
    service: ServiceId,
}

/// A row as it stands after a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTruth {
    pub values: Values,
    pub counts: Counts,
}

/// Everything after one round.
#[derive(Debug, Clone)]
pub struct Round {
    /// True time.
    pub at: u64,
    /// The machine's own figures.
    pub machine: Values,
    pub tasks: BTreeMap<TaskId, Known>,
    pub rows: BTreeMap<ServiceId, RowTruth>,
}

#[derive(Debug, Default)]
struct Row {
    counters: Values,
    ended: u64,
}

/// One life of a shipper.
#[derive(Debug)]
pub struct Life {
    started: u64,
    pub version: Version,
    /// Its monotonic clock less the true time.
    pub monotonic: u64,
    /// When it died, true time.
    pub died: Option<u64>,
    rows: BTreeMap<ServiceId, Row>,
    tasks: BTreeMap<TaskId, Known>,
    /// The newest present value of each counter of a task's incarnation.
    seen: BTreeMap<TaskId, BTreeMap<Stat, u64>>,
    /// Round q is at q − 1.
    pub rounds: Vec<Round>,
    /// What the ledgers are to be handed, in all.
    pub increments: Money,
}

impl Life {
    pub fn new(started: u64, monotonic: u64, version: Version) -> Life {
        Life {
            started,
            version,
            monotonic,
            died: None,
            rows: BTreeMap::new(),
            tasks: BTreeMap::new(),
            seen: BTreeMap::new(),
            rounds: Vec::new(),
            increments: Money::default(),
        }
    }

    pub fn observe(&mut self, at: u64, machine: &Values, readings: &[Reading], ended: &[Ended]) {
        for task in self.tasks.values_mut() {
            task.fresh = false;
        }
        // A last reading of what ended counts, unless a later incarnation has taken its place by now; an earlier one is
        // over as well.
        for end in ended {
            match self.tasks.get(&end.meta.task_id) {
                Some(task) if task.started > end.meta.started_at => continue,
                Some(task) if task.container != end.meta.container_id => self.end(&end.meta.task_id),
                _ => {}
            }
            if let Some(values) = &end.values {
                self.meet(at, &end.meta);
                self.read(at, &end.meta, values);
            }
            self.end(&end.meta.task_id);
        }
        for reading in readings {
            self.meet(at, &reading.meta);
            if let Some(values) = &reading.values {
                self.read(at, &reading.meta, values);
            }
        }
        let rows = self.rows.iter().map(|(service, row)| (service.clone(), self.row(service, row))).collect();
        let carried =
            |stat: &Stat| self.version.carried() & stat.bit() != 0 && CATALOGUE[stat.number()].of != Of::Tasks;
        let machine = machine.iter().filter(|(stat, _)| carried(stat)).collect();
        self.rounds.push(Round { at, machine, tasks: self.tasks.clone(), rows });
    }

    /// The newest round at or before a moment.
    pub fn round_at(&self, at: u64) -> Option<&Round> {
        self.rounds.iter().rev().find(|round| round.at <= at)
    }

    /// The round read at a moment of its monotonic clock.
    pub fn round_of(&self, monotonic: u64) -> Option<&Round> {
        self.rounds.iter().rev().find(|round| (round.at + self.monotonic) * 1_000_000 == monotonic)
    }

    fn meet(&mut self, at: u64, meta: &TaskMeta) {
        if self.tasks.get(&meta.task_id).is_some_and(|task| task.container != meta.container_id) {
            self.end(&meta.task_id);
        }
        self.rows.entry(meta.service_id.clone()).or_default();
        self.tasks.entry(meta.task_id.clone()).or_insert_with(|| Known {
            container: meta.container_id.clone(),
            started: meta.started_at,
            values: Values::default(),
            read: at,
            fresh: false,
            service: meta.service_id.clone(),
        });
    }

    /// Σ of what was added since the first reading; the first counts whole. What ran before the shipper did goes to the
    /// ledgers from its first reading only; a field that comes later starts at 0 iff the task is younger than the shipper.
    fn read(&mut self, at: u64, meta: &TaskMeta, values: &Values) {
        let first = !self.seen.contains_key(&meta.task_id);
        let seen = self.seen.entry(meta.task_id.clone()).or_default();
        let young = meta.started_at >= self.started;
        let row = self.rows.entry(meta.service_id.clone()).or_default();
        for stat in COUNTED.into_iter().filter(|stat| self.version.carried() & stat.bit() != 0) {
            let Some(value) = values.get(stat) else { continue };
            let (total, handed) = match seen.insert(stat, value) {
                Some(before) => (value.saturating_sub(before), value.saturating_sub(before)),
                None if young => (value, value),
                None if first => (value, 0),
                None => (0, 0),
            };
            if meta.shares_netns && PER_NETNS & stat.bit() != 0 {
                continue;
            }
            row.counters.add(stat, total);
            self.increments.add_one(&meta.service_id, stat, handed);
        }
        let task = self.tasks.get_mut(&meta.task_id).unwrap();
        task.values = values.clone();
        task.values.retain(self.version.carried());
        (task.read, task.fresh) = (at, true);
    }

    fn end(&mut self, id: &TaskId) {
        // What never had figures did not run: it waited to be started again.
        if let (Some(task), Some(_)) = (self.tasks.remove(id), self.seen.remove(id)) {
            self.rows.get_mut(&task.service).unwrap().ended += 1;
        }
    }

    fn row(&self, service: &ServiceId, row: &Row) -> RowTruth {
        let (mut values, mut counts) = (row.counters.clone(), Counts { ended: row.ended, ..Counts::default() });
        for task in self.tasks.values().filter(|task| task.service == *service) {
            counts.running += 1;
            if !task.fresh {
                continue;
            }
            counts.fresh += 1;
            for stat in bits(task.values.present() & GROUPED) {
                counts.have[stat.number()] += 1;
                if CATALOGUE[stat.number()].kind == Kind::Gauge && CATALOGUE[stat.number()].group != Group::Never {
                    values.add(stat, task.values.or_zero(stat));
                }
            }
        }
        RowTruth { values, counts }
    }
}
