//! What is asked and what is answered: selectors, what one process holds ([`Holding`]), and a merged [`Report`].
//!
//! Between processes only task samples and rows travel, never a figure merged from several shippers; sums are made
//! where the answer is given.

use crate::model::{
    Counts, Gen, Labels, MAX_NAME, MemberId, Millis, Nanos, NodeMeta, RingId, RowMeta, TaskMeta, Values, Version, bits,
};
use crate::stat::{self, Stat};
use crate::swarm::{Swarm, Truth};
use std::fmt;
use std::sync::Arc;

/// Whose answer is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scope {
    /// Of the whole cluster: every member is asked, answers are joined.
    #[default]
    Cluster,
    /// What the asked process holds.
    Local,
}

/// One condition: every part that is given must hold. Empty is an error unless `all` is set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selector {
    /// Everything.
    pub all: bool,
    /// A service's id or name.
    pub service: Option<Arc<str>>,
    /// A task's id, name, `<service name>.<slot>`, or an unambiguous prefix of its id of 4 characters or more.
    pub task: Option<Arc<str>>,
    /// A node's id or name.
    pub node: Option<Arc<str>>,
    /// A stack's name.
    pub stack: Option<Arc<str>>,
    /// Container labels, all of which must be equal.
    pub labels: Labels,
}

impl Selector {
    /// A selector of everything.
    pub fn everything() -> Selector {
        Selector { all: true, ..Selector::default() }
    }
    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Selector::default()
    }
    /// The length of its longest text, in bytes.
    fn longest(&self) -> usize {
        let texts = [&self.service, &self.task, &self.node, &self.stack].into_iter().flatten();
        texts
            .chain(self.labels.iter().flat_map(|(name, value)| [name, value]))
            .map(|text| text.len())
            .max()
            .unwrap_or(0)
    }
    /// Whether a task matches.
    pub fn takes_task(&self, task: &TaskMeta) -> bool {
        fn named(want: &Option<Arc<str>>, id: &str, name: &str) -> bool {
            want.as_deref().is_none_or(|want| want == id || want == name)
        }
        (self.all || !self.is_empty())
            && named(&self.service, task.service_id.as_str(), &task.service_name)
            && self.task.as_deref().is_none_or(|want| {
                want == task.task_id.as_str()
                    || want == &*task.task_name
                    || is_slot(task, want)
                    || (want.len() >= 4 && task.task_id.as_str().starts_with(want))
            })
            && named(&self.node, task.node_id.as_str(), &task.node_name)
            && self.stack.as_deref().is_none_or(|want| want == &*task.stack)
            && self.labels.iter().all(|(name, value)| task.labels.get(name) == Some(value))
    }
    /// Whether a row matches. A task id or labels do not narrow rows, for totals are of whole services; alone they ask
    /// for tasks only, and take no row.
    pub fn takes_row(&self, row: &RowMeta) -> bool {
        fn named(want: &Option<Arc<str>>, id: &str, name: &str) -> bool {
            want.as_deref().is_none_or(|want| want == id || want == name)
        }
        (self.all || self.service.is_some() || self.node.is_some() || self.stack.is_some())
            && named(&self.service, row.service_id.as_str(), &row.service_name)
            && named(&self.node, row.node_id.as_str(), &row.node_name)
            && self.stack.as_deref().is_none_or(|want| want == &*row.stack)
    }
}

/// How much text tasks bring along from another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Texts {
    /// All of it with each task.
    #[default]
    Whole,
    /// All of it, but what tasks of one service and node have in common once.
    Shared,
    /// Of a task's own texts its id alone: enough for figures of groups.
    Groups,
}

/// Whether a text is a task's name as tables show it: its service's and its slot.
fn is_slot(task: &TaskMeta, want: &str) -> bool {
    !task.slot.is_empty()
        && want.strip_prefix(&*task.service_name).and_then(|rest| rest.strip_prefix('.')) == Some(&*task.slot)
}

/// What a [`Holding`] is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// A union.
    pub selectors: Vec<Selector>,
    /// How many older points of each task to send along.
    pub points: usize,
    /// The mask of the stats that are wanted of tasks; those that figures are made of come along. Rows are always
    /// whole, for a reader remembers them from question to question.
    pub stats: u64,
    /// How much text of tasks is needed; an answer may have more.
    pub texts: Texts,
}

