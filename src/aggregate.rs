//! What a collector knows: the newest sample of each task and row it was sent, and its ledger.
//!
//! LEDGER.md rules 4–9, 13–14 and 19–20 from the process's side. Invariants:
//!
//! * it needs no ring: any sample of a current stream is accepted, whoever owns the key;
//! * a batch is applied whole or not at all, and at most once;
//! * newest version wins; counters of the ledger never fall while the process lives;
//! * everything is bounded, and what is over goes after a bounded time.
//!
//! Pure: the clock is the process's own (CLOCK_BOOTTIME), passed in. Figures of groups are made by readers
//! (`figures`), not here: nothing unmergeable leaves a process.

mod bequest;
mod history;
mod hold;
mod ledger;
mod node;
mod outcome;
mod scrape;
mod store;

pub use outcome::{BatchError, Stored};
pub use scrape::{Mark, Scrape, ScrapedNode, ScrapedService, ScrapedTask};

use crate::codec::{Decoded, Layout, Packed};
use crate::message::{Ack, Bye, HASH_VERSION, Hello, Hi, Refused};
use crate::model::{Gen, MemberId, Nanos, NodeId, RingId, ServiceId, TaskId, TaskMeta, Values};
use ledger::Ledger;
use node::{Hold, Node, Row, Task};
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What the aggregate must know of its process.
#[derive(Clone, Debug)]
pub struct AggregateConfig {
    /// The member's identity.
    pub member: MemberId,
    /// This process of it.
    pub gen_: Gen,
    /// R; a shipper with another is refused.
    pub replicas: u32,
    /// How many rounds back points are kept.
    pub points: usize,
    /// How long an ended task's last figures are kept.
    pub ended_keep: Nanos,
    /// How long a task that is not live any more is kept.
    pub stale_keep: Nanos,
    /// How long rows and ledger series outlive their last sign of life.
    pub row_keep: Nanos,
    /// The worst round trip that still counts as fresh.
    pub max_round_trip: Nanos,
    /// The most tasks held.
    pub max_tasks: usize,
    /// The most nodes held.
    pub max_nodes: usize,
}

/// A stream of batches, as its Hello named it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamId {
    /// The node it speaks for.
    pub node: NodeId,
    /// The shipper's epoch.
    pub epoch: u64,
    /// The stream's number.
    pub k: u64,
}

impl StreamId {
    /// The stream that a Hello opens.
    pub fn of(hello: &Hello) -> StreamId {
        StreamId { node: hello.node_id.clone(), epoch: hello.epoch, k: hello.k }
    }
}

/// Why a Hello is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Its (epoch, k) is not newer than what is known: the shipper takes a new epoch.
    #[error("{}", .0.reason)]
    Old(Refused),
    /// The two cannot work together.
    #[error("{0}")]
    Incompatible(String),
    /// No room for another node.
    #[error("this collector already holds {0} nodes: raise limits.max_nodes or add collectors")]
    Full(usize),
}

/// How much is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes.
    pub nodes: usize,
    /// Tasks, live or stale.
    pub tasks: usize,
    /// Rows.
    pub rows: usize,
    /// Ended tasks remembered.
    pub ended: usize,
    /// Services in the ledger.
    pub ledger: usize,
    /// Services, names and stacks in the indexes.
    pub index: usize,
}

#[derive(Debug)]
struct EndedTask {
    meta: Arc<TaskMeta>,
    readings: Packed,
    version: crate::model::Version,
    at: Nanos,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Aggregate {
    cfg: AggregateConfig,
    ring_id: RingId,
    draining: bool,
    nodes: BTreeMap<NodeId, Node>,
    tasks: Slab<Task>,
    rows: Slab<Row>,
    by_task: BTreeMap<TaskId, usize>,
    by_service: BTreeMap<ServiceId, BTreeSet<usize>>,
    by_row: BTreeMap<(ServiceId, NodeId), usize>,
    ended: VecDeque<EndedTask>,
    ledger: Ledger,
    decoded: Decoded,
    /// When amounts were last scraped, or first handed over.
    scraped: Nanos,
    began: Nanos,
    /// When a newer epoch last voided tasks that its first batch did not bring again.
    forgot: Option<Nanos>,
}

impl Aggregate {
    /// An empty aggregate of a process that starts now.
    pub fn new(cfg: AggregateConfig, ring_id: RingId, now: Nanos) -> Aggregate {
        Aggregate {
            cfg,
            ring_id,
            draining: false,
            nodes: BTreeMap::new(),
            tasks: Slab::new(),
            rows: Slab::new(),
            by_task: BTreeMap::new(),
            by_service: BTreeMap::new(),
            by_row: BTreeMap::new(),
            ended: VecDeque::new(),
            ledger: Ledger::default(),
            decoded: Decoded::default(),
            scraped: now,
            began: now,
            forgot: None,
        }
    }

