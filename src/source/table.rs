//! The node's tasks, each with what reads it, and one tick over all of them.
//!
//! Synchronous: a tick opens nothing and waits for nothing but the kernel, so one container delays no other and a
//! frozen engine delays none. [`super::discovery`] keeps the table true. A container is in it from its start to its
//! end, one incarnation at a time. It deliberately asks the engine nothing itself: it says what it would like to know.

use super::{
    Fault, Faults,
    cgroup::{Host, Target},
    engine::{STATS_DEADLINE, api::Stats},
    files::Controller,
    reader::{Gone, Reader, Scratch, Unseen},
    record::Record,
};
use crate::{
    clock::monotonic,
    model::{Nanos, TaskMeta, Values},
    stat::Level,
};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// For how long an engine's record stands for the container it is of, before that counts as unread: two attempts.
pub const MAX_RECORD_AGE: Nanos = 2 * STATS_DEADLINE.as_nanos() as Nanos;

/// What one tick over the node gave.
#[derive(Debug)]
pub struct Round {
    /// When it was read.
    pub monotonic: Nanos,
    /// Every running task.
    pub readings: Vec<(Arc<TaskMeta>, Reading)>,
    /// The incarnations that ended since the last round.
    pub ended: Vec<Ended>,
}

/// What a task's reading gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Read from the kernel in this round.
    Fresh(Values),
    /// The engine's last record, which is this old: at most [`MAX_RECORD_AGE`].
    Aged {
        /// What it says.
        values: Values,
        /// How long before the round's moment it came.
        age: Nanos,
    },
    /// Nothing new is known.
    Unread(Unread),
}

/// Why a task could not be read in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unread {
    /// Its cgroup is gone, and the engine has not said yet what became of it.
    #[error("its cgroup is gone, and the engine has not said what became of it")]
    Gone,
    /// Its cgroup cannot be seen, and the engine has given no record of it, or none for long.
    #[error("its cgroup cannot be seen from the shipper, and the engine gives no record of it")]
    NoRecord,
}

/// How a container ended, as far as anybody said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i64>,
    /// The kernel killed something in it for want of memory.
    pub oom_killed: bool,
}

/// An incarnation that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Whose.
    pub meta: Arc<TaskMeta>,
    /// Its last values; `None` if it was never read.
    pub last: Option<Values>,
    /// How it ended.
    pub exit: Exit,
    /// The time before its end that no reading saw; `None` if the last reading came after its last process.
    pub unseen_tail: Option<Nanos>,
}

/// What reads a task.
#[derive(Debug)]
enum By {
    Kernel(Box<Reader>),
    /// `at`: when the newest record came.
    Engine {
        record: Box<Record>,
        at: Option<Nanos>,
        asked: bool,
    },
}

#[derive(Debug)]
struct Tracked {
    meta: Arc<TaskMeta>,
    target: Target,
    by: By,
    /// Which listing was the newest asked for when this came: an older one cannot know it.
    since_listing: u64,
    oom_killed: bool,
    gone: bool,
    /// When it was last read.
    read_at: Nanos,
    /// Its last process is gone, and everything was read after that.
    seen_to_the_end: bool,
}

/// The node's tasks.
#[derive(Debug)]
pub struct Table {
    host: Host,
    level: Level,
    max_tasks: usize,
    scratch: Scratch,
    tasks: BTreeMap<Arc<str>, Tracked>,
    ended: Vec<Ended>,
    round: u64,
    memory_total: Option<u64>,
    /// For the phases of idle tasks' readings.
    adopted: u64,
}

impl Table {
    /// Of a machine, with no tasks yet.
    pub fn new(host: Host, level: Level, max_tasks: usize) -> Table {
        let (scratch, memory_total) = (Scratch::new(&host), host.memory_total());
        let (tasks, ended) = (BTreeMap::new(), Vec::new());
        Table { host, level, max_tasks, scratch, tasks, ended, round: 0, memory_total, adopted: 0 }
    }

    /// One tick: every task is read once.
    pub fn sample(&mut self) -> Round {
        self.round += 1;
        let monotonic = monotonic();
        let mut readings = Vec::with_capacity(self.tasks.len());
        for task in self.tasks.values_mut() {
            let reading = match &mut task.by {
                By::Kernel(reader) => match reader.read(self.round, &mut self.scratch) {
                    Ok(values) => {
                        task.read_at = monotonic;
                        Reading::Fresh(values.clone())
                    }
                    Err(Gone) => {
                        task.gone = true;
                        self.scratch.around.faults.count(Fault::Gone);
                        Reading::Unread(Unread::Gone)
                    }
                },
                By::Engine { record, at, .. } => match at.map(|at| monotonic.saturating_sub(at)) {
                    Some(age) if age <= MAX_RECORD_AGE => Reading::Aged { values: record.last().clone(), age },
                    _ => Reading::Unread(Unread::NoRecord),
                },
            };
            readings.push((task.meta.clone(), reading));
        }
        Round { monotonic, readings, ended: std::mem::take(&mut self.ended) }
    }

