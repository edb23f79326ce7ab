//! What a shipper still owes: newest sample per task, the node's rows, and per process the amounts on their way.
//!
//! LEDGER.md rules 1–11, 13 and 19–20 from the shipper's side, for R owners of which the first is primary (the lease of
//! rules 14–18 is not here yet). Invariants:
//!
//! * a map, not a queue: memory is bounded by the node's tasks, and a change of the ring only re-reads the map;
//! * at most one batch in flight a stream, numbers `n` and `k` never reused;
//! * an increment is in exactly one place: a row's pool, a process's `out`, its `unexposed`, or dropped and counted.
//!
//! Pure: the clock is the shipper's monotonic one, passed in. It deliberately does no I/O and picks no addresses.

mod amounts;
mod hold;
mod peer;
mod rows;

use crate::codec::Layout;
use crate::message::{Ack, Batch, Bye, Greeting, HASH_VERSION, Hello};
use crate::model::{MemberId, Millis, Nanos, NodeId, RingId, RowMeta, TaskMeta, Values, Version};
use crate::shard::Ring;
use peer::Peer;
use rows::Books;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the outbox must know of its shipper.
#[derive(Clone, Debug)]
pub struct OutboxConfig {
    /// The node it speaks for.
    pub node_id: NodeId,
    /// Its name.
    pub node_name: Arc<str>,
    /// When the shipper started, wall clock.
    pub started: Millis,
    /// When the shipper started, monotonic clock.
    pub started_monotonic: Nanos,
    /// Of this process.
    pub nonce: u64,
    /// The stats carried, a presence mask.
    pub stats: u64,
    /// The sampling interval.
    pub interval: Nanos,
    /// L, `takeover_after`.
    pub lease: Nanos,
    /// How long a row outlives its last running task.
    pub row_keep: Nanos,
    /// Amounts older than this are dropped and counted.
    pub max_catch_up: Nanos,
}

/// One task's reading in a round.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Which task and incarnation.
    pub meta: Arc<TaskMeta>,
    /// Its figures, or `None` where it could not be read.
    pub values: Option<Values>,
}

/// A task that is over.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Which task and incarnation.
    pub meta: Arc<TaskMeta>,
    /// The last reading, if one could still be made.
    pub values: Option<Values>,
}

/// A row for the shipper's own exposition.
#[derive(Clone, Debug)]
pub struct RowFigures {
    /// Its texts.
    pub meta: Arc<RowMeta>,
    /// Totals and gauge sums.
    pub values: Values,
    /// Tasks read in the newest round.
    pub fresh: u64,
}

/// How much the outbox holds and gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxSizes {
    /// Running tasks.
    pub tasks: usize,
    /// Rows.
    pub rows: usize,
    /// Peers that something is owed to or sent to.
    pub peers: usize,
    /// Batches acknowledged, not known to be scraped.
    pub unexposed: usize,
    /// Rows with amounts in their pool.
    pub pooled: usize,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Outbox {
    cfg: OutboxConfig,
    layout: Layout,
    /// None until discovery first found a member.
    ring: Option<Arc<Ring>>,
    epoch: u64,
    k: u64,
    n: u64,
    books: Books,
    peers: BTreeMap<MemberId, Peer>,
    /// Given up since the start: batches forgotten because nobody scraped them in time.
    unconfirmed: u64,
}

impl Outbox {
    /// An outbox with nothing in it; its epoch is the wall clock's at the start until an answer names a higher one.
    pub fn new(cfg: OutboxConfig, ring: impl Into<Option<Arc<Ring>>>) -> Outbox {
        let (books, layout, epoch) = (Books::new(&cfg), Layout::of_mask(cfg.stats), cfg.started.max(1));
        Outbox { cfg, layout, ring: ring.into(), epoch, k: 0, n: 0, books, peers: BTreeMap::new(), unconfirmed: 0 }
    }

    /// Discovery's newest ring. Nothing is sent yet; the next batches say what moved.
    pub fn set_ring(&mut self, ring: Arc<Ring>) {
        self.ring = Some(ring);
    }

    /// The version of the newest round.
    pub fn version(&self) -> Version {
        Version { epoch: self.epoch, q: self.books.q }
    }

    /// Takes one sample round of the whole node, read at `monotonic`.
    pub fn observe(
        &mut self,
        monotonic: Nanos,
        readings: impl IntoIterator<Item = Reading>,
        ended: impl IntoIterator<Item = Ended>,
    ) {
        self.books.observe(&self.cfg, monotonic, readings, ended);
        self.forget(monotonic);
    }

