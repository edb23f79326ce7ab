//! What a shipper still owes: newest sample per task, the node's rows, and per process the amounts on their way.
//!
//! LEDGER.md from the shipper's side. Invariants:
//!
//! * a map, not a queue: memory is bounded by the node's tasks, and a change of the ring only re-reads the map;
//! * at most one batch in flight a stream, numbers `n` and `k` never reused;
//! * an increment is in exactly one place: a row's pool, a process's `out`, its `unexposed`, or dropped and counted;
//! * a key is granted to at most one process, and to another only when that one can no longer show it.
//!
//! Pure: the clock is the shipper's monotonic one, passed in. It deliberately does no I/O and picks no addresses.

mod amounts;
mod crew;
mod figures;
mod hold;
mod lease;
mod peer;
mod rows;
mod stream;

pub use figures::{OutboxSizes, PeerFigures, RowFigures, Tally, accounts};

use crate::codec::Layout;
use crate::message::{Ack, Batch, Bye, Greeting, HASH_VERSION, Hello};
use crate::model::{MemberId, Millis, Nanos, NodeId, RingId, TaskMeta, Values, Version};
use crate::rules::{Rule, holds};
use crate::shard::Ring;
use crate::stat::CAPACITY;
use crew::{Crew, Round};
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
    /// The sampling interval, without advice.
    pub interval: Nanos,
    /// L, `takeover_after`.
    pub lease: Nanos,
    /// For so long an old owner is told of a key beside the new ones: readers may hear of them later than the shipper did.
    pub overlap: Nanos,
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
    /// How long before the round's moment they were read: 0 but where somebody else reads them in his own time.
    pub age: Nanos,
}

/// A task that is over.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Which task and incarnation.
    pub meta: Arc<TaskMeta>,
    /// Its last figures, if there are any beside those of earlier rounds.
    pub values: Option<Values>,
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
    /// From when on it must not be supposed that somebody has leases of this node that are not in its books.
    alone_since: Nanos,
    unconfirmed: Tally,
    returned: Tally,
}

impl Outbox {
    /// An outbox with nothing in it; its epoch is the wall clock's at the start until an answer names a higher one.
    pub fn new(cfg: OutboxConfig, ring: impl Into<Option<Arc<Ring>>>) -> Outbox {
        let (books, layout, epoch) = (Books::new(&cfg), Layout::of_mask(cfg.stats | CAPACITY), cfg.started.max(1));
        let alone_since = cfg.started_monotonic;
        Outbox {
            cfg,
            layout,
            ring: ring.into(),
            epoch,
            k: 0,
            n: 0,
            books,
            peers: BTreeMap::new(),
            alone_since,
            unconfirmed: Tally::default(),
            returned: Tally::default(),
        }
    }

    /// Discovery's newest ring. Nothing is sent yet; the next batches say what moved.
    pub fn set_ring(&mut self, ring: Arc<Ring>) {
        if !holds(Rule::GoneIsNotDead) {
            let gone = self.peers.iter_mut().filter(|(member, _)| !ring.contains(member));
            let back = gone.flat_map(|(_, peer)| peer.take_all()).collect();
            self.give_back(back);
        }
        self.ring = Some(ring);
    }

    /// Rounds come this far apart from the next one on, by advice (DESIGN §8): what is fresh follows it.
    pub fn set_pace(&mut self, pace: Nanos) {
        self.books.pace = pace;
    }

    /// The version of the newest round.
    pub fn version(&self) -> Version {
        Version { epoch: self.epoch, q: self.books.q }
    }

    /// Takes one sample round of the whole node, read at `monotonic`; `machine` is its own figures, empty if not known.
    pub fn observe(
        &mut self,
        monotonic: Nanos,
        machine: Values,
        readings: impl IntoIterator<Item = Reading>,
        ended: impl IntoIterator<Item = Ended>,
    ) {
        self.books.observe(&self.cfg, monotonic, machine, readings, ended);
        self.forget(monotonic);
    }

