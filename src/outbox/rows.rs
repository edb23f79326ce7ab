//! What the shipper knows of its node: tasks and the (node, service) rows they add up to (LEDGER 1–3).
//!
//! A row's counters are Σ over incarnations of max(0, Δ); they never fall while the shipper lives. Its gauges are
//! sums over the tasks read in the newest round. Increments also go to the row's pool, where the ledger's batches take
//! them from: there a task that ran before the shipper did counts from its first reading only.

use super::amounts::{self, Aged};
use super::{Ended, OutboxConfig, Reading};
use crate::model::{Counts, Key, Nanos, NodeMeta, RowMeta, ServiceId, TaskId, TaskMeta, Values, bits};
use crate::shard;
use crate::stat::{COUNTERS, GROUPED};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Task {
    pub(super) meta: Arc<TaskMeta>,
    pub(super) shard: u16,
    pub(super) values: Values,
    /// The newest present value of each counter, once it was read: a stat that is absent for a while goes on from there.
    seen: Option<Box<Values>>,
    /// CPU time and clock of the reading before the newest.
    pub(super) previous: Option<(Nanos, u64)>,
    /// The round in which anything last changed.
    pub(super) changed: u64,
    /// The round in which this incarnation was first met.
    pub(super) born: u64,
    /// Clock of the newest reading.
    pub(super) read: Nanos,
    /// It was not read in the newest round.
    pub(super) unread: bool,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) meta: Arc<RowMeta>,
    pub(super) shard: u16,
    /// Σ of increments, counters only.
    pub(super) totals: Values,
    /// What is sent: the totals and the gauge sums.
    pub(super) values: Values,
    pub(super) counts: Counts,
    /// Gauge sums and counts of the round under way.
    sum: (Values, Counts),
    /// Not handed over yet.
    pub(super) pool: Aged,
    /// Too old to be handed over.
    pub(super) dropped: Values,
    pub(super) changed: u64,
    /// Since when no task runs.
    idle_since: Option<Nanos>,
}

/// Tasks and rows of one node.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pub(super) rows: BTreeMap<ServiceId, Row>,
    pub(super) node: Arc<NodeMeta>,
    pub(super) node_shard: u16,
    pub(super) node_changed: u64,
    /// The sample round.
    pub(super) q: u64,
    /// Clock of the newest round.
    pub(super) monotonic: Nanos,
    /// Clock of the round before it.
    pub(super) previous: Nanos,
    bucket: u64,
    /// Of all rows, those retired by now included.
    pub(super) dropped: Values,
}

impl Books {
    pub(super) fn new(cfg: &OutboxConfig) -> Books {
        let node = NodeMeta {
            node_id: cfg.node_id.clone(),
            node_name: cfg.node_name.clone(),
            services: Vec::new(),
            since: cfg.started,
        };
        Books {
            tasks: BTreeMap::new(),
            rows: BTreeMap::new(),
            node: Arc::new(node),
            node_shard: shard::shard(&Key::Node(cfg.node_id.clone())),
            node_changed: 0,
            q: 0,
            monotonic: 0,
            previous: 0,
            bucket: 0,
            dropped: Values::default(),
        }
    }

    /// One sample round of the whole node.
    pub(super) fn observe(
        &mut self,
        cfg: &OutboxConfig,
        monotonic: Nanos,
        readings: impl IntoIterator<Item = Reading>,
        ended: impl IntoIterator<Item = Ended>,
    ) {
        self.q += 1;
        self.previous = std::mem::replace(&mut self.monotonic, monotonic);
        self.bucket = amounts::bucket(monotonic, cfg.max_catch_up);
        // Ends first: an incarnation that was replaced within the round gets its last reading before its successor comes.
        for end in ended {
            self.end(cfg, end);
        }
        for task in self.tasks.values_mut() {
            task.unread = true;
        }
        for reading in readings {
            match reading.values {
                Some(values) => self.read(cfg, &reading.meta, values),
                None => self.meet(cfg, &reading.meta),
            }
        }
        self.sum_up();
        self.retire(cfg);
    }

    fn read(&mut self, cfg: &OutboxConfig, meta: &Arc<TaskMeta>, mut values: Values) {
        values.retain(cfg.stats);
        self.meet(cfg, meta);
        let (q, monotonic, bucket) = (self.q, self.monotonic, self.bucket);
        let Some(row) = self.rows.get_mut(&meta.service_id) else { return };
        let Some(task) = self.tasks.get_mut(&meta.task_id) else { return };
        let (young, first) = (meta.started_at >= cfg.started, task.seen.is_none());
        let seen = task.seen.get_or_insert_default();
        for stat in bits(values.present() & COUNTERS & meta.grouped()) {
            let value = values.or_zero(stat);
            let (increment, amount) = match seen.get(stat) {
                Some(before) => (value.saturating_sub(before), value.saturating_sub(before)),
                None if young => (value, value),
                None if first => (value, 0),
                // A stat first present later starts at 0 iff the task is younger than the shipper (LEDGER 1).
                None => (0, 0),
            };
            seen.set(stat, value);
            row.totals.add(stat, increment);
            row.pool.add(bucket, stat, amount);
        }
        task.previous = task.values.get(crate::stat::CPU).map(|cpu| (task.read, cpu));
        if task.values != values {
            task.changed = q;
            task.values = values;
        }
        task.unread = false;
        task.read = monotonic;
    }

