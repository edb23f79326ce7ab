//! A node's tasks as its kernel and engine show them: counters that grow, fields that come and go, tasks that cannot be
//! read for a while, start, end, and return as another incarnation.

use crate::rng::Rng;
use std::sync::Arc;
use swarmstats::model::{Labels, NodeId, ServiceId, TaskId, TaskMeta, Values};
use swarmstats::outbox::{Ended, Reading};
use swarmstats::stat::{
    BLOCK_READ, CPU, LOAD1, MEMORY_LIMIT, MEMORY_PEAK, MEMORY_USED, PAGE_FAULTS, PIDS, RX_BYTES, Stat, THROTTLED,
};

/// Services of a world; a node may have tasks of each.
pub const N_SERVICES: usize = 3;
/// The counters carried; [`PAGE_FAULTS`] is read too, but no shipper is told to carry it.
pub const COUNTED: [Stat; 4] = [CPU, RX_BYTES, BLOCK_READ, THROTTLED];
const GAUGES: [Stat; 4] = [MEMORY_USED, PIDS, MEMORY_LIMIT, MEMORY_PEAK];

/// A shipper's version, as far as its catalogue goes: it may differ from that of collectors and of other shippers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    Same,
    /// It does not know one of the stats yet.
    Earlier,
    /// It has one that collectors do not know: under this number, in the place of one that they do.
    Later,
}

/// A number that no catalogue has.
const UNKNOWN: u32 = 61;

impl Version {
    /// The stats that its shipper sends.
    pub fn sent(self) -> u64 {
        let all = COUNTED.iter().chain(&GAUGES).chain(&[LOAD1]).fold(0, |mask, stat| mask | stat.bit());
        if self == Version::Earlier { all & !THROTTLED.bit() } else { all }
    }
    /// The stats that collectors have of it.
    pub fn carried(self) -> u64 {
        if self == Version::Later { self.sent() & !PIDS.bit() } else { self.sent() }
    }
    /// Its Hello's stat numbers.
    pub fn say(self, numbers: &mut [u32]) {
        let known = PIDS.number() as u32;
        numbers.iter_mut().filter(|number| self == Version::Later && **number == known).for_each(|n| *n = UNKNOWN);
    }
}

pub fn service(number: usize) -> ServiceId {
    ServiceId::new(format!("s{number}")).unwrap()
}

#[derive(Debug)]
struct Field {
    stat: Stat,
    counter: bool,
    value: u64,
    /// For so many more rounds the field cannot be read.
    absent: u64,
}

#[derive(Debug)]
struct Task {
    meta: Arc<TaskMeta>,
    fields: Vec<Field>,
    idle: bool,
    /// For so many more rounds the task cannot be read.
    unread: u64,
}

/// What happened on a host in one round, for the coverage report.
pub type Happened = Vec<&'static str>;

#[derive(Debug)]
pub struct Host {
    pub node_id: NodeId,
    tasks: Vec<Task>,
    over: Vec<Task>,
    late: Vec<Task>,
    born: u64,
    /// Readings of the machine so far.
    beats: u64,
}

impl Host {
    pub fn new(number: usize) -> Host {
        Host {
            node_id: NodeId::new(format!("n{number}")).unwrap(),
            tasks: Vec::new(),
            over: Vec::new(),
            late: Vec::new(),
            born: 0,
            beats: 0,
        }
    }

    /// Starts a task, `age` ms ago by the host's wall clock.
    pub fn start(&mut self, wall: u64, age: u64, rng: &mut Rng) {
        self.born += 1;
        let id = format!("{}t{}", self.node_id, self.born);
        let service = service(rng.below(N_SERVICES as u64) as usize);
        let meta = TaskMeta {
            task_id: TaskId::new(&id).unwrap(),
            task_name: format!("{service}.1.{id}").into(),
            slot: "1".into(),
            service_name: service.as_str().into(),
            service_id: service,
            stack: "".into(),
            node_id: self.node_id.clone(),
            node_name: self.node_id.as_str().into(),
            container_id: format!("{id}c1").into(),
            image: "busybox".into(),
            started_at: wall - age,
            labels: Labels::new(),
            shares_netns: rng.chance(150),
        };
        let (unread, idle) = (if rng.chance(120) { rng.between(1, 4) } else { 0 }, rng.chance(300));
        self.tasks.push(Task { meta: Arc::new(meta), fields: fields(age, rng), idle, unread });
    }

    /// Everything that runs ends now.
    pub fn end_all(&mut self) {
        self.over.append(&mut self.tasks);
    }

