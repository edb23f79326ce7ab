//! What is asked and what is answered: selectors, what one process holds ([`Holding`]), and a merged [`Report`].
//!
//! Between processes only task samples and rows travel, never a figure merged from several shippers; sums are made
//! where the answer is given.

use crate::model::{
    Counts, Gen, Labels, MAX_NAME, MemberId, Millis, Nanos, NodeMeta, RingId, RowMeta, TaskMeta, Values, Version,
};
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
    /// A task's id, name, or an unambiguous prefix of its id of 4 characters or more.
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

/// What a [`Holding`] is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ask {
    /// A union.
    pub selectors: Vec<Selector>,
    /// How many older points of each task to send along.
    pub points: usize,
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
    /// The reading before: its monotonic clock and its CPU time.
    pub previous: Option<(Nanos, u64)>,
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
    /// Matching tasks.
    pub tasks: Vec<TaskView>,
    /// Matching rows.
    pub rows: Vec<RowView>,
    /// All node rows.
    pub nodes: Vec<NodeView>,
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
}