    /// Whom a stream is wanted to: the ring's members, and those not in it that something is owed to (LEDGER 11).
    pub fn destinations(&mut self) -> Vec<MemberId> {
        let Some(ring) = self.ring.clone() else { return Vec::new() };
        let now = self.books.monotonic;
        // Whoever may still show a key is not forgotten: its lease would look like nobody's.
        let may_show = |member: &MemberId, peer: &Peer| {
            peer.unheard(now) <= self.cfg.lease && self.books.leases().any(|lease| lease.is_with(member))
        };
        self.peers.retain(|member, peer| ring.contains(member) || !peer.settled() || may_show(member, peer));
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
                let another = peer.is_another(hi);
                let back = peer.hi(hi, now);
                if another {
                    self.returned.count(&back);
                }
                self.give_back(back);
                false
            }
            Err(refused) => {
                let accepted_before = peer.accepted();
                // Two lives of a shipper that are told the same epoch must not take the same next one.
                let above = 1 + self.cfg.nonce % 1000;
                self.new_epoch(wall.max(refused.highest_epoch.saturating_add(above)), now);
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
        let lease = self.cfg.lease;
        let crew = Crew::of(&ring, member, &self.peers, now, lease);
        let mut peer = self.peers.remove(member)?;
        self.n += 1;
        let round = Round {
            n: self.n,
            now,
            member,
            process: peer.process(),
            k: peer.greeted().unwrap_or_default(),
            acked: peer.acked(),
            ring: &ring,
            crew,
            peers: &self.peers,
            layout: &self.layout,
            lease,
            overlap: self.cfg.overlap,
            interval: self.cfg.interval,
            granting: now.saturating_sub(self.alone_since) > lease || !holds(Rule::WaitAfterStart),
        };
        let batch = peer.batch(&mut self.books, &round);
        self.peers.insert(member.clone(), peer);
        batch
    }

    /// Whether stream `k` to a member is the current one: a new epoch ends all streams.
    pub fn is_current(&self, member: &MemberId, k: u64) -> bool {
        self.peers.get(member).is_some_and(|peer| peer.is_current(k))
    }

    fn give_back(&mut self, back: Vec<peer::Sent>) {
        for (service, amounts) in back.into_iter().flat_map(|sent| sent.amounts) {
            match self.books.rows.get_mut(&service) {
                Some(row) => row.pool.merge(amounts),
                // The row was retired meanwhile: nobody is told of it any more.
                None => self.books.dropped.add_all(&amounts.total()),
            }
        }
    }

    /// Nobody will say what became of a batch in flight.
    fn give_up(&mut self, sent: Option<peer::Sent>) {
        for (service, amounts) in sent.into_iter().flat_map(|sent| sent.amounts) {
            if let Some(row) = self.books.rows.get_mut(&service) {
                row.dropped.add_all(&amounts.total());
            }
            self.books.dropped.add_all(&amounts.total());
        }
    }

    /// Whoever had the higher epoch may have granted leases, which last for L.
    fn new_epoch(&mut self, epoch: u64, now: Nanos) {
        self.epoch = epoch.max(self.epoch + 1);
        self.n = 0;
        self.alone_since = now;
        let mut peers = std::mem::take(&mut self.peers);
        for peer in peers.values_mut() {
            peer.close();
            peer.forget_unexposed(u64::MAX, &mut self.unconfirmed);
            self.give_up(peer.take_out());
        }
        self.peers = peers;
    }

    fn forget(&mut self, now: Nanos) {
        let oldest = amounts::oldest(now, self.cfg.max_catch_up);
        self.books.drop_old(oldest);
        let unexposed = if holds(Rule::KeepUnexposed) { oldest } else { u64::MAX };
        let mut peers = std::mem::take(&mut self.peers);
        for peer in peers.values_mut() {
            peer.forget_unexposed(unexposed, &mut self.unconfirmed);
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