    /// Whom a stream is wanted to: the ring's members, and those not in it that something is owed to (LEDGER 11).
    pub fn destinations(&mut self) -> Vec<MemberId> {
        let Some(ring) = self.ring.clone() else { return Vec::new() };
        self.peers.retain(|member, peer| ring.contains(member) || !peer.settled());
        let gone = self.peers.keys().filter(|member| !ring.contains(member));
        ring.members().iter().map(|member| &member.id).chain(gone).cloned().collect()
    }

    /// Opens a stream to a member; an older one to it is void from here.
    pub fn hello(&mut self, member: &MemberId) -> Hello {
        self.k += 1;
        self.peers.entry(member.clone()).or_default().open(self.k);
        Hello {
            node_id: self.cfg.node_id.clone(),
            node_name: self.cfg.node_name.clone(),
            epoch: self.epoch,
            k: self.k,
            lease: self.cfg.lease / 1_000_000,
            interval: self.cfg.interval / 1_000_000,
            stats: self.layout.numbers(),
            ring_id: self.ring_id(),
            nonce: self.cfg.nonce,
            replicas: self.ring.as_ref().map_or(1, |ring| u32::from(ring.replicas())),
            hash_version: HASH_VERSION,
        }
    }

    /// The answer to the Hello of stream `k`; `wall` is the wall clock, for a new epoch. Answers to older streams are
    /// void. Returns whether it is a refusal by a process that had accepted this shipper before: another one speaks for
    /// the node. (One whose clock was set back may be refused by each process once, and is alone.)
    pub fn greeted(&mut self, member: &MemberId, k: u64, greeting: &Greeting, now: Nanos, wall: Millis) -> bool {
        let Some(peer) = self.peers.get_mut(member).filter(|peer| peer.is_current(k)) else { return false };
        match greeting {
            Ok(hi) => {
                self.n = self.n.max(hi.stored);
                let back = peer.hi(hi, now);
                self.give_back(back);
                false
            }
            Err(refused) => {
                let accepted_before = peer.accepted();
                // Two lives of a shipper that are told the same epoch must not take the same next one.
                let above = 1 + self.cfg.nonce % 1000;
                self.new_epoch(wall.max(refused.highest_epoch.saturating_add(above)));
                accepted_before
            }
        }
    }

    /// The acknowledgement of a batch of stream `k`.
    pub fn acked(&mut self, member: &MemberId, k: u64, ack: &Ack, now: Nanos) {
        if let Some(peer) = self.peers.get_mut(member).filter(|peer| peer.is_current(k)) {
            peer.ack(ack, now);
        }
    }

    /// The process of stream `k` leaves: what it had not shown goes to its successor.
    pub fn bye(&mut self, member: &MemberId, k: u64, bye: &Bye) {
        if let Some(peer) = self.peers.get_mut(member).filter(|peer| peer.is_current(k)) {
            let back = peer.bye(bye);
            self.give_back(back);
        }
    }

    /// Stream `k` ended; what was in flight is settled by the next Hi.
    pub fn closed(&mut self, member: &MemberId, k: u64) {
        if let Some(peer) = self.peers.get_mut(member).filter(|peer| peer.is_current(k)) {
            peer.close();
        }
    }

    /// The next batch for a member, if its stream is ready, none is in flight, and there is a new round to tell or the
    /// heartbeat (min(interval, L/3)) is due.
    pub fn next_batch(&mut self, member: &MemberId, now: Nanos) -> Option<Batch> {
        let beat = self.cfg.interval.min(self.cfg.lease / 3);
        if !self.peers.get(member)?.due(self.books.q, now, beat) {
            return None;
        }
        let ring = self.ring.clone()?;
        let handed_over = self.handed_over(&ring, member);
        self.n += 1;
        let round = peer::Round {
            n: self.n,
            now,
            ring: &ring,
            member,
            layout: &self.layout,
            usable: ring.contains(member) && self.peers.get(member)?.usable(now, self.cfg.lease),
        };
        self.peers.get_mut(member)?.batch(&mut self.books, &round, &handed_over)
    }

    /// Rows for the shipper's own exposition: exact with no protocol.
    pub fn rows(&self) -> Vec<RowFigures> {
        let figures = |row: &rows::Row| {
            let mut values = row.values.clone();
            values.retain(!row.counts.lacking());
            RowFigures { meta: row.meta.clone(), values, fresh: row.counts.fresh }
        };
        self.books.rows.values().map(figures).collect()
    }

