//! What one tick over a node gives: every running task's reading, and what ended since the tick before.
//!
//! A task that could not be read is there as well, with the reason. Plain data.

use super::life::Exit;
use crate::{
    model::{Nanos, TaskMeta, Values},
    stat,
};
use std::sync::Arc;

/// What one tick over the node gave.
#[derive(Debug)]
pub struct Round {
    /// When it was read.
    pub monotonic: Nanos,
    /// The machine's own figures, empty until something is known.
    pub machine: Values,
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
    /// The engine's last record, which is this old: at most [`super::table::MAX_RECORD_AGE`].
    Aged {
        /// What it says.
        values: Values,
        /// How long before the round's moment the engine read it.
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
    /// It has no process: it ended, and the engine will start it again.
    #[error("it ended, and the engine is about to start it again")]
    Restarting,
    /// The engine lists it, and says nothing when asked about it.
    #[error("the engine lists it but does not answer when asked about it: its shim may be dead")]
    NoAnswer,
}

impl Unread {
    /// Every reason.
    pub const ALL: [Unread; 4] = [Unread::Gone, Unread::NoRecord, Unread::Restarting, Unread::NoAnswer];

    /// The reason as a metric's label.
    pub const fn name(self) -> &'static str {
        match self {
            Unread::Gone => "gone",
            Unread::NoRecord => "no_record",
            Unread::Restarting => "restarting",
            Unread::NoAnswer => "no_answer",
        }
    }
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
    /// The time before its end that no reading saw; `None` if the last reading came after its last process, or there was
    /// nothing to read.
    pub unseen_tail: Option<Nanos>,
}

impl Ended {
    /// Its last figures, with how it ended; `None` where nothing ran, as while a container waits for its next start.
    pub fn values(self) -> Option<Values> {
        if self.last.is_none() && self.unseen_tail.is_none() {
            return None;
        }
        let mut values = self.last.unwrap_or_default();
        values.set(stat::START_TIME, self.meta.started_at.saturating_mul(1_000_000));
        self.exit.put(&mut values);
        Some(values)
    }
}