    /// A container that runs: taken up, read for the first time, and if it is known as another incarnation, that one is
    /// over. False if nothing was new.
    pub fn started(&mut self, meta: TaskMeta, target: Target, listing: u64) -> bool {
        let id = meta.container_id.clone();
        let full = self.tasks.len() >= self.max_tasks;
        let double = self.is_double(&meta);
        match self.tasks.get_mut(&*id) {
            Some(task) if task.meta.same_incarnation(&meta) => {
                // Renamed, maybe; the service's id stays for as long as the incarnation.
                let service_id = task.meta.service_id.clone();
                task.meta = Arc::new(TaskMeta { service_id, ..meta });
                if std::mem::take(&mut task.gone) || matches!(task.by, By::Engine { .. }) {
                    self.reopen(&id, target);
                }
                return false;
            }
            Some(_) => self.ended(&id, Exit::default(), None),
            None if double => {
                self.scratch.around.faults.count(Fault::Identity);
                return false;
            }
            None if full => {
                self.scratch.around.faults.count(Fault::Bounds);
                return false;
            }
            None => {}
        }
        let (read_at, by) = (monotonic(), self.open(&target));
        let task = Tracked {
            meta: Arc::new(meta),
            target,
            by,
            since_listing: listing,
            oom_killed: false,
            gone: false,
            read_at,
            seen_to_the_end: false,
        };
        self.tasks.insert(id, task);
        true
    }

    /// Whether another container claims the same task: of two the one known first counts, else they would end each other
    /// every round. An image made from a task's container carries its labels.
    fn is_double(&self, meta: &TaskMeta) -> bool {
        self.tasks.values().any(|task| task.meta.task_id == meta.task_id && task.meta.container_id != meta.container_id)
    }

    /// Opens a container's files and reads them once, else the engine will be asked.
    fn open(&mut self, target: &Target) -> By {
        self.adopted += 1;
        let opened = Reader::open(&self.host, target, self.level, self.adopted, &mut self.scratch);
        match opened {
            Ok(mut reader) => {
                if reader.read(self.round, &mut self.scratch).is_err() {
                    // The next tick notices as well, and has it looked at.
                    self.scratch.around.faults.count(Fault::Gone);
                }
                By::Kernel(Box::new(reader))
            }
            Err(why) => {
                self.scratch.around.faults.count(match why {
                    Unseen::Nowhere => Fault::Unseen,
                    Unseen::Denied => Fault::Denied,
                    Unseen::OpenFiles => Fault::OpenFiles,
                });
                let record = Record::new(target.started_at, target.network);
                By::Engine { record: Box::new(record), at: None, asked: false }
            }
        }
    }

    /// Tries the kernel again for a container that the engine says runs on.
    fn reopen(&mut self, id: &str, target: Target) {
        let by = self.open(&target);
        let Some(task) = self.tasks.get_mut(id) else { return };
        // An engine's record goes on where it was, for its sums' sake.
        if matches!((&task.by, &by), (By::Kernel(_), _) | (By::Engine { .. }, By::Kernel(_))) {
            task.by = by;
        }
        task.target = target;
    }

    /// A container's last process is gone, but maybe not yet its cgroup: the last figures are read at once.
    pub fn exited(&mut self, container_id: &str) {
        let Some(Tracked { by: By::Kernel(reader), read_at, seen_to_the_end, .. }) = self.tasks.get_mut(container_id)
        else {
            return;
        };
        if reader.read_last(&mut self.scratch).1 {
            (*read_at, *seen_to_the_end) = (monotonic(), true);
        }
    }

    /// A container is over. `at`: when, by the engine's clock in nanoseconds since the Unix epoch; an end from before
    /// the start of what is known is of an earlier incarnation, and told already.
    pub fn ended(&mut self, container_id: &str, exit: Exit, at: Option<u64>) {
        let known = self.tasks.get(container_id).map(|task| task.target.started_at);
        if known.is_none_or(|started_at| at.is_some_and(|at| at < started_at)) {
            return;
        }
        self.exited(container_id);
        let Some(task) = self.tasks.remove(container_id) else { return };
        let last = match task.by {
            By::Kernel(reader) => Some(reader.last().clone()),
            By::Engine { record, at, .. } => at.map(|_| record.last().clone()),
        };
        let unseen_tail = (!task.seen_to_the_end).then(|| monotonic().saturating_sub(task.read_at));
        let exit = Exit { oom_killed: exit.oom_killed || task.oom_killed, ..exit };
        self.push_ended(Ended { meta: task.meta, last, exit, unseen_tail });
    }