    /// Amounts dropped since the start because they were too old to be handed over.
    pub fn dropped_amounts(&self) -> &Values {
        &self.books.dropped
    }

    /// Whether stream `k` to a member is the current one: a new epoch ends all streams.
    pub fn is_current(&self, member: &MemberId, k: u64) -> bool {
        self.peers.get(member).is_some_and(|peer| peer.is_current(k))
    }

    /// How much is held.
    pub fn sizes(&self) -> OutboxSizes {
        OutboxSizes {
            tasks: self.books.tasks.len(),
            rows: self.books.rows.len(),
            peers: self.peers.len(),
            unexposed: self.peers.values().map(Peer::n_unexposed).sum(),
            pooled: self.books.rows.values().filter(|row| !row.pool.is_empty()).count(),
        }
    }

    /// The time between the two newest rounds; zero before there are two.
    pub fn between_rounds(&self) -> std::time::Duration {
        let between = self.books.monotonic - self.books.previous;
        std::time::Duration::from_nanos(if self.books.previous == 0 { 0 } else { between })
    }

    /// Batches whose amounts were forgotten because no scrape showed them within `max_catch_up`.
    pub fn unconfirmed(&self) -> u64 {
        self.unconfirmed
    }

    /// Keys on their way from this member to another, which the new primary has acknowledged: the old one may forget them.
    fn handed_over(&self, ring: &Ring, member: &MemberId) -> Vec<crate::model::Key> {
        let Some(peer) = self.peers.get(member) else { return Vec::new() };
        let taken = |key: &crate::model::Key| {
            let primary = ring.primary(key);
            primary != member && self.peers.get(primary).is_some_and(|peer| peer.has_acked(key))
        };
        peer.moved_keys().filter(|key| taken(key)).cloned().collect()
    }

    fn give_back(&mut self, back: Vec<peer::Sent>) {
        for (service, amounts) in back.into_iter().flat_map(|sent| sent.amounts) {
            if let Some(row) = self.books.rows.get_mut(&service) {
                row.pool.merge(amounts);
            }
        }
    }

    /// Nobody will say what became of a batch in flight.
    fn give_up(&mut self, sent: Option<peer::Sent>) {
        for (service, amounts) in sent.into_iter().flat_map(|sent| sent.amounts) {
            if let Some(row) = self.books.rows.get_mut(&service) {
                row.dropped.add_all(&amounts.total());
                self.books.dropped.add_all(&amounts.total());
            }
        }
    }

    fn new_epoch(&mut self, epoch: u64) {
        self.epoch = epoch.max(self.epoch + 1);
        self.n = 0;
        let mut peers = std::mem::take(&mut self.peers);
        for peer in peers.values_mut() {
            peer.close();
            self.unconfirmed += peer.forget_unexposed(u64::MAX);
            self.give_up(peer.take_out());
        }
        self.peers = peers;
    }

    fn forget(&mut self, now: Nanos) {
        let oldest = amounts::oldest(now, self.cfg.max_catch_up);
        self.books.drop_old(oldest);
        let mut peers = std::mem::take(&mut self.peers);
        for peer in peers.values_mut() {
            self.unconfirmed += peer.forget_unexposed(oldest);
            if peer.lost(now, self.cfg.max_catch_up) {
                self.give_up(peer.take_out());
            }
        }
        self.peers = peers;
    }

    /// The ring's id; 0 while there is none.
    pub fn ring_id(&self) -> RingId {
        self.ring.as_ref().map_or_else(RingId::default, |ring| ring.id())
    }
}

pub mod accounts {
    //! Where every amount is: what the simulation checks LEDGER's L1 with.
    use super::*;
    use crate::model::{Gen, ServiceId};

    /// Amounts owed to one process: (process, batch number or `None` while in a pool, per service).
    pub type Owed = (Gen, u64, BTreeMap<ServiceId, Values>);

    impl Outbox {
        /// Amounts in pools, by service.
        pub fn pooled(&self) -> BTreeMap<ServiceId, Values> {
            self.books.rows.iter().map(|(service, row)| (service.clone(), row.pool.total())).collect()
        }
        /// Amounts dropped and counted, by service.
        pub fn dropped(&self) -> BTreeMap<ServiceId, Values> {
            self.books.rows.iter().map(|(service, row)| (service.clone(), row.dropped.clone())).collect()
        }
        /// Amounts sent and not settled.
        pub fn owed(&self) -> Vec<Owed> {
            self.peers.values().flat_map(Peer::owed).collect()
        }
    }
}
