//! Who owns a key: a pure function of (key, membership), the same on every machine and in every version.
//!
//! A key's 64-bit hash names one of [`SHARDS`] shards; a table made once per membership names each shard's owners, so a
//! lookup is one hash and one index. The table comes from a hash ring with [`VNODES`] points a member: shards, in the
//! order of their own places on the ring, each walk it from there past members that are full.
//!
//! Invariants: the order in which members are given changes nothing; the owners of a shard are distinct; no member is
//! primary of more than 1.05 × the mean of shards, nor holds more than 1.05 × the mean of copies (where whole shards
//! allow it: at least ⌈mean⌉). Who is primary does not depend on the number of replicas.
//!
//! It deliberately knows no addresses and no health: only discovery edits a membership, a failed connection never does.
//! Nothing here goes through std's `Hash` of strings or integers, whose bytes may change between compilers.

use crate::message::HASH_VERSION;
use crate::model::{Key, MemberId, NodeId, RingId};
use hashring::HashRing;
use std::hash::{Hash, Hasher};
use xxhash_rust::xxh3::{Xxh3Builder, xxh3_64};

/// How many shards the keys are cut into.
pub const SHARDS: u16 = 16_384;
/// Points a member has on the ring.
pub const VNODES: u16 = 512;
/// The most copies of a key.
pub const MAX_REPLICAS: u8 = 5;
/// The largest membership accepted.
pub const MAX_MEMBERS: usize = 1_024;

/// A ring entry: one collector, whatever process and address it has at the moment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Member {
    /// Its configured identity.
    pub id: MemberId,
    /// The Swarm node it runs on, if known: a shard's copies are kept on distinct nodes.
    pub node: Option<NodeId>,
}

/// Why a membership makes no ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Nobody there.
    #[error("the membership is empty: a ring needs at least one member")]
    Empty,
    /// Two members with one identity.
    #[error("member {0} is listed twice: give each collector a member id of its own")]
    Duplicate(MemberId),
    /// More than [`MAX_MEMBERS`].
    #[error("{0} members are listed, {MAX_MEMBERS} are allowed")]
    TooMany(usize),
    /// Not even one copy asked for.
    #[error("replicas is 0: a key needs at least one owner")]
    NoReplicas,
}

/// What a change of membership moves, in shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Shards with another primary.
    pub primaries: usize,
    /// Shards with any other owner, or in another order.
    pub owners: usize,
    /// How many primaries must move, where only members come or only members go.
    pub ideal: usize,
    /// Shards whose primary moves between members that stay: the price of the bounded load.
    pub needless: usize,
}

/// The owners of every shard, for one membership.
#[derive(Clone)]
pub struct Ring {
    id: RingId,
    members: Vec<Member>,
    replicas: u8,
    copies: usize,
    /// Per shard `width` indexes into `members`: the copies, primary first, then the reserve if members suffice.
    table: Vec<u16>,
    width: usize,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("id", &self.id).field("members", &self.members).finish_non_exhaustive()
    }
}

