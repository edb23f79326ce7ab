//! What a shipper and a collector process say to each other, in the core's own words (LEDGER.md, rules 4–7).
//!
//! `wire` translates these to and from protobuf; the simulation passes them through that same translation.

use crate::model::{Gen, Millis, Nanos, NodeId, RingId, ServiceId, Subject, TaskId, Values};
use std::sync::Arc;

/// A key's short name on one stream.
pub type Handle = u32;

/// Version of the key hash and of the shard table; differing ones are refused loudly.
pub const HASH_VERSION: u32 = 1;

/// Opens a stream: who is sending, and how its batches are to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The node this stream speaks for, and no other.
    pub node_id: NodeId,
    /// Its name.
    pub node_name: Arc<str>,
    /// The shipper's epoch (LEDGER 2).
    pub epoch: u64,
    /// The stream's number: rises with each stream of this shipper, never reused.
    pub k: u64,
    /// L, how long a role outlives the newest echoed token.
    pub lease: Millis,
    /// The shipper's sampling interval.
    pub interval: Millis,
    /// The sender's stat numbers in the order of the positions that blocks use.
    pub stats: Vec<u32>,
    /// The sender's ring.
    pub ring_id: RingId,
    /// Of this shipper process.
    pub nonce: u64,
    /// The sender's R.
    pub replicas: u32,
    /// The sender's [`HASH_VERSION`].
    pub hash_version: u32,
}

/// A process's answer to a [`Hello`] it accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hi {
    /// The process.
    pub gen_: Gen,
    /// The last batch it stored for (node, epoch).
    pub stored: u64,
    /// The last batch whose amounts a scrape has shown.
    pub exposed: u64,
    /// Its own clock.
    pub token: Nanos,
    /// It wants to leave.
    pub draining: bool,
    /// Its ring.
    pub ring_id: RingId,
}

/// A stream that is not accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The highest epoch the process knows of this node: a new one must be above it.
    pub highest_epoch: u64,
    /// For people.
    pub reason: String,
}

/// "Batch n is stored."
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The batch answered.
    pub n: u64,
    /// As in [`Hi`].
    pub exposed: u64,
    /// As in [`Hi`].
    pub token: Nanos,
    /// As in [`Hi`].
    pub draining: bool,
    /// As in [`Hi`].
    pub ring_id: RingId,
    /// Advice: send no faster than this; 0 is none.
    pub advised_interval: Millis,
}

/// The process leaves; no scrape is answered after this.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bye {
    /// As in [`Hi`].
    pub exposed: u64,
    /// The last batch whose amounts the last scrape showed, but for those of `held`; where nothing is held, `exposed`.
    pub scraped: u64,
    /// Series (a presence mask of a service's stats) that the last scrape did not show the amounts of: their 0 came first.
    pub held: Vec<(ServiceId, u64)>,
}

/// Either answer to a [`Hello`].
pub type Greeting = Result<Hi, Refused>;

/// A key introduced on this stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intro {
    /// Its short name from here on.
    pub handle: Handle,
    /// The key with everything that is text.
    pub subject: Subject,
}

/// A key that could not be read in the round of this batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unread {
    /// Which.
    pub handle: Handle,
    /// How old its newest reading is.
    pub age: Millis,
}

/// A key whose values were read before the round of this batch, and still count: the engine is asked beside the rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aged {
    /// Which.
    pub handle: Handle,
    /// How long before the round it was read: exact, for rates are made with it.
    pub age: Nanos,
}

/// What changed since the last batch of this stream; the first is the full picture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// The stream.
    pub k: u64,
    /// The batch's number: rises, never reused within an epoch.
    pub n: u64,
    /// The sample round its values are of.
    pub q: u64,
    /// The shipper's monotonic clock when that round was read.
    pub monotonic: Nanos,
    /// How long after that reading the batch was made.
    pub sent_after: Nanos,
    /// The time between rounds where it is another one than Hello's; else 0.
    pub interval: Millis,
    /// The newest token received on this stream.
    pub token: Nanos,
    /// The sender's ring.
    pub ring_id: RingId,
    /// Check of the baselines this batch builds on.
    pub base: u64,
    /// New keys.
    pub intros: Vec<Intro>,
    /// Changed entries, in the form of `codec`.
    pub block: Vec<u8>,
    /// Keys now sent to another owner: readable here, but stale at once.
    pub moved: Vec<Handle>,
    /// Keys that are over.
    pub ended: Vec<Handle>,
    /// Keys the process may forget: their new owner has them.
    pub drop: Vec<Handle>,
    /// Keys that could not be read this round.
    pub unread: Vec<Unread>,
    /// Keys read before this round.
    pub aged: Vec<Aged>,
}

/// Older points of tasks of one node, from a process that leaves to one that has the tasks from then on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bequest {
    /// The node.
    pub node_id: NodeId,
    /// The epoch of its shipper that all of this is of.
    pub epoch: u64,
    /// The rounds in which the node was read, on its shipper's clock, oldest first.
    pub rounds: Vec<Nanos>,
    /// What was read of its tasks.
    pub tasks: Vec<BequeathedTask>,
}

/// What was read of a task, along the rounds of its node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BequeathedTask {
    /// The task.
    pub task_id: TaskId,
    /// With the next: its incarnation.
    pub container_id: Arc<str>,
    /// When that started, on the node's wall clock.
    pub started_at: Millis,
    /// Oldest first.
    pub runs: Vec<Run>,
}

/// What was read from a round on, until the next run begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// That round.
    pub from: Nanos,
    /// When it was read: in that round, or before it where the engine is asked beside the rounds.
    pub read_at: Nanos,
    /// What points show of it; `None`: it was not read.
    pub values: Option<Values>,
}