impl Ask {
    /// A question for everything that is known of what these selectors take, but no older points.
    pub fn of(selectors: Vec<Selector>) -> Ask {
        Ask { selectors, points: 0, stats: u64::MAX, texts: Texts::Shared }
    }
}

/// The most selectors a question may have.
pub const MAX_SELECTORS: usize = 64;
/// The most older points of a task a question may ask for.
pub const MAX_POINTS: usize = 10_000;

/// Why a question is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No selector, or one without any condition.
    #[error("an empty selector: name a service, task, node, stack or label, or say `all`")]
    Empty,
    /// More than [`MAX_SELECTORS`].
    #[error("{0} selectors, {MAX_SELECTORS} are allowed: ask several times")]
    TooMany(usize),
    /// Longer than a name may be.
    #[error("a selector's text is {0} bytes long, {MAX_NAME} are allowed")]
    TooLong(usize),
    /// More than [`MAX_POINTS`].
    #[error("{0} points, {MAX_POINTS} are allowed")]
    Points(usize),
}

impl Ask {
    /// How much text members must send each other for it: who joins their answers chooses tasks by their labels and
    /// names once more.
    pub fn texts_between(&self) -> Texts {
        let chooses = |selector: &Selector| selector.task.is_some() || !selector.labels.is_empty();
        match self.texts {
            Texts::Groups if !self.selectors.iter().any(chooses) => Texts::Groups,
            _ => Texts::Shared,
        }
    }

    /// Whether it is a question at all, and within bounds.
    pub fn check(&self) -> Result<(), AskError> {
        if self.selectors.is_empty() || self.selectors.iter().any(Selector::is_empty) {
            return Err(AskError::Empty);
        }
        if self.selectors.len() > MAX_SELECTORS {
            return Err(AskError::TooMany(self.selectors.len()));
        }
        if self.points > MAX_POINTS {
            return Err(AskError::Points(self.points));
        }
        let longest = self.selectors.iter().map(Selector::longest).max().unwrap_or(0);
        if longest > MAX_NAME { Err(AskError::TooLong(longest)) } else { Ok(()) }
    }
}

/// An older reading of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// The shipper's monotonic clock at the reading.
    pub monotonic: Nanos,
    /// The stats of level `docker`.
    pub values: Values,
}

/// How many stats a [`Previous`] has room for.
const N_RATED: usize = stat::RATED.count_ones() as usize;

/// The reading before the newest, as far as rates need it: its clock, and the counters of [`stat::RATED`].
#[derive(Clone, PartialEq, Eq)]
pub struct Previous {
    /// The shipper's monotonic clock at that reading.
    pub monotonic: Nanos,
    present: u64,
    /// In the order of their numbers; a tenth of a [`Values`], for every task has one.
    counters: [u64; N_RATED],
}

impl Previous {
    /// What rates need of a reading; `None` if that is nothing.
    pub fn of(monotonic: Nanos, values: &Values) -> Option<Previous> {
        let present = values.present() & stat::RATED;
        let mut counters = [0; N_RATED];
        for (place, stat) in counters.iter_mut().zip(bits(stat::RATED)) {
            *place = values.or_zero(stat);
        }
        (present != 0).then_some(Previous { monotonic, present, counters })
    }
    /// A counter, or `None` if absent.
    pub fn get(&self, stat: Stat) -> Option<u64> {
        let place = (stat::RATED & (stat.bit() - 1)).count_ones() as usize;
        (self.present & stat.bit() != 0).then(|| self.counters[place])
    }
    /// The presence mask of its counters.
    pub(crate) fn present(&self) -> u64 {
        self.present
    }
    /// The counters that are there, in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Stat, u64)> + '_ {
        bits(stat::RATED).zip(self.counters).filter(|(stat, _)| self.present & stat.bit() != 0)
    }
}

impl fmt::Debug for Previous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entry(&"monotonic", &self.monotonic).entries(self.iter()).finish()
    }
}

/// A task as one process knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskView {
    /// Its texts.
    pub meta: Arc<TaskMeta>,
    /// How new the values are.
    pub version: Version,
    /// LEDGER 20.
    pub fresh: bool,
    /// It is over; these are its last values.
    pub ended: bool,
    /// This process is told to be its primary owner.
    pub primary: bool,
    /// LEDGER 20.
    pub age: Millis,
    /// Its newest values.
    pub values: Values,
    /// The shipper's monotonic clock at that reading.
    pub monotonic: Nanos,
    /// The reading before.
    pub previous: Option<Previous>,
    /// Older points, oldest first, as many as asked for.
    pub points: Vec<Point>,
}

