//! How the members stand at the moment when a batch is made: who keeps a key's copies, and which of them comes first.
//!
//! A key's copies are with the first R of its owners and its reserve that do not drain (LEDGER 12); where members do not
//! suffice, draining ones keep theirs. The first usable of them gets the ledger's amounts (LEDGER 8) and the lease (16).

use super::peer::Peer;
use crate::codec::Layout;
use crate::model::{Gen, Key, MemberId, Nanos};
use crate::shard::Ring;
use std::collections::BTreeMap;

/// How one member of the ring stands.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    usable: bool,
    draining: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Crew<'a> {
    ring: &'a Ring,
    /// By place in the ring's members.
    standings: Vec<Standing>,
    /// The place of the member that the batch is for, if it is in the ring.
    own: Option<u16>,
}

/// What a batch is made for.
#[derive(Debug)]
pub(super) struct Round<'a> {
    pub(super) n: u64,
    pub(super) now: Nanos,
    pub(super) member: &'a MemberId,
    /// Its process.
    pub(super) process: Option<Gen>,
    /// Its stream, and the last batch it acknowledged on it.
    pub(super) k: u64,
    pub(super) acked: u64,
    pub(super) ring: &'a Ring,
    pub(super) crew: Crew<'a>,
    /// The other members.
    pub(super) peers: &'a BTreeMap<MemberId, Peer>,
    pub(super) layout: &'a Layout,
    /// L.
    pub(super) lease: Nanos,
    /// What Hello said is between rounds.
    pub(super) interval: Nanos,
    /// For so long an old owner is told of a key beside the new ones.
    pub(super) overlap: Nanos,
    /// This shipper may grant leases by now (LEDGER 16).
    pub(super) granting: bool,
}

impl Round<'_> {
    /// Every usable copy of a key but the batch's own member has acknowledged it, and there is one.
    pub(super) fn handed_over(&self, shard: u16, key: &Key) -> bool {
        let mut others = self.crew.others(shard).peekable();
        others.peek().is_some() && others.all(|other| self.peers.get(other).is_some_and(|peer| peer.has_acked(key)))
    }
}

impl<'a> Crew<'a> {
    pub(super) fn of(
        ring: &'a Ring,
        member: &MemberId,
        peers: &BTreeMap<MemberId, Peer>,
        now: Nanos,
        lease: Nanos,
    ) -> Crew<'a> {
        let standing = |member: &crate::shard::Member| {
            let peer = peers.get(&member.id);
            let usable = peer.is_some_and(|peer| peer.usable(now, lease));
            Standing { usable, draining: peer.is_some_and(Peer::is_draining) }
        };
        Crew { ring, standings: ring.members().iter().map(standing).collect(), own: ring.place(member) }
    }

    /// Whether the batch's member is in the ring.
    pub(super) fn is_in_ring(&self) -> bool {
        self.own.is_some()
    }

    /// Whether it keeps a copy of a shard.
    pub(super) fn has_copy(&self, shard: u16) -> bool {
        self.own.is_some_and(|own| self.copies(shard).any(|place| place == own))
    }

    /// Whether it is the first usable copy of a shard; `None` where no copy is usable.
    pub(super) fn is_first(&self, shard: u16) -> Option<bool> {
        self.usable(shard).next().map(|first| Some(first) == self.own)
    }

    /// The usable copies of a shard but the batch's own member.
    pub(super) fn others(&self, shard: u16) -> impl Iterator<Item = &MemberId> {
        let others = self.usable(shard).filter(|place| Some(*place) != self.own);
        others.map(|place| &self.ring.members()[usize::from(place)].id)
    }

    fn usable(&self, shard: u16) -> impl Iterator<Item = u16> {
        self.copies(shard).filter(|place| self.standings[usize::from(*place)].usable)
    }

    fn copies(&self, shard: u16) -> impl Iterator<Item = u16> {
        let row = self.ring.places_of(shard);
        self.that(row, false).chain(self.that(row, true)).take(self.ring.copies())
    }

    fn that(&self, row: &'a [u16], draining: bool) -> impl Iterator<Item = u16> {
        row.iter().copied().filter(move |place| self.standings[usize::from(*place)].draining == draining)
    }
}
