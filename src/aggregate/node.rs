//! What a collector knows of one node: its current stream, and the entries that came over it.

use super::history::{History, Rounds};
use crate::codec::{Layout, Packed};
use crate::message::{Handle, Hello};
use crate::model::{Counts, Millis, Nanos, NodeMeta, RingId, RowMeta, ServiceId, TaskMeta, Values, Version};
use crate::rules::{Rule, holds};
use crate::view::Previous;
use std::collections::BTreeSet;
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
    /// Dropped: others have it by now, only its older points may still be asked for.
    pub(super) dropped: bool,
    /// Told to be its primary owner, on the current stream.
    pub(super) primary: bool,
    /// Of the few whose newest reading is not of their node's newest round: which it is.
    pub(super) apart: Option<Box<Apart>>,
}

/// How new an entry is that is unread, aged or not live.
#[derive(Debug, Clone, Default)]
pub(super) struct Apart {
    /// It could not be read in the newest round: the age of its newest reading then.
    pub(super) unread: Option<Millis>,
    /// How long before the newest round its newest reading was, where that still counts.
    pub(super) aged: Nanos,
    /// While not live: how new the values are, and the own clock's moment they are known to be from.
    pub(super) version: Version,
    pub(super) as_of: Nanos,
    /// The shipper's clock at the newest reading.
    pub(super) read: Nanos,
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) meta: Arc<TaskMeta>,
    pub(super) hold: Hold,
    /// The newest reading, and the one before the last change, which is valid for the round `changed`.
    pub(super) readings: Packed,
    /// The round of the last change.
    pub(super) changed: u64,
    pub(super) history: History,
}

impl Task {
    /// No longer live: see [`Hold::leave`].
    pub(super) fn leave(&mut self, node: &Node) {
        if self.hold.live {
            self.history.stops(&node.rounds, node.monotonic + 1);
        }
        self.hold.leave(node);
    }
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) meta: Arc<RowMeta>,
    pub(super) hold: Hold,
    pub(super) values: Values,
    pub(super) counts: Counts,
}

