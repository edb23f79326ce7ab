//! The node's tasks, each with what reads it, and one tick over all of them.
//!
//! Synchronous: a tick opens nothing and waits for nothing but the kernel, so one container delays no other and a
//! frozen engine delays none. [`super::discovery`] keeps the table true. A container is in it from its start to its
//! end, one incarnation at a time. It deliberately asks the engine nothing itself: it says what it would like to know.

use super::{
    Fault, Faults,
    cgroup::{Host, Target},
    engine::{
        STATS_DEADLINE,
        api::{Listed, Stats},
    },
    files::Controller,
    life::{Exit, Life},
    parse,
    reader::{Gone, Reader, Scratch, Unseen},
    record::Record,
    round::{Ended, Reading, Round, Unread},
};
use crate::{
    clock::monotonic,
    model::{Millis, Nanos, TaskMeta, Values},
    stat::Level,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

/// For how long an engine's record stands for the container it is of, before that counts as unread: two attempts.
pub const MAX_RECORD_AGE: Nanos = 2 * STATS_DEADLINE.as_nanos() as Nanos;

/// What reads a task.
#[derive(Debug)]
enum By {
    Kernel(Box<Reader>),
    /// `at`: when the engine read the newest record. `asked`: since when it is asked for the next one.
    Engine {
        record: Box<Record>,
        at: Option<Nanos>,
        asked: Option<Nanos>,
    },
    /// There is nothing to read.
    Nothing(Unread),
}

#[derive(Debug)]
struct Tracked {
    meta: Arc<TaskMeta>,
    target: Target,
    by: By,
    life: Life,
    /// Which listing was the newest asked for when this came, or its life changed: an older one cannot know that.
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
    mask: u64,
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
        let mask = level.mask();
        Table { host, level, mask, max_tasks, scratch, tasks, ended, round: 0, memory_total, adopted: 0 }
    }

    /// One tick: every task is read once.
    pub fn sample(&mut self) -> Round {
        self.round += 1;
        let monotonic = monotonic();
        let mut readings = Vec::with_capacity(self.tasks.len());
        for task in self.tasks.values_mut() {
            let reading = match &mut task.by {
                By::Kernel(reader) => match reader.read(self.round, monotonic, &mut self.scratch) {
                    Ok(values) => {
                        task.read_at = monotonic;
                        Reading::Fresh(alive(values, &task.life, self.mask))
                    }
                    Err(Gone) => {
                        task.gone = true;
                        self.scratch.around.faults.count(Fault::Gone);
                        Reading::Unread(Unread::Gone)
                    }
                },
                By::Engine { record, at, .. } => match at.map(|at| monotonic.saturating_sub(at)) {
                    Some(age) if age <= MAX_RECORD_AGE => {
                        Reading::Aged { values: alive(record.last(), &task.life, self.mask), age }
                    }
                    _ => Reading::Unread(Unread::NoRecord),
                },
                By::Nothing(why) => Reading::Unread(*why),
            };
            readings.push((task.meta.clone(), reading));
        }
        Round { monotonic, machine: Values::default(), readings, ended: std::mem::take(&mut self.ended) }
    }

    /// A container that runs: taken up, read for the first time, and if it is known as another incarnation, that one is
    /// over. False if nothing was new.
    pub fn started(&mut self, meta: TaskMeta, target: Target, life: Life, listing: u64) -> bool {
        self.take_up(meta, target, life, None, listing)
    }

    /// A container of which there is nothing to read, for a reason that is told.
    pub fn unreadable(&mut self, meta: TaskMeta, target: Target, life: Life, why: Unread, listing: u64) {
        self.take_up(meta, target, life, Some(why), listing);
    }

    fn take_up(&mut self, meta: TaskMeta, target: Target, life: Life, why: Option<Unread>, listing: u64) -> bool {
        let id = meta.container_id.clone();
        let full = self.tasks.len() >= self.max_tasks;
        let double = self.is_double(&meta);
        match self.tasks.get_mut(&*id) {
            Some(task) if task.meta.same_incarnation(&meta) => {
                // Renamed, maybe; the service's id stays for as long as the incarnation.
                let service_id = task.meta.service_id.clone();
                task.meta = Arc::new(TaskMeta { service_id, ..meta });
                task.life = life;
                if let Some(why) = why {
                    task.by = By::Nothing(why);
                } else if std::mem::take(&mut task.gone) || !matches!(task.by, By::Kernel(_)) {
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
        let read_at = monotonic();
        let by = why.map_or_else(|| self.open(&target), By::Nothing);
        let task = Tracked {
            meta: Arc::new(meta),
            target,
            by,
            life,
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
                if reader.read(self.round, monotonic(), &mut self.scratch).is_err() {
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
                By::Engine { record: Box::new(record), at: None, asked: None }
            }
        }
    }

    /// Tries the kernel again for a container that the engine says runs on.
    fn reopen(&mut self, id: &str, target: Target) {
        let by = self.open(&target);
        let Some(task) = self.tasks.get_mut(id) else { return };
        // An engine's record goes on where it was, for its sums' sake.
        if !matches!((&task.by, &by), (By::Engine { .. }, By::Engine { .. })) {
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
        let nothing_ran = matches!(task.by, By::Nothing(_));
        let last = match task.by {
            By::Kernel(reader) => Some(alive(reader.last(), &task.life, self.mask)),
            By::Engine { record, at, .. } => at.map(|_| alive(record.last(), &task.life, self.mask)),
            By::Nothing(_) => None,
        };
        let seen = task.seen_to_the_end || nothing_ran;
        let unseen_tail = (!seen).then(|| monotonic().saturating_sub(task.read_at));
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

    /// How a container is has changed; `listing` is the newest listing that was asked for.
    pub fn changed(&mut self, container_id: &str, listing: u64, change: impl FnOnce(&mut Life)) {
        if let Some(task) = self.tasks.get_mut(container_id) {
            change(&mut task.life);
            task.since_listing = listing;
        }
    }

    /// Something of a container changed that its CPU counter does not show.
    pub fn updated(&mut self, container_id: &str) {
        if let Some(Tracked { by: By::Kernel(reader), .. }) = self.tasks.get_mut(container_id) {
            reader.hurry();
        }
    }

    /// What a listing of all running containers says: those that it lacks and that were known when it was asked for
    /// are over. Gives the listed ones that should be looked at, because they are unknown or cannot be read.
    pub fn listed<'a>(&mut self, running: &[&'a Listed], listing: u64) -> Vec<&'a Listed> {
        self.scratch.around.devices.forget();
        self.memory_total = self.host.memory_total();
        let ids: BTreeSet<&str> = running.iter().map(|container| container.id.as_str()).collect();
        let over = |(id, task): &(&Arc<str>, &Tracked)| task.since_listing < listing && !ids.contains(&***id);
        let over: Vec<Arc<str>> = self.tasks.iter().filter(over).map(|(id, _)| id.clone()).collect();
        for id in over {
            self.ended(&id, Exit::default(), None);
        }
        let mut room = self.max_tasks.saturating_sub(self.tasks.len());
        let mut interesting = |listed: &&Listed| match self.tasks.get_mut(listed.id.as_str()) {
            Some(task) => {
                if task.since_listing < listing {
                    task.life.listed(&listed.state, &listed.status);
                }
                task.gone || !matches!(task.by, By::Kernel(_)) || listed.state == "restarting"
            }
            None if room > 0 => {
                room -= 1;
                true
            }
            None => {
                self.scratch.around.faults.count(Fault::Bounds);
                false
            }
        };
        running.iter().copied().filter(|listed| interesting(listed)).collect()
    }

    /// Whether there is anything in [`Table::gone`] or [`Table::wanting_record`].
    pub fn wants_a_look(&self) -> bool {
        self.tasks.values().any(|task| task.gone || matches!(task.by, By::Engine { asked: None, .. }))
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
                && asked.is_none()
            {
                *asked = Some(monotonic());
                wanting.push(id.clone());
            }
        }
        wanting
    }

    /// The engine's answer for a container, `None` if there was none; `wall` is the wall clock now.
    pub fn record(&mut self, container_id: &str, stats: Option<&Stats>, wall: Millis) {
        let Some(task) = self.tasks.get_mut(container_id) else { return };
        let By::Engine { record, at, asked } = &mut task.by else { return };
        let now = monotonic();
        let asked = asked.take().unwrap_or(now);
        let devices = &mut self.scratch.around.devices;
        let Some(stats) = stats.filter(|stats| record.take(stats, devices, self.memory_total, self.level)) else {
            return;
        };
        // The engine read it at some moment of the call; its clock is this machine's and says at which.
        let said = parse::rfc3339(&stats.read).unwrap_or(u64::MAX);
        let ago = wall.saturating_mul(1_000_000).saturating_sub(said);
        task.read_at = now.saturating_sub(ago).max(asked);
        *at = Some(task.read_at);
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

/// A task's figures with how it is, as far as the level asks for that.
fn alive(figures: &Values, life: &Life, mask: u64) -> Values {
    let mut values = figures.clone();
    life.put(&mut values);
    values.retain(mask);
    values
}
