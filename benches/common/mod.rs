//! Synthetic nodes whose figures change as often and by as much as real ones, and the lines of the benches' tables.
//!
//! A busy task changes 56 % of its fields from one sample to the next, a light one 20 %; an idle one is met once in four
//! samples by somebody's broadcast. Counters grow by log-uniform steps, as bursts do.

#![allow(dead_code, reason = "not every bench uses every helper")]

pub(crate) mod served;

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::Duration;
use swarmstats::message::{Ack, Batch};
use swarmstats::model::{Labels, MemberId, NodeId, ServiceId, TaskId, TaskMeta, Values};
use swarmstats::outbox::{Outbox, OutboxConfig, Reading};
use swarmstats::shard::{Member, Ring};
use swarmstats::stat::{self, Kind, Level, Stat, Unit};

pub(crate) const SECOND: u64 = 1_000_000_000;
/// An ordinary wall clock, ms.
pub(crate) const WALL: u64 = 1_764_000_000_000;

/// How many of 100 tasks are busy and light; the rest is idle.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) busy: u64,
    pub(crate) light: u64,
    /// Of 100 samples of an idle task, how many differ from the one before.
    pub(crate) met: u64,
}

pub(crate) const IDLE: Mix = Mix { busy: 0, light: 0, met: 0 };
/// A usual node: about 10 % of the fields change.
pub(crate) const USUAL: Mix = Mix { busy: 10, light: 20, met: 26 };
/// About 20 %.
pub(crate) const LIVELY: Mix = Mix { busy: 20, light: 40, met: 26 };
/// About 56 %.
pub(crate) const BUSY: Mix = Mix { busy: 100, light: 0, met: 0 };

/// SplitMix64.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    /// 1 to 2^bits, each length equally often.
    fn step(&mut self, bits: u64) -> u64 {
        let length = 1 + self.next() % bits;
        1 + self.next() % (1 << length)
    }
    fn of_100(&mut self, n: u64) -> bool {
        self.next() % 100 < n
    }
}

/// One node's tasks.
pub(crate) struct SyntheticNode {
    pub(crate) node_id: NodeId,
    pub(crate) tasks: Vec<(Arc<TaskMeta>, Values)>,
    level: Level,
    mix: Mix,
    rng: Rng,
    q: u64,
}

impl SyntheticNode {
    /// `n_tasks` tasks of `n_services` services, numbered on from `number` × `n_tasks`.
    pub(crate) fn new(number: usize, n_tasks: usize, n_services: usize, mix: Mix) -> SyntheticNode {
        let mut rng = Rng(number as u64 + 1);
        let node_id = NodeId::new(swarm_id(&mut rng)).expect("digits");
        let task = |at: usize| {
            let meta = task_meta(&node_id, number, number * n_tasks + at, n_services, swarm_id(&mut rng));
            let first = Stat::all().filter(|stat| stat.row().level <= Level::Standard);
            let values = first.map(|stat| (stat, first_value(stat, &mut rng))).collect();
            (Arc::new(meta), values)
        };
        let tasks = (0..n_tasks).map(task).collect();
        SyntheticNode { node_id, tasks, level: Level::Standard, mix, rng, q: 0 }
    }

    /// The same at level `all`, each task with every figure that a task can have and none of a machine.
    pub(crate) fn at_level_all(mut self) -> SyntheticNode {
        self.level = Level::All;
        for (_, values) in &mut self.tasks {
            values.retain(stat::TASKS);
            for stat in swarmstats::model::bits(stat::TASKS & !values.present()) {
                values.set(stat, first_value(stat, &mut self.rng));
            }
        }
        self
    }

    /// The node's clock at the newest round.
    pub(crate) fn clock(&self) -> u64 {
        self.q * SECOND
    }

    /// The next sample of every task.
    pub(crate) fn tick(&mut self) -> Vec<Reading> {
        self.q += 1;
        let Mix { busy, light, met } = self.mix;
        for (at, (_, values)) in self.tasks.iter_mut().enumerate().filter(|_| self.q > 1) {
            // Kinds of tasks alternate, so that each node of a few dozen has its share of each.
            let kind = (at as u64 * 37) % 100;
            let mask = match () {
                () if kind < busy => BUSY_FIELDS,
                () if kind < busy + light => LIGHT_FIELDS,
                () if self.rng.of_100(met) => stat::RX_BYTES.bit() | stat::RX_PACKETS.bit(),
                () => 0,
            };
            swarmstats::model::bits(mask).for_each(|stat| change(values, stat, &mut self.rng));
        }
        let read = |(meta, values): &(Arc<TaskMeta>, Values)| Reading {
            meta: meta.clone(),
            values: Some(values.clone()),
            age: 0,
        };
        self.tasks.iter().map(read).collect()
    }
}