impl Ring {
    /// Places all shards on a membership, given in any order, with `replicas` copies each (as far as members suffice).
    pub fn new(members: impl IntoIterator<Item = Member>, replicas: u8) -> Result<Ring, RingError> {
        let mut members: Vec<Member> = members.into_iter().collect();
        members.sort_unstable();
        if members.is_empty() {
            return Err(RingError::Empty);
        }
        if members.len() > MAX_MEMBERS {
            return Err(RingError::TooMany(members.len()));
        }
        if let Some(pair) = members.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(RingError::Duplicate(pair[0].id.clone()));
        }
        if replicas == 0 {
            return Err(RingError::NoReplicas);
        }
        let copies = members.len().min(replicas.into());
        let width = members.len().min(copies + 1);
        let table = Placement::new(&members).place(copies, width);
        Ok(Ring { id: digest(&members, replicas), members, replicas, copies, table, width })
    }

    /// The digest of everything the table depends on; processes with equal ids agree on every owner.
    pub fn id(&self) -> RingId {
        self.id
    }
    /// The membership, sorted by id.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
    /// The copies asked for.
    pub fn replicas(&self) -> u8 {
        self.replicas
    }
    /// The copies each shard has: fewer than [`Ring::replicas`] where members do not suffice.
    pub fn copies(&self) -> usize {
        self.copies
    }
    /// Whether a member is on the ring.
    pub fn contains(&self, member: &MemberId) -> bool {
        self.members.binary_search_by(|m| m.id.cmp(member)).is_ok()
    }
    /// The shard of a key, the same on every ring.
    pub fn shard(&self, key: &Key) -> u16 {
        shard(key)
    }
    /// The members that hold a key, its primary first.
    pub fn owners(&self, key: &Key) -> impl ExactSizeIterator<Item = &MemberId> {
        self.owners_of(shard(key))
    }
    /// [`Ring::owners`], then the one that stands in while an owner drains (none where every member is an owner).
    pub fn owners_and_reserve(&self, key: &Key) -> impl ExactSizeIterator<Item = &MemberId> {
        self.owners_and_reserve_of(shard(key))
    }
    /// Of a shard (modulo [`SHARDS`]): the places in [`Ring::members`] of its owners, then of the reserve.
    pub(crate) fn places_of(&self, shard: u16) -> &[u16] {
        self.row(shard)
    }
    /// The place of a member in [`Ring::members`].
    pub(crate) fn place(&self, member: &MemberId) -> Option<u16> {
        let place = self.members.binary_search_by(|m| m.id.cmp(member)).ok()?;
        u16::try_from(place).ok()
    }
    /// The first of a key's owners.
    pub fn primary(&self, key: &Key) -> &MemberId {
        self.primary_of(shard(key))
    }
    /// [`Ring::owners`] by shard (modulo [`SHARDS`]).
    pub fn owners_of(&self, shard: u16) -> impl ExactSizeIterator<Item = &MemberId> {
        self.row(shard)[..self.copies].iter().map(|m| &self.members[usize::from(*m)].id)
    }
    /// [`Ring::owners_and_reserve`] by shard (modulo [`SHARDS`]).
    pub fn owners_and_reserve_of(&self, shard: u16) -> impl ExactSizeIterator<Item = &MemberId> {
        self.row(shard).iter().map(|m| &self.members[usize::from(*m)].id)
    }
    /// [`Ring::primary`] by shard (modulo [`SHARDS`]).
    pub fn primary_of(&self, shard: u16) -> &MemberId {
        &self.members[usize::from(self.row(shard)[0])].id
    }
    /// The shards whose owners differ on another ring: what a change of membership moves.
    pub fn moved<'a>(&'a self, other: &'a Ring) -> impl Iterator<Item = u16> + 'a {
        (0..SHARDS).filter(|shard| !self.owners_of(*shard).eq(other.owners_of(*shard)))
    }

    /// What going over to another ring of the same replicas changes.
    pub fn change(&self, other: &Ring) -> Change {
        let primaries = |shard: &u16| self.primary_of(*shard) != other.primary_of(*shard);
        let both = |member: &MemberId| self.contains(member) && other.contains(member);
        let needless = |shard: &u16| both(self.primary_of(*shard)) && both(other.primary_of(*shard));
        let moved: Vec<u16> = (0..SHARDS).filter(primaries).collect();
        let (few, many) = (self.members.len().min(other.members.len()), self.members.len().max(other.members.len()));
        Change {
            primaries: moved.len(),
            owners: self.moved(other).count(),
            ideal: usize::from(SHARDS) * (many - few) / many,
            needless: moved.iter().filter(|shard| needless(shard)).count(),
        }
    }

    fn row(&self, shard: u16) -> &[u16] {
        let start = usize::from(shard % SHARDS) * self.width;
        &self.table[start..start + self.width]
    }
}

/// The shard of a key: the low 14 bits of the XXH3-64 hash (seed 0) of its bytes.
pub fn shard(key: &Key) -> u16 {
    (xxh3_64(&key.bytes()) % u64::from(SHARDS)) as u16
}

/// The digest of a sorted membership and of what else the table depends on; ids hold no NUL, so it separates them.
fn digest(members: &[Member], replicas: u8) -> RingId {
    let mut bytes = Vec::new();
    bytes.extend(HASH_VERSION.to_le_bytes());
    bytes.extend(SHARDS.to_le_bytes());
    bytes.extend(VNODES.to_le_bytes());
    bytes.push(replicas);
    for member in members {
        bytes.extend(member.id.as_str().as_bytes());
        bytes.push(0);
        bytes.extend(member.node.as_ref().map_or("", NodeId::as_str).as_bytes());
        bytes.push(0);
    }
    RingId(xxh3_64(&bytes))
}

/// A member's point on the ring; its place is the hash of `<member id>\0<index, 2 bytes little-endian>`.
#[derive(Clone, Copy, Debug)]
struct Point<'a> {
    id: &'a str,
    member: u16,
    index: u16,
}

impl Hash for Point<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.id.as_bytes());
        state.write(&[0]);
        state.write(&self.index.to_le_bytes());
    }
}