    /// The ring this process sees; said in every answer.
    pub fn set_ring_id(&mut self, ring_id: RingId) {
        self.ring_id = ring_id;
    }

    /// This process wants to leave; said in every answer.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Opens a stream (LEDGER 4), voiding older ones of the node. `now` becomes the first token.
    pub fn hello(&mut self, hello: &Hello, now: Nanos) -> Result<Hi, HelloError> {
        if hello.hash_version != HASH_VERSION || hello.replicas != self.cfg.replicas {
            return Err(HelloError::Incompatible(format!(
                "the shipper of node {} has replicas {} and hash version {}, member {} has {} and {HASH_VERSION}: \
                 give all processes the same `replicas` and version",
                hello.node_name, hello.replicas, hello.hash_version, self.cfg.member, self.cfg.replicas
            )));
        }
        let layout = Layout::of_numbers(&hello.stats).ok_or_else(|| {
            HelloError::Incompatible(format!("the hello of node {} lists a stat twice or too many", hello.node_name))
        })?;
        if !self.nodes.contains_key(&hello.node_id) && self.nodes.len() >= self.cfg.max_nodes {
            return Err(HelloError::Full(self.nodes.len()));
        }
        let node = self.nodes.entry(hello.node_id.clone()).or_insert_with(Node::new);
        let another = hello.epoch == node.epoch && hello.nonce != node.nonce;
        if another || (hello.epoch, hello.k) <= (node.epoch, node.k) {
            return Err(HelloError::Old(Refused {
                highest_epoch: node.epoch,
                reason: format!(
                    "node {} already has stream ({}, {}): is a second shipper running there?",
                    hello.node_name, node.epoch, node.k
                ),
            }));
        }
        end_stream(node, &mut self.tasks, &mut self.rows);
        node.begin(hello, layout, now);
        Ok(Hi {
            gen_: self.cfg.gen_,
            stored: node.stored,
            exposed: node.exposed,
            token: now,
            draining: self.draining,
            ring_id: self.ring_id,
        })
    }

    /// A stream's connection ended. Its keys stay as they are until their token is too old.
    pub fn closed(&mut self, stream: &StreamId) {
        if let Some(node) =
            self.nodes.get_mut(&stream.node).filter(|node| (node.epoch, node.k) == (stream.epoch, stream.k))
        {
            node.open = false;
        }
    }

    /// The shippers with a stream here that see another ring.
    pub fn elsewhere(&self) -> usize {
        self.nodes.values().filter(|node| node.open && node.ring_id.contradicts(self.ring_id)).count()
    }

    /// What is said of a stream's batches so far, in answer to each of them.
    fn ack(&self, node: &Node, n: u64, now: Nanos) -> Ack {
        Ack {
            n,
            exposed: node.exposed,
            token: now,
            draining: self.draining,
            ring_id: self.ring_id,
            advised_interval: 0,
        }
    }

    /// What of this node (and epoch) was scraped, to be said when no scrape is answered any more.
    pub fn bye(&self, stream: &StreamId) -> Bye {
        let node = self.nodes.get(&stream.node).filter(|node| node.epoch == stream.epoch);
        node.map(|node| Bye { exposed: node.exposed, scraped: node.scraped, held: node.held.clone() })
            .unwrap_or_default()
    }