/// The machine's own figures, which come with its row.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) values: Values,
    /// The reading before the last change; valid for the round `changed`.
    before: Option<Previous>,
    /// The round of the last change.
    changed: u64,
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
    /// The shipper's ring, as last told.
    pub(super) ring_id: RingId,
    pub(super) lease: Nanos,
    pub(super) interval: Nanos,
    /// The time between its rounds: the interval, or longer by advice.
    pub(super) pace: Nanos,
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
    /// The rounds that this process was told of.
    pub(super) rounds: Rounds,
    /// Batches of the current epoch.
    pub(super) stored: u64,
    pub(super) exposed: u64,
    /// The last batch that a scrape had, and the series it showed a first 0 of alone.
    pub(super) scraped: u64,
    pub(super) held: Vec<(ServiceId, u64)>,
    /// The node's own row, if this process has it.
    pub(super) meta: Option<Arc<NodeMeta>>,
    pub(super) hold: Hold,
    pub(super) machine: Machine,
    pub(super) tasks: BTreeSet<usize>,
    pub(super) rows: BTreeSet<usize>,
    /// What was not read in the newest round.
    pub(super) late: Vec<Handle>,
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
            ring_id: RingId::default(),
            lease: 0,
            interval: 0,
            pace: 0,
            layout: Layout::of_mask(0),
            handles: Vec::new(),
            chain: 0,
            token: None,
            arrived: 0,
            sent_after: 0,
            version: Version::default(),
            monotonic: 0,
            previous: 0,
            rounds: Rounds::default(),
            stored: 0,
            exposed: 0,
            scraped: 0,
            held: Vec::new(),
            meta: None,
            hold: Hold::default(),
            machine: Machine::default(),
            tasks: BTreeSet::new(),
            rows: BTreeSet::new(),
            late: Vec::new(),
            heard: 0,
        }
    }

    /// The row is introduced in round `q`. Under another handle than before the baselines start from nothing, but
    /// rates go on from the newest reading.
    pub(super) fn introduce(&mut self, meta: &Arc<NodeMeta>, handle: Handle, q: u64) {
        self.meta = Some(meta.clone());
        if self.hold.handle != Some(handle) {
            if q > self.version_of(&self.hold).q {
                self.machine.before = Previous::of(self.read_at(&self.hold), &self.machine.values);
            }
            self.machine.values = Values::default();
        }
    }

    /// What an entry under a handle builds on: a row that is introduced again under its own keeps its figures.
    pub(super) fn figures(&self, handle: Handle) -> Option<&Values> {
        (self.place(handle) == Some(Ref::Node)).then_some(&self.machine.values)
    }

    /// New figures of the machine, in round `q`.
    pub(super) fn change(&mut self, values: &Values, q: u64) {
        if q > self.machine.changed {
            if !self.machine.values.is_empty() {
                self.machine.before = Previous::of(self.read_at(&self.hold), &self.machine.values);
            }
            self.machine.changed = q;
        }
        self.machine.values.clone_from(values);
    }

    /// The reading before the newest.
    pub(super) fn machine_before(&self) -> Option<Previous> {
        if !self.hold.live {
            None
        } else if self.machine.changed == self.version.q {
            self.machine.before.clone()
        } else {
            // Nothing changed in the newest round, so the round before had the same.
            Previous::of(self.previous, &self.machine.values).filter(|_| self.previous > 0)
        }
    }

    /// Makes a stream current (LEDGER 4); the caller has ended the one before.
    pub(super) fn begin(&mut self, hello: &Hello, layout: Layout, now: Nanos) {
        if hello.epoch > self.epoch {
            (self.stored, self.exposed, self.scraped) = (0, 0, 0);
            self.held.clear();
        }
        (self.epoch, self.k, self.nonce, self.open) = (hello.epoch, hello.k, hello.nonce, true);
        (self.lease, self.interval) = (nanos(hello.lease), nanos(hello.interval));
        (self.pace, self.ring_id) = (self.interval, hello.ring_id);
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
        let bound = self.pace.saturating_mul(3).saturating_add(max_round_trip);
        hold.live && !hold.is_unread() && now.saturating_sub(self.as_of(hold)) <= bound
    }

    /// LEDGER 14: told to be primary on the current stream, within the lease of the newest echoed token.
    pub(super) fn emits(&self, hold: &Hold, now: Nanos) -> bool {
        let since = if holds(Rule::EchoedToken) { self.token } else { Some(self.arrived) };
        hold.primary && hold.live && since.is_some_and(|since| now < since.saturating_add(self.lease))
    }

    /// LEDGER 20: stated age + time since arrival while fresh, else + time since the echoed token.
    pub(super) fn age(&self, hold: &Hold, fresh: bool, now: Nanos) -> Millis {
        let since = match fresh {
            true => self.arrived.saturating_sub(self.sent_after.saturating_add(hold.aged())),
            false => self.as_of(hold),
        };
        now.saturating_sub(since) / 1_000_000
    }

    pub(super) fn version_of(&self, hold: &Hold) -> Version {
        if hold.live { self.version } else { hold.apart.as_ref().map_or_else(Version::default, |apart| apart.version) }
    }

    /// The shipper's clock at an entry's newest reading.
    pub(super) fn read_at(&self, hold: &Hold) -> Nanos {
        match &hold.apart {
            Some(apart) => apart.read,
            None if hold.live => self.monotonic,
            None => 0,
        }
    }

    /// The own clock's moment that an entry's values are known to be from, or newer: the batch was made after the token
    /// it echoes was sent, and says how old its values were then.
    fn as_of(&self, hold: &Hold) -> Nanos {
        if !hold.live {
            return hold.as_of();
        }
        let late = hold.apart.as_ref().map_or(0, |apart| nanos(apart.unread.unwrap_or(0)).saturating_add(apart.aged));
        let stated = self.sent_after.saturating_add(late);
        self.token.unwrap_or(0).saturating_sub(stated)
    }
}

impl Hold {
    /// It could not be read in the newest round.
    pub(super) fn is_unread(&self) -> bool {
        self.apart.as_ref().is_some_and(|apart| apart.unread.is_some())
    }

    /// How long before the newest round its newest reading was, where that still counts.
    pub(super) fn aged(&self) -> Nanos {
        self.apart.as_ref().map_or(0, |apart| apart.aged)
    }

    /// While not live: the own clock's moment that its values are known to be from.
    pub(super) fn as_of(&self) -> Nanos {
        self.apart.as_ref().map_or(0, |apart| apart.as_of)
    }

    /// No longer live: its values are as new as the node's newest batch before this moment.
    pub(super) fn leave(&mut self, node: &Node) {
        if self.live {
            let (version, as_of, read) = (node.version, node.as_of(self), node.read_at(self));
            self.apart = Some(Box::new(Apart { version, as_of, read, ..Apart::default() }));
        }
        (self.live, self.primary) = (false, false);
    }
}

pub(super) fn nanos(millis: Millis) -> Nanos {
    millis.saturating_mul(1_000_000)
}