/// A shard's start on the ring: the hash of `shard\0<number, 2 bytes little-endian>`.
#[derive(Clone, Copy)]
struct Start(u16);

impl Start {
    fn bytes(self) -> [u8; 8] {
        let [low, high] = self.0.to_le_bytes();
        [b's', b'h', b'a', b'r', b'd', 0, low, high]
    }
}

impl Hash for Start {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.bytes());
    }
}

/// The shards of a table under construction, and the ring they walk.
struct Placement<'a> {
    members: &'a [Member],
    /// The member of each point, in ring order.
    order: Vec<u16>,
    /// Per shard, the place in `order` where its walk starts.
    starts: Vec<usize>,
    /// Shards in the order of their own hashes.
    turns: Vec<u16>,
}

impl<'a> Placement<'a> {
    fn new(members: &'a [Member]) -> Placement<'a> {
        let points: Vec<Point<'a>> = (0u16..)
            .zip(members)
            .flat_map(|(member, m)| (0..VNODES).map(move |index| Point { id: m.id.as_str(), member, index }))
            .collect();
        let mut ring = HashRing::with_hasher(Xxh3Builder::new());
        ring.batch_add(points);
        // The crate has no iterator for a ring with its own hasher; all points after any key are the ring's order.
        let order = ring.get_with_replicas(&Start(0), ring.len() - 1).unwrap_or_default();
        let mut places = vec![0; order.len()];
        let place = |point: &Point<'_>| usize::from(point.member) * usize::from(VNODES) + usize::from(point.index);
        for (at, point) in order.iter().enumerate() {
            places[place(point)] = at;
        }
        let starts = (0..SHARDS).map(|shard| ring.get(&Start(shard)).map_or(0, |point| places[place(point)])).collect();
        let mut turns: Vec<u16> = (0..SHARDS).collect();
        turns.sort_by_key(|shard| xxh3_64(&Start(*shard).bytes()));
        Placement { members, order: order.into_iter().map(|point| point.member).collect(), starts, turns }
    }

    /// The table: `width` members a shard, the first `copies` of them bounded in load.
    fn place(&self, copies: usize, width: usize) -> Vec<u16> {
        let n = self.members.len();
        let mut table = vec![0; usize::from(SHARDS) * width];
        let mut held = vec![0; n];
        // Primaries first and by themselves: they cannot get stuck, and `replicas` does not move them.
        let room = cap(1, n);
        for &shard in &self.turns {
            let primary = self.walk(shard).find(|m| held[usize::from(*m)] < room).unwrap_or_default();
            held[usize::from(primary)] += 1;
            table[usize::from(shard) * width] = primary;
        }
        let room = cap(copies, n);
        for &shard in &self.turns {
            let row = &mut table[usize::from(shard) * width..][..width];
            for at in 1..width {
                let bounded = at < copies;
                let next = self.next(shard, &row[..at], |m| !bounded || held[usize::from(m)] < room);
                held[usize::from(next)] += usize::from(bounded);
                row[at] = next;
            }
        }
        table
    }

    /// The next of a shard's members: with room and on a node of its own if possible, else with room, else any.
    fn next(&self, shard: u16, chosen: &[u16], has_room: impl Fn(u16) -> bool) -> u16 {
        let distinct = || self.walk(shard).filter(|m| !chosen.contains(m));
        let apart = |m: &u16| !chosen.iter().any(|c| self.same_node(*c, *m));
        distinct()
            .find(|m| has_room(*m) && apart(m))
            .or_else(|| distinct().find(|m| has_room(*m)))
            .or_else(|| distinct().next())
            .unwrap_or_default()
    }

    /// Every member once, in ring order from a shard's start.
    fn walk(&self, shard: u16) -> impl Iterator<Item = u16> {
        let (before, from) = self.order.split_at(self.starts[usize::from(shard)]);
        let mut seen = vec![false; self.members.len()];
        let first_time = move |m: &u16| !std::mem::replace(&mut seen[usize::from(*m)], true);
        from.iter().chain(before).copied().filter(first_time).take(self.members.len())
    }

    fn same_node(&self, a: u16, b: u16) -> bool {
        let node = |m: u16| self.members[usize::from(m)].node.as_ref();
        node(a).is_some() && node(a) == node(b)
    }
}

/// 1.05 × the mean load of `n` members that hold `copies` of every shard, in whole shards that suffice for all.
fn cap(copies: usize, n: usize) -> usize {
    let total = copies * usize::from(SHARDS);
    (total * 105 / (100 * n)).max(total.div_ceil(n))
}
