//! What a collector knows of one node: its current stream, and the entries that came over it.

use crate::codec::Layout;
use crate::message::Hello;
use crate::model::{Counts, Millis, Nanos, NodeMeta, RowMeta, TaskMeta, Values, Version};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// What a handle of the stream stands for: places in the collector's slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ref {
    Task(usize),
    Row(usize),
    Node,
}

/// How an entry is held, whatever it is.
#[derive(Debug, Clone, Default)]
pub(super) struct Hold {
    /// Its handle on the current stream while it is live there.
    pub(super) live: Option<u32>,
    /// Told to be its primary owner, on the current stream.
    pub(super) primary: bool,
    /// It could not be read in the newest round: the age of its newest reading then.
    pub(super) unread: Option<Millis>,
    /// While not live: how new the values are, and the own clock's moment they are known to be from.
    pub(super) version: Version,
    pub(super) as_of: Nanos,
}

/// A compact older point: the stats of level `docker`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dot {
    pub(super) monotonic: Nanos,
    pub(super) present: u64,
    pub(super) values: [u64; super::N_POINT],
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) meta: Arc<TaskMeta>,
    pub(super) hold: Hold,
    pub(super) values: Values,
    /// Clock and CPU time of the reading before the last change; valid for the round `changed`.
    pub(super) previous: Option<(Nanos, u64)>,
    /// The round of the last change.
    pub(super) changed: u64,
    /// The shipper's clock at the newest reading, kept while unread or not live.
    pub(super) read: Nanos,
    pub(super) points: VecDeque<Dot>,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) meta: Arc<RowMeta>,
    pub(super) hold: Hold,
    pub(super) values: Values,
    pub(super) counts: Counts,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Node {
    /// The current stream; older ones are void.
    pub(super) epoch: u64,
    pub(super) k: u64,
    pub(super) open: bool,
    pub(super) lease: Nanos,
    pub(super) interval: Nanos,
    pub(super) layout: Layout,
    pub(super) handles: Vec<Option<Ref>>,
    pub(super) chain: u64,
    /// The newest own clock echoed on this stream.
    pub(super) token: Option<Nanos>,
    /// Of the newest batch: own clock at its arrival, and how old its values were when sent.
    pub(super) arrived: Nanos,
    pub(super) sent_after: Nanos,
    /// Of the newest batch and the round before.
    pub(super) version: Version,
    pub(super) monotonic: Nanos,
    pub(super) previous: Nanos,
    /// Batches of the current epoch.
    pub(super) stored: u64,
    pub(super) exposed: u64,
    /// The node's own row, if this process has it.
    pub(super) meta: Option<Arc<NodeMeta>>,
    pub(super) hold: Hold,
    pub(super) tasks: BTreeSet<usize>,
    pub(super) rows: BTreeSet<usize>,
    pub(super) unread: Vec<Ref>,
    /// When anything was last heard.
    pub(super) heard: Nanos,
}

impl Node {
    pub(super) fn new() -> Node {
        Node {
            epoch: 0,
            k: 0,
            open: false,
            lease: 0,
            interval: 0,
            layout: Layout::of_mask(0),
            handles: Vec::new(),
            chain: 0,
            token: None,
            arrived: 0,
            sent_after: 0,
            version: Version::default(),
            monotonic: 0,
            previous: 0,
            stored: 0,
            exposed: 0,
            meta: None,
            hold: Hold::default(),
            tasks: BTreeSet::new(),
            rows: BTreeSet::new(),
            unread: Vec::new(),
            heard: 0,
        }
    }

    /// Makes a stream current (LEDGER 4); the caller has cleared the live set.
    pub(super) fn begin(&mut self, hello: &Hello, layout: Layout, now: Nanos) {
        if hello.epoch > self.epoch {
            (self.stored, self.exposed) = (0, 0);
        }
        (self.epoch, self.k, self.open) = (hello.epoch, hello.k, true);
        (self.lease, self.interval) = (hello.lease * 1_000_000, hello.interval * 1_000_000);
        (self.layout, self.chain, self.token) = (layout, hello.k, None);
        (self.handles, self.unread) = (Vec::new(), Vec::new());
        self.heard = now;
    }

    /// LEDGER 20: live on the stream, not unread, and its echoed token not too old. Arrival proves nothing.
    pub(super) fn fresh(&self, hold: &Hold, now: Nanos, max_round_trip: Nanos) -> bool {
        let bound = 3 * self.interval + max_round_trip;
        hold.live.is_some()
            && hold.unread.is_none()
            && self.token.is_some_and(|token| now.saturating_sub(token) <= bound)
    }

    /// LEDGER 14: told to be primary on the current stream, within the lease of the newest echoed token.
    pub(super) fn emits(&self, hold: &Hold, now: Nanos) -> bool {
        hold.primary && hold.live.is_some() && self.token.is_some_and(|token| now < token.saturating_add(self.lease))
    }

    /// LEDGER 20: stated age + time since arrival while fresh, else + time since the echoed token.
    pub(super) fn age(&self, hold: &Hold, fresh: bool, now: Nanos) -> Millis {
        let stated = self.sent_after + hold.unread.unwrap_or(0) * 1_000_000;
        let since = match hold.live {
            None => hold.as_of,
            Some(_) if fresh => self.arrived,
            Some(_) => self.token.unwrap_or(self.arrived),
        };
        (stated + now.saturating_sub(since)) / 1_000_000
    }

    pub(super) fn version_of(&self, hold: &Hold) -> Version {
        if hold.live.is_some() { self.version } else { hold.version }
    }
}

impl Hold {
    /// No longer live: its values are as new as the node's newest batch before this moment.
    pub(super) fn leave(&mut self, version: Version, as_of: Nanos) {
        if self.live.take().is_some() {
            (self.version, self.as_of) = (version, as_of);
        }
        (self.primary, self.unread) = (false, None);
    }
}