    /// Forgets what is over for long enough. Call it every few seconds.
    pub fn expire(&mut self, now: Nanos) {
        let since = |at: Nanos| now.saturating_sub(at);
        let (stale, keep) = (self.cfg.stale_keep, self.cfg.row_keep);
        while self.ended.front().is_some_and(|ended| since(ended.at) >= self.cfg.ended_keep) {
            self.ended.pop_front();
        }
        let (mut tasks, mut rows) = (Vec::new(), Vec::new());
        for node in self.nodes.values_mut() {
            if node.silent(now) >= stale {
                end_stream(node, &mut self.tasks, &mut self.rows);
                node.open = false;
            }
            // What a stream may still speak about is its shipper's to end or drop.
            let old = |hold: &Hold, keep| hold.handle.is_none() && since(hold.as_of()) >= keep;
            // A dropped task is kept for as long as its successor's history may not reach back far enough.
            let points = node.interval.saturating_mul(self.cfg.points as u64 + 1).min(stale);
            let keep_task = |hold: &Hold| if hold.dropped { points } else { stale };
            let old_task = |at: &usize| old(&self.tasks[*at].hold, keep_task(&self.tasks[*at].hold));
            tasks.extend(node.tasks.iter().copied().filter(old_task));
            rows.extend(node.rows.iter().copied().filter(|at| old(&self.rows[*at].hold, keep)));
        }
        tasks.into_iter().for_each(|at| self.remove_task(at));
        rows.into_iter().for_each(|at| self.remove_row(at));
        self.nodes.retain(|_, node| !node.tasks.is_empty() || !node.rows.is_empty() || node.silent(now) < keep);
        for (service, _) in self.by_row.keys() {
            self.ledger.touch(service, now);
        }
        self.ledger.expire(now, keep);
    }

    /// How much is held.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            nodes: self.nodes.len(),
            tasks: self.tasks.len(),
            rows: self.rows.len(),
            ended: self.ended.len(),
            ledger: self.ledger.len(),
            index: self.by_task.len() + self.by_service.len() + self.by_row.len(),
        }
    }

    /// Tasks that a shipper tells this process of: without those that are kept for their points or for readers alone.
    pub fn live_tasks(&self) -> usize {
        let handles = self.nodes.values().flat_map(|node| &node.handles);
        handles.filter(|place| matches!(place, Some(node::Ref::Task(_)))).count()
    }

    /// Everything the ledger was handed, shown or not, by service.
    pub fn ledger(&self) -> BTreeMap<ServiceId, Values> {
        self.ledger.totals()
    }

    /// For how long nobody scraped: amounts unscraped for `max_catch_up` are forgotten by shippers.
    pub fn unscraped_for(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.scraped)
    }

    fn remove_task(&mut self, at: usize) {
        let Some(task) = self.tasks.try_remove(at) else { return };
        self.by_task.remove(&task.meta.task_id);
        if let Some(of_service) = self.by_service.get_mut(&task.meta.service_id) {
            of_service.remove(&at);
            if of_service.is_empty() {
                self.by_service.remove(&task.meta.service_id);
            }
        }
        if let Some(node) = self.nodes.get_mut(&task.meta.node_id) {
            node.tasks.remove(&at);
            node.unbind(task.hold.handle);
        }
    }

    fn remove_row(&mut self, at: usize) {
        let Some(row) = self.rows.try_remove(at) else { return };
        self.by_row.remove(&(row.meta.service_id.clone(), row.meta.node_id.clone()));
        if let Some(node) = self.nodes.get_mut(&row.meta.node_id) {
            node.rows.remove(&at);
            node.unbind(row.hold.handle);
        }
    }
}

/// Nothing is live on a node's stream any more, and its handles mean nothing.
fn end_stream(node: &mut Node, tasks: &mut Slab<Task>, rows: &mut Slab<Row>) {
    let mut own = std::mem::take(&mut node.hold);
    let leave = |hold: &mut Hold| {
        hold.leave(node);
        hold.handle = None;
    };
    for at in &node.tasks {
        tasks[*at].leave(node);
        tasks[*at].hold.handle = None;
    }
    node.rows.iter().for_each(|at| leave(&mut rows[*at].hold));
    leave(&mut own);
    node.hold = own;
    (node.handles, node.late) = (Vec::new(), Vec::new());
}
