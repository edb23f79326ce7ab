//! What the shipper knows of its node: tasks and the (node, service) rows they add up to (LEDGER 1–3).
//!
//! A row's counters are Σ over incarnations of max(0, Δ); they never fall while the shipper lives. Its gauges are
//! sums over the tasks read in the newest round. Increments also go to the row's pool, where the ledger's batches take
//! them from: there a task that ran before the shipper did counts from its first reading only.

use super::amounts::{self, Aged};
use super::lease::Lease;
use super::{Ended, OutboxConfig, Reading};
use crate::model::{Counts, Key, Nanos, NodeMeta, RowMeta, ServiceId, TaskId, TaskMeta, Values, bits};
use crate::shard;
use crate::stat::{CAPACITY, COUNTERS, GROUPED, NODES};
use crate::view::Previous;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Task {
    pub(super) meta: Arc<TaskMeta>,
    pub(super) shard: u16,
    pub(super) lease: Lease,
    pub(super) values: Values,
    /// The newest present value of each counter, once it was read: a stat that is absent for a while goes on from there.
    seen: Option<Box<Values>>,
    /// The reading before the newest.
    pub(super) previous: Option<Previous>,
    /// The round in which anything last changed.
    pub(super) changed: u64,
    /// The round in which this incarnation was first met.
    pub(super) born: u64,
    /// The round in which its texts last changed.
    pub(super) named: u64,
    /// Clock of the newest reading.
    pub(super) read: Nanos,
    /// It was not read in the newest round.
    pub(super) unread: bool,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) meta: Arc<RowMeta>,
    pub(super) shard: u16,
    pub(super) lease: Lease,
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

/// A task that is over, until everybody could hear its last figures.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) task: Task,
    /// The round in which it ended.
    pub(super) q: u64,
}

/// For so many rounds a task's last figures are told to those who have not heard them.
const TOLD_FOR: u64 = 3;