    /// A container that was over before it could be taken up.
    pub fn missed(&mut self, meta: TaskMeta, exit: Exit, lasted: Nanos) {
        self.push_ended(Ended { meta: Arc::new(meta), last: None, exit, unseen_tail: Some(lasted) });
    }

    fn push_ended(&mut self, ended: Ended) {
        let faults = &mut self.scratch.around.faults;
        if ended.unseen_tail.is_some() {
            faults.count(Fault::UnseenTail);
        }
        if self.ended.len() < self.max_tasks {
            self.ended.push(ended);
        } else {
            faults.count(Fault::Bounds);
        }
    }

    /// The kernel killed something in a container for want of memory.
    pub fn out_of_memory(&mut self, container_id: &str) {
        if let Some(task) = self.tasks.get_mut(container_id) {
            task.oom_killed = true;
        }
        self.updated(container_id);
    }

    /// Something of a container changed that its CPU counter does not show.
    pub fn updated(&mut self, container_id: &str) {
        if let Some(Tracked { by: By::Kernel(reader), .. }) = self.tasks.get_mut(container_id) {
            reader.hurry();
        }
    }

    /// What a listing of all running containers says: those that it lacks and that were known when it was asked for
    /// are over. Gives the listed ones that should be looked at, because they are unknown or cannot be read.
    pub fn listed<'a>(&mut self, running: &[&'a str], listing: u64) -> Vec<&'a str> {
        self.scratch.around.devices.forget();
        self.memory_total = self.host.memory_total();
        let over: Vec<Arc<str>> = self
            .tasks
            .iter()
            .filter(|(id, task)| task.since_listing < listing && !running.contains(&&***id))
            .map(|(id, _)| id.clone())
            .collect();
        for id in over {
            self.ended(&id, Exit::default(), None);
        }
        let mut room = self.max_tasks.saturating_sub(self.tasks.len());
        let mut interesting = |id: &&str| match self.tasks.get(*id) {
            Some(task) => task.gone || matches!(task.by, By::Engine { .. }),
            None if room > 0 => {
                room -= 1;
                true
            }
            None => {
                self.scratch.around.faults.count(Fault::Bounds);
                false
            }
        };
        running.iter().copied().filter(|id| interesting(id)).collect()
    }

    /// Whether there is anything in [`Table::gone`] or [`Table::wanting_record`].
    pub fn wants_a_look(&self) -> bool {
        self.tasks.values().any(|task| task.gone || matches!(task.by, By::Engine { asked: false, .. }))
    }

    /// The containers whose cgroup went away with nobody saying why.
    pub fn gone(&self) -> Vec<Arc<str>> {
        self.tasks.iter().filter(|(_, task)| task.gone).map(|(id, _)| id.clone()).collect()
    }

    /// The containers the engine should be asked for a record of, and is not being asked already.
    pub fn wanting_record(&mut self) -> Vec<Arc<str>> {
        let mut wanting = Vec::new();
        for (id, task) in &mut self.tasks {
            if let By::Engine { asked, .. } = &mut task.by
                && !std::mem::replace(asked, true)
            {
                wanting.push(id.clone());
            }
        }
        wanting
    }

    /// The engine's answer for a container, `None` if there was none.
    pub fn record(&mut self, container_id: &str, stats: Option<&Stats>) {
        let Some(task) = self.tasks.get_mut(container_id) else { return };
        let By::Engine { record, at, asked } = &mut task.by else { return };
        *asked = false;
        let devices = &mut self.scratch.around.devices;
        if stats.is_some_and(|stats| record.take(stats, devices, self.memory_total, self.level)) {
            task.read_at = monotonic();
            *at = Some(task.read_at);
        }
    }

    /// What is known of a container's target.
    pub fn target(&self, container_id: &str) -> Option<&Target> {
        self.tasks.get(container_id).map(|task| &task.target)
    }

    /// What could not be read or understood so far.
    pub fn faults(&mut self) -> &mut Faults {
        &mut self.scratch.around.faults
    }

    /// A container's v2 directory, if it has one.
    pub fn unified(&self, target: &Target) -> Option<PathBuf> {
        // Pressure is what v2 alone has, also where v1 has the controllers.
        Some(self.host.place(target).0.of(Controller::Pressure)?.1.to_owned())
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}