    /// Lives on for a round: nothing but growth if `calm`, nothing at all if `still`.
    pub fn live(&mut self, wall: u64, calm: bool, still: bool, rng: &mut Rng) -> Happened {
        let mut happened = Happened::new();
        if still {
            return happened;
        }
        for task in &mut self.tasks {
            task.grow(calm, rng, &mut happened);
        }
        if calm {
            return happened;
        }
        if self.tasks.len() < 5 && rng.chance(60) {
            self.start(wall, 0, rng);
            happened.push("task started");
            if self.tasks.last().is_some_and(|task| task.unread > 0) {
                happened.push("task first met unreadable");
            }
        }
        if !self.tasks.is_empty() && rng.chance(50) {
            let at = rng.below(self.tasks.len() as u64) as usize;
            if rng.chance(300) {
                let old = self.tasks[at].restart(wall, rng);
                happened.push("task restarted in another container");
                // The end of the old one is told in time, never, or when its successor runs already.
                match rng.below(3) {
                    0 => self.over.push(old),
                    1 => self.late.push(old),
                    _ => {}
                }
            } else {
                self.over.push(self.tasks.remove(at));
                happened.push("task ended");
            }
        }
        happened
    }

    /// What a round of the shipper reads.
    pub fn read(&mut self, rng: &mut Rng) -> (Vec<Reading>, Vec<Ended>) {
        let readings = self.tasks.iter_mut().filter_map(|task| {
            if task.unread == 0 {
                return Some(Reading { meta: task.meta.clone(), values: Some(task.values()), age: 0 });
            }
            task.unread -= 1;
            // Listed and unreadable, or not even listed: the same to the reader.
            rng.chance(700).then(|| Reading { meta: task.meta.clone(), values: None, age: 0 })
        });
        let readings = readings.collect();
        let ended = self.over.drain(..).map(|task| {
            let values = rng.chance(500).then(|| task.values());
            Ended { meta: task.meta, values }
        });
        let ended = ended.collect();
        self.over.append(&mut self.late);
        (readings, ended)
    }

    /// What a round of the shipper reads of the machine itself: it stands still now and then, loses a figure or all of
    /// them for a while, and one of them is none that machines have.
    pub fn machine(&mut self, still: bool) -> Values {
        self.beats += u64::from(!still);
        let beat = self.beats * 3 / 4;
        if beat.is_multiple_of(23) {
            return Values::default();
        }
        let all = [
            (CPU, beat * 900),
            (RX_BYTES, beat / 3 * 50),
            (MEMORY_USED, beat * 7919 % 100_000),
            (MEMORY_PEAK, 1),
            (LOAD1, beat % 5),
        ];
        all.into_iter().filter(|(stat, _)| beat % 10 < 7 || *stat != LOAD1).collect()
    }

    /// A new shipper is not told what ended before it.
    pub fn forget_ended(&mut self) {
        self.over.clear();
        self.late.clear();
    }
}

fn fields(age: u64, rng: &mut Rng) -> Vec<Field> {
    let field = |stat, counter, rng: &mut Rng| {
        let late = matches!(stat, BLOCK_READ | THROTTLED | MEMORY_LIMIT) && rng.chance(400);
        let value = if counter && age == 0 { 0 } else { rng.between(1, 5000) };
        Field { stat, counter, value, absent: if late { rng.between(1, 9) } else { 0 } }
    };
    let mut fields: Vec<_> = COUNTED.into_iter().map(|stat| field(stat, true, rng)).collect();
    fields.push(field(PAGE_FAULTS, true, rng));
    fields.extend(GAUGES.into_iter().map(|stat| field(stat, false, rng)));
    fields
}

impl Task {
    fn values(&self) -> Values {
        self.fields.iter().filter(|field| field.absent == 0).map(|field| (field.stat, field.value)).collect()
    }

    fn grow(&mut self, calm: bool, rng: &mut Rng, happened: &mut Happened) {
        if rng.chance(30) {
            self.idle = !self.idle;
        }
        for field in &mut self.fields {
            field.absent = field.absent.saturating_sub(1);
            if !calm && rng.chance(8) {
                field.absent = rng.between(1, 5);
                happened.push("field gone for a while");
            }
            if self.idle || rng.chance(300) {
                continue;
            }
            match field.counter {
                true if !calm && rng.chance(3) => {
                    field.value = rng.below(1 + field.value);
                    happened.push("counter fell within an incarnation");
                }
                true => field.value += rng.below(900),
                false => field.value = rng.below(100_000),
            }
        }
        if !calm && self.unread == 0 && rng.chance(12) {
            self.unread = rng.between(1, 8);
            happened.push("task unreadable for a while");
        }
    }

    /// Becomes another incarnation; returns the one before.
    fn restart(&mut self, wall: u64, rng: &mut Rng) -> Task {
        let container_id = format!("{}'", self.meta.container_id).into();
        let meta = Arc::new(TaskMeta { container_id, started_at: wall + 1, ..TaskMeta::clone(&self.meta) });
        std::mem::replace(self, Task { meta, fields: fields(0, rng), idle: false, unread: 0 })
    }
}