    /// Makes the task and its row known; another incarnation of the task is over.
    fn meet(&mut self, cfg: &OutboxConfig, meta: &Arc<TaskMeta>) {
        if self.tasks.get(&meta.task_id).is_some_and(|task| Arc::ptr_eq(&task.meta, meta)) {
            return; // as in nearly every round
        }
        self.replace_other_incarnation(meta);
        self.make_row(cfg, meta);
        let (q, read) = (self.q, self.monotonic);
        self.tasks.entry(meta.task_id.clone()).or_insert_with(|| Task {
            meta: meta.clone(),
            shard: shard::shard(&Key::Task(meta.task_id.clone())),
            values: Values::default(),
            seen: None,
            previous: None,
            changed: q,
            born: q,
            read,
            unread: true,
        });
    }

    /// Another incarnation of the task is over.
    fn replace_other_incarnation(&mut self, meta: &TaskMeta) {
        if self.tasks.get(&meta.task_id).is_some_and(|task| !task.meta.same_incarnation(meta)) {
            self.remove(&meta.task_id);
        }
    }

    /// A task is over. Its last reading counts, unless a later incarnation has taken its place by now.
    fn end(&mut self, cfg: &OutboxConfig, end: Ended) {
        let later = |task: &Task| task.meta.started_at > end.meta.started_at;
        if self.tasks.get(&end.meta.task_id).is_some_and(later) {
            return;
        }
        self.replace_other_incarnation(&end.meta);
        if let Some(values) = end.values {
            self.read(cfg, &end.meta, values);
        }
        self.remove(&end.meta.task_id);
    }

    fn remove(&mut self, id: &TaskId) {
        let Some(task) = self.tasks.remove(id) else { return };
        if let Some(row) = self.rows.get_mut(&task.meta.service_id) {
            row.counts.ended += 1;
            row.changed = self.q;
        }
    }

    fn make_row(&mut self, cfg: &OutboxConfig, meta: &TaskMeta) {
        if !self.rows.contains_key(&meta.service_id) {
            let row = RowMeta {
                node_id: cfg.node_id.clone(),
                node_name: cfg.node_name.clone(),
                service_id: meta.service_id.clone(),
                service_name: meta.service_name.clone(),
                stack: meta.stack.clone(),
                since: self.node.since,
            };
            self.list(|services| services.push(meta.service_id.clone()));
            let shard = shard::shard(&Key::Row(row.node_id.clone(), row.service_id.clone()));
            let row = Row {
                meta: Arc::new(row),
                shard,
                totals: Values::default(),
                values: Values::default(),
                counts: Counts::default(),
                sum: Default::default(),
                pool: Aged::default(),
                dropped: Values::default(),
                changed: self.q,
                idle_since: None,
            };
            self.rows.insert(meta.service_id.clone(), row);
        }
    }

    fn list(&mut self, change: impl FnOnce(&mut Vec<ServiceId>)) {
        let mut node = NodeMeta::clone(&self.node);
        change(&mut node.services);
        node.services.sort_unstable();
        self.node = Arc::new(node);
        self.node_changed = self.q;
    }

    /// Gauge sums and counts of every row, from the tasks read in this round.
    fn sum_up(&mut self) {
        for task in self.tasks.values() {
            let Some(row) = self.rows.get_mut(&task.meta.service_id) else { continue };
            let (sum, counts) = &mut row.sum;
            counts.running += 1;
            if task.unread {
                continue;
            }
            counts.fresh += 1;
            for stat in bits(task.values.present() & GROUPED) {
                counts.have[stat.number()] += 1;
                if COUNTERS & stat.bit() == 0 {
                    sum.add(stat, task.values.or_zero(stat));
                }
            }
        }
        for row in self.rows.values_mut() {
            let (mut values, mut counts) = std::mem::take(&mut row.sum);
            values.add_all(&row.totals);
            counts.ended = row.counts.ended;
            if values != row.values || counts != row.counts {
                row.changed = self.q;
            }
            if counts.running > 0 {
                row.idle_since = None;
            } else if row.idle_since.is_none() {
                row.idle_since = Some(self.monotonic);
            }
            (row.values, row.counts) = (values, counts);
        }
    }

    /// Rows without a running task for `row_keep` go; totals before now are no longer known, and `since` says so.
    fn retire(&mut self, cfg: &OutboxConfig) {
        let over = |row: &Row| row.idle_since.is_some_and(|since| self.monotonic - since >= cfg.row_keep);
        let gone: Vec<_> = self.rows.iter().filter(|(_, row)| over(row)).map(|(service, _)| service.clone()).collect();
        for service in gone {
            let since = cfg.started + (self.monotonic - cfg.started_monotonic) / 1_000_000;
            self.node = Arc::new(NodeMeta { since, ..NodeMeta::clone(&self.node) });
            self.rows.remove(&service);
            self.list(|services| services.retain(|other| *other != service));
        }
    }

    /// Amounts that waited for `max_catch_up` are dropped, so that a counter never jumps by many minutes at once.
    pub(super) fn drop_old(&mut self, oldest: u64) {
        for row in self.rows.values_mut() {
            if let Some(old) = row.pool.drop_older(oldest) {
                row.dropped.add_all(&old);
                self.dropped.add_all(&old);
            }
        }
    }
}