/// The first 23 of the catalogue's 41 rows of level `standard`: it is ordered by how often a figure changes.
const BUSY_FIELDS: u64 = (1 << 23) - 1;
const LIGHT_FIELDS: u64 = stat::CPU.bit()
    | stat::CPU_USER.bit()
    | stat::CPU_SYSTEM.bit()
    | stat::MEMORY_USED.bit()
    | stat::MEMORY_USAGE.bit()
    | stat::RX_BYTES.bit()
    | stat::RX_PACKETS.bit()
    | stat::PAGE_FAULTS.bit();

/// 25 characters of Swarm's alphabet.
fn swarm_id(rng: &mut Rng) -> String {
    (0..25).map(|_| char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[(rng.next() % 36) as usize])).collect()
}

fn task_meta(node_id: &NodeId, node: usize, number: usize, n_services: usize, id: String) -> TaskMeta {
    let (service, slot) = (number % n_services, number / n_services + 1);
    TaskMeta {
        task_name: format!("shop_service{service}.{slot}.{id}").into(),
        task_id: TaskId::new(id).expect("digits"),
        slot: slot.to_string().into(),
        service_id: ServiceId::new(format!("{:025}", service + 1)).expect("digits"),
        service_name: format!("shop_service{service}").into(),
        stack: "shop".into(),
        node_id: node_id.clone(),
        node_name: format!("worker-{node}").into(),
        container_id: format!("{number:064x}").into(),
        image: format!("registry.example/shop/service{service}:1.27.3").into(),
        started_at: WALL - 60_000,
        labels: Labels::new(),
        shares_netns: false,
    }
}

fn first_value(stat: Stat, rng: &mut Rng) -> u64 {
    match stat.row().unit {
        Unit::Nanoseconds => (rng.next() % 1_000_000_000) * 1000,
        Unit::Nanocores => 1_500_000_000,
        Unit::Bytes => (rng.next() % 100_000) * 4096,
        Unit::Count | Unit::Thousandths => rng.next() % 1_000_000,
    }
}

fn change(values: &mut Values, stat: Stat, rng: &mut Rng) {
    let row = stat.row();
    let step = match row.unit {
        // The kernel counts microseconds; up to a good half second of CPU a second.
        Unit::Nanoseconds => rng.step(19) * 1000,
        Unit::Bytes if row.kind == Kind::Gauge => rng.step(8) * 4096,
        Unit::Bytes => rng.step(19),
        Unit::Count if row.kind == Kind::Gauge => rng.step(2),
        Unit::Nanocores | Unit::Count | Unit::Thousandths => rng.step(9),
    };
    let before = values.or_zero(stat);
    let down = row.kind == Kind::Gauge && rng.of_100(50);
    values.set(stat, if down { before.saturating_sub(step) } else { before + step });
}

/// The outbox of a shipper that started after its tasks, a second before the first round.
pub(crate) fn outbox(node: &SyntheticNode, ring: &Arc<Ring>, interval: u64) -> Outbox {
    let cfg = OutboxConfig {
        node_id: node.node_id.clone(),
        node_name: node.tasks[0].0.node_name.clone(),
        started: WALL,
        started_monotonic: 0,
        nonce: 1,
        stats: node.level.mask(),
        interval,
        lease: 3 * interval,
        overlap: 10 * interval,
        row_keep: 86_400 * SECOND,
        max_catch_up: 120 * SECOND,
    };
    Outbox::new(cfg, ring.clone())
}

pub(crate) fn members(n: usize) -> Vec<MemberId> {
    (1..=n).map(|n| MemberId::new(format!("c{n}")).expect("a word")).collect()
}

pub(crate) fn ring(n: usize) -> Arc<Ring> {
    let members = members(n).into_iter().map(|id| Member { id, node: None });
    Arc::new(Ring::new(members, 1).expect("distinct members"))
}

/// What a collector that showed everything to a scrape at once says of a batch.
pub(crate) fn ack(batch: &Batch, now: u64) -> Ack {
    Ack { n: batch.n, exposed: batch.n, token: now, draining: false, ring_id: batch.ring_id, advised_interval: 0 }
}

fn cpu(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).expect("below a second"))
}

/// CPU time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// CPU time of this process.
pub(crate) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

/// The middle one.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// `figure` of `unit`, what it is compared with, and whether it keeps its budget.
pub(crate) fn line(what: &str, figure: f64, unit: &str, baseline: (&str, f64), budget: Option<Budget>) {
    let (name, than) = baseline;
    let verdict = match budget {
        None => String::new(),
        Some(Budget::AtMost(most)) => format!("≤ {most} {}", if figure <= most { "met" } else { "NOT MET" }),
        Some(Budget::AtLeast(least)) => format!("≥ {least} {}", if figure >= least { "met" } else { "NOT MET" }),
    };
    println!("{what:<44} {figure:>9.3} {unit:<14} {name}: {than:.2} ({:.2} ×)   {verdict}", figure / than);
}

#[derive(Clone, Copy)]
pub(crate) enum Budget {
    AtMost(f64),
    AtLeast(f64),
}