/// A (node, service) row as one process knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowView {
    /// Its texts.
    pub meta: Arc<RowMeta>,
    /// How new it is.
    pub version: Version,
    /// LEDGER 20.
    pub fresh: bool,
    /// LEDGER 20.
    pub age: Millis,
    /// The process that says so emits it now; a joined report does not say who does.
    pub primary: bool,
    /// Counters since the row began, gauge sums over fresh tasks.
    pub values: Values,
    /// How many tasks are in which state, and have what.
    pub counts: Counts,
}

/// A node's row as one process knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeView {
    /// Its texts.
    pub meta: Arc<NodeMeta>,
    /// How new it is.
    pub version: Version,
    /// LEDGER 20.
    pub fresh: bool,
    /// LEDGER 20.
    pub age: Millis,
    /// The process that says so emits it now; a joined report does not say who does.
    pub primary: bool,
    /// What the machine has and uses, empty until known: `CPU_LIMIT` is all its CPUs, `MEMORY_LIMIT` all its memory.
    pub values: Values,
    /// The shipper's monotonic clock at that reading.
    pub monotonic: Nanos,
    /// The reading before.
    pub previous: Option<Previous>,
}

/// How a member is, by its own word; one that nobody sees any more is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MemberState {
    /// It runs, but sees no ring yet.
    Joining,
    /// It takes samples and answers.
    #[default]
    Active,
    /// It wants to leave: it answers, and takes nothing new.
    Draining,
}

impl MemberState {
    /// `joining`, `active`, `draining`.
    pub fn as_str(self) -> &'static str {
        match self {
            MemberState::Joining => "joining",
            MemberState::Active => "active",
            MemberState::Draining => "draining",
        }
    }
    /// The state that a word names; of an unknown word, as a later version may have one, `Active`.
    pub fn named(word: &str) -> MemberState {
        match word {
            "joining" => MemberState::Joining,
            "draining" => MemberState::Draining,
            _ => MemberState::Active,
        }
    }
}

/// What a process says of itself when asked who it is: its state, and how much it carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// Joining, active or draining.
    pub state: MemberState,
    /// Tasks that shippers tell it of.
    pub tasks: u64,
    /// Of those, the ones whose lease it has.
    pub emitted: u64,
    /// Rows held.
    pub rows: u64,
    /// Shippers with a stream to it that see another ring.
    pub elsewhere: u64,
    /// Task samples taken in since it began.
    pub samples: u64,
    /// Of those, the ones of the last minute or so, and how long that was exactly; 0 where it has not been looked at.
    pub recent: (u64, Millis),
    /// For how long it has run.
    pub uptime: Millis,
}

/// What one process holds of what was asked. Node rows are always all of them: a reader needs them to know what is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// Who answers.
    pub member: MemberId,
    /// Which process of it.
    pub gen_: Gen,
    /// Its ring.
    pub ring_id: RingId,
    /// It began so recently that shippers may not have told it all it owns.
    pub young: bool,
    /// A shipper began anew so recently that tasks which that voided here may not be told to their owners yet.
    pub forgot: bool,
    /// Matching tasks.
    pub tasks: Vec<TaskView>,
    /// Matching rows.
    pub rows: Vec<RowView>,
    /// All node rows.
    pub nodes: Vec<NodeView>,
    /// Where this process has a manager's engine: what that says, its tasks narrowed to what was asked.
    pub swarm: Option<Swarm>,
}

/// Something an answer lacks, and why.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Missing {
    /// `task …`, `service …`, `node …`, `member …`.
    pub what: String,
    /// For people.
    pub why: String,
}

/// A merged answer: each key once, newest version; data first, then what is missing and warnings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Matching tasks, by id.
    pub tasks: Vec<TaskView>,
    /// Matching rows, by (service, node).
    pub rows: Vec<RowView>,
    /// Known nodes: all, unless only certain ones were asked for.
    pub nodes: Vec<NodeView>,
    /// LEDGER 21.
    pub complete: bool,
    /// Why not complete.
    pub missing: Vec<Missing>,
    /// What does not make it incomplete but people should know.
    pub warnings: Vec<String>,
    /// What Swarm says, if a member that answered has it from a manager.
    pub swarm: Option<Truth>,
}