/// Tasks and rows of one node.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) tasks: BTreeMap<TaskId, Task>,
    pub(super) over: BTreeMap<TaskId, Over>,
    pub(super) rows: BTreeMap<ServiceId, Row>,
    pub(super) node: Arc<NodeMeta>,
    pub(super) node_shard: u16,
    pub(super) node_lease: Lease,
    /// Leases of tasks and rows that are over, with the moment of their end: the same key may come back while its last
    /// holder may still show it.
    pub(super) resting: BTreeMap<Key, (Lease, Nanos)>,
    pub(super) node_changed: u64,
    /// The machine's own figures, and those of the round before.
    pub(super) machine: Values,
    pub(super) machine_before: Option<Previous>,
    /// The sample round.
    pub(super) q: u64,
    /// Clock of the newest round.
    pub(super) monotonic: Nanos,
    /// Clock of the round before it.
    pub(super) previous: Nanos,
    /// The time between rounds as it is now.
    pub(super) pace: Nanos,
    bucket: u64,
    /// Of all rows, those retired by now included.
    pub(super) dropped: Values,
    /// How often a key was sent elsewhere, and a lease went on because its holder was lost.
    pub(super) moves: u64,
    pub(super) takeovers: u64,
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
            over: BTreeMap::new(),
            rows: BTreeMap::new(),
            node: Arc::new(node),
            node_shard: shard::shard(&Key::Node(cfg.node_id.clone())),
            node_lease: Lease::default(),
            resting: BTreeMap::new(),
            node_changed: 0,
            machine: Values::default(),
            machine_before: None,
            q: 0,
            monotonic: 0,
            previous: 0,
            pace: cfg.interval,
            bucket: 0,
            dropped: Values::default(),
            moves: 0,
            takeovers: 0,
        }
    }

    /// One sample round of the whole node.
    pub(super) fn observe(
        &mut self,
        cfg: &OutboxConfig,
        monotonic: Nanos,
        machine: Values,
        readings: impl IntoIterator<Item = Reading>,
        ended: impl IntoIterator<Item = Ended>,
    ) {
        self.q += 1;
        self.previous = std::mem::replace(&mut self.monotonic, monotonic);
        self.bucket = amounts::bucket(monotonic, cfg.max_catch_up);
        let q = self.q;
        self.over.retain(|_, over| q - over.q < TOLD_FOR);
        // Told that it is over or not: nobody holds such a lease for longer.
        self.resting.retain(|_, (_, at)| monotonic.saturating_sub(*at) <= cfg.lease.saturating_mul(3));
        self.read_machine(cfg, machine);
        // Ends first: an incarnation that was replaced within the round gets its last reading before its successor comes.
        for end in ended {
            self.end(cfg, end);
        }
        for task in self.tasks.values_mut() {
            task.unread = true;
        }
        for reading in readings {
            match reading.values {
                Some(values) => self.read(cfg, &reading.meta, values, reading.age),
                None => self.meet(cfg, &reading.meta),
            }
        }
        self.sum_up();
        self.retire(cfg);
    }

    fn read_machine(&mut self, cfg: &OutboxConfig, mut machine: Values) {
        machine.retain((cfg.stats | CAPACITY) & NODES);
        self.machine_before = Previous::of(self.previous, &std::mem::replace(&mut self.machine, machine));
    }

    fn read(&mut self, cfg: &OutboxConfig, meta: &Arc<TaskMeta>, mut values: Values, age: Nanos) {
        values.retain(cfg.stats);
        self.meet(cfg, meta);
        let (q, read, bucket) = (self.q, self.monotonic.saturating_sub(age), self.bucket);
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
        // The same reading again says nothing new about rates.
        if first || read > task.read {
            task.previous = Previous::of(task.read, &task.values);
            task.read = read;
        }
        if task.values != values {
            task.changed = q;
            task.values = values;
        }
        // As old as a sample may be and still be fresh (LEDGER 20).
        task.unread = age > 3 * self.pace;
    }

    /// Makes the task and its row known; another incarnation of the task is over.
    fn meet(&mut self, cfg: &OutboxConfig, meta: &Arc<TaskMeta>) {
        let (q, read) = (self.q, self.monotonic);
        match self.tasks.get_mut(&meta.task_id) {
            Some(task) if Arc::ptr_eq(&task.meta, meta) => return, // as in nearly every round
            Some(task) if task.meta.same_incarnation(meta) && task.meta.service_id == meta.service_id => {
                if task.meta != *meta {
                    task.named = q;
                }
                task.meta = meta.clone();
                return;
            }
            _ => {}
        }
        self.replace_other_incarnation(meta);
        self.make_row(cfg, meta);
        let lease = self.wake(&Key::Task(meta.task_id.clone()));
        self.tasks.entry(meta.task_id.clone()).or_insert_with(|| Task {
            meta: meta.clone(),
            shard: shard::shard(&Key::Task(meta.task_id.clone())),
            lease,
            values: Values::default(),
            seen: None,
            previous: None,
            changed: q,
            born: q,
            named: q,
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

    /// The lease of a key, running or over.
    pub(super) fn lease(&mut self, key: &Key) -> Option<&mut Lease> {
        let live = match key {
            Key::Task(task) => self.tasks.get_mut(task).map(|task| &mut task.lease),
            Key::Row(_, service) => self.rows.get_mut(service).map(|row| &mut row.lease),
            Key::Node(_) => Some(&mut self.node_lease),
        };
        live.or_else(|| self.resting.get_mut(key).map(|(lease, _)| lease))
    }

    /// Every lease there is.
    pub(super) fn leases(&self) -> impl Iterator<Item = &Lease> {
        let tasks = self.tasks.values().map(|task| &task.lease);
        let rows = self.rows.values().map(|row| &row.lease);
        let resting = self.resting.values().map(|(lease, _)| lease);
        tasks.chain(rows).chain(resting).chain(std::iter::once(&self.node_lease))
    }

    /// A task is over. Its last reading counts, unless a later incarnation has taken its place by now.
    fn end(&mut self, cfg: &OutboxConfig, end: Ended) {
        let later = |task: &Task| task.meta.started_at > end.meta.started_at;
        if self.tasks.get(&end.meta.task_id).is_some_and(later) {
            return;
        }
        self.replace_other_incarnation(&end.meta);
        if let Some(values) = end.values {
            self.read(cfg, &end.meta, values, 0);
        }
        self.remove(&end.meta.task_id);
    }

    fn remove(&mut self, id: &TaskId) {
        let Some(mut task) = self.tasks.remove(id) else { return };
        self.resting.insert(Key::Task(id.clone()), (std::mem::take(&mut task.lease), self.monotonic));
        // What never had figures did not run: it waited to be started again.
        if task.seen.is_none() {
            return;
        }
        if let Some(row) = self.rows.get_mut(&task.meta.service_id) {
            row.counts.ended += 1;
            row.changed = self.q;
        }
        self.over.insert(id.clone(), Over { task, q: self.q });
    }

    /// The lease of a key that comes (back).
    fn wake(&mut self, key: &Key) -> Lease {
        self.resting.remove(key).map(|(lease, _)| lease).unwrap_or_default()
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
            let key = Key::Row(row.node_id.clone(), row.service_id.clone());
            let (shard, lease) = (shard::shard(&key), self.wake(&key));
            let row = Row {
                meta: Arc::new(row),
                shard,
                lease,
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
            if let Some(row) = self.rows.remove(&service) {
                self.dropped.add_all(&row.pool.total());
                let key = Key::Row(self.node.node_id.clone(), service.clone());
                self.resting.insert(key, (row.lease, self.monotonic));
            }
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
