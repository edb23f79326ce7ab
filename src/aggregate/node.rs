//! What a collector knows of one node: its current stream, and the entries that came over it.

use crate::codec::Layout;
use crate::message::{Handle, Hello};
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
    /// Its handle on the current stream; there `Node::handles` names this entry and no other.
    pub(super) handle: Option<Handle>,
    /// Introduced on the current stream and neither moved nor over since.
    pub(super) live: bool,
    /// Told to be its primary owner, on the current stream.
    pub(super) primary: bool,
    /// It could not be read in the newest round: the age of its newest reading then.
    pub(super) unread: Option<Millis>,
    /// While not live: how new the values are, and the own clock's moment they are known to be from.
    pub(super) version: Version,
    pub(super) as_of: Nanos,
    /// While unread or not live: the shipper's clock at the newest reading.
    pub(super) read: Nanos,
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
    /// Of the shipper process that has this epoch.
    pub(super) nonce: u64,
    /// Its connection stands, and its entries were not forgotten.
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
    pub(super) unread: Vec<Handle>,
    /// When anything was last heard.
    pub(super) heard: Nanos,
}

impl Node {
    pub(super) fn new() -> Node {
        Node {
            epoch: 0,
            k: 0,
            nonce: 0,
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

    /// Makes a stream current (LEDGER 4); the caller has ended the one before.
    pub(super) fn begin(&mut self, hello: &Hello, layout: Layout, now: Nanos) {
        if hello.epoch > self.epoch {
            (self.stored, self.exposed) = (0, 0);
        }
        (self.epoch, self.k, self.nonce, self.open) = (hello.epoch, hello.k, hello.nonce, true);
        (self.lease, self.interval) = (nanos(hello.lease), nanos(hello.interval));
        (self.layout, self.chain, self.token) = (layout, hello.k, None);
        self.heard = now;
    }

    /// What a handle of the current stream stands for.
    pub(super) fn place(&self, handle: Handle) -> Option<Ref> {
        self.handles.get(handle as usize).copied().flatten()
    }

    /// A handle means nothing from here on.
    pub(super) fn unbind(&mut self, handle: Option<Handle>) -> Option<Ref> {
        self.handles.get_mut(handle? as usize)?.take()
    }

    /// For how long nothing proved that the shipper lives.
    pub(super) fn silent(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.token.unwrap_or(self.heard))
    }

    /// LEDGER 20: live on the stream, not unread, and not older than the bound. Arrival proves nothing.
    pub(super) fn fresh(&self, hold: &Hold, now: Nanos, max_round_trip: Nanos) -> bool {
        let bound = self.interval.saturating_mul(3).saturating_add(max_round_trip);
        hold.live && hold.unread.is_none() && now.saturating_sub(self.as_of(hold)) <= bound
    }

    /// LEDGER 14: told to be primary on the current stream, within the lease of the newest echoed token.
    pub(super) fn emits(&self, hold: &Hold, now: Nanos) -> bool {
        hold.primary && hold.live && self.token.is_some_and(|token| now < token.saturating_add(self.lease))
    }

    /// LEDGER 20: stated age + time since arrival while fresh, else + time since the echoed token.
    pub(super) fn age(&self, hold: &Hold, fresh: bool, now: Nanos) -> Millis {
        let since = match fresh {
            true => self.arrived.saturating_sub(self.sent_after),
            false => self.as_of(hold),
        };
        now.saturating_sub(since) / 1_000_000
    }

    pub(super) fn version_of(&self, hold: &Hold) -> Version {
        if hold.live { self.version } else { hold.version }
    }

    /// The shipper's clock at an entry's newest reading.
    pub(super) fn read_at(&self, hold: &Hold) -> Nanos {
        if hold.live && hold.unread.is_none() { self.monotonic } else { hold.read }
    }

    /// The own clock's moment that an entry's values are known to be from, or newer: the batch was made after the token
    /// it echoes was sent, and says how old its values were then.
    fn as_of(&self, hold: &Hold) -> Nanos {
        if !hold.live {
            return hold.as_of;
        }
        let stated = self.sent_after.saturating_add(nanos(hold.unread.unwrap_or(0)));
        self.token.unwrap_or(0).saturating_sub(stated)
    }
}

impl Hold {
    /// No longer live: its values are as new as the node's newest batch before this moment.
    pub(super) fn leave(&mut self, node: &Node) {
        if self.live {
            (self.version, self.as_of, self.read) = (node.version, node.as_of(self), node.read_at(self));
        }
        (self.live, self.primary, self.unread) = (false, false, None);
    }
}

fn nanos(millis: Millis) -> Nanos {
    millis.saturating_mul(1_000_000)
}
