//! What becomes of a batch: stored and acknowledged, void, or refused for one of a few reasons.

use crate::codec::DecodeError;
use crate::message::{Ack, Handle};

/// Why a batch is not stored. The stream ends; reconnecting is the keyframe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// It builds on other baselines than ours.
    #[error("batch {0} builds on baselines that this process does not have")]
    Baseline(u64),
    /// Its block does not decode.
    #[error("batch {0} does not decode: {1}")]
    Decode(u64, DecodeError),
    /// It names a handle that the stream has not introduced.
    #[error("batch {0} names handle {1}, which this stream has not introduced")]
    Handle(u64, Handle),
    /// It introduces keys under handles that are in use, or far beyond them.
    #[error("batch {0} introduces keys under handles that are in use or far beyond them")]
    Intro(u64),
    /// It speaks about another node's key.
    #[error("the stream of node {0} speaks about node {1}")]
    Foreign(String, String),
    /// It was silent for so long that what it had introduced is forgotten.
    #[error("the stream of node {0} was silent for too long: what it introduced is forgotten")]
    Forgotten(String),
    /// No room for more tasks.
    #[error("this collector already holds {0} tasks: raise limits.max_tasks or add collectors")]
    Full(usize),
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// Its stream is not current: nothing was done, nothing is answered.
    Void,
    /// It is acknowledged.
    Acked {
        /// The answer.
        ack: Ack,
        /// How many task samples it renewed; 0 for a repeat.
        n_samples: usize,
        /// It had been stored before: a repeat.
        repeat: bool,
        /// The sender has another ring: ask discovery at once.
        other_ring: bool,
    },
}
