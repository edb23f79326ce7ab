//! The plan of a world: its size, its clocks, its phases, which faults it knows.

use crate::faults::Fault;
use crate::rng::Rng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use swarmstats::model::MemberId;
use swarmstats::shard::{Member, Ring};

/// Faults stop here.
pub const HEAL: u64 = 60_000;
/// Values stand still from here.
pub const CALM: u64 = 85_000;
/// All that holds at quiet is asked here.
pub const QUIET: u64 = 110_000;
pub const ROW_KEEP: u64 = 150_000;
pub const STALE_KEEP: u64 = 30_000;
pub const ENDED_KEEP: u64 = 20_000;
pub const MAX_CATCH_UP: u64 = 20_000;
pub const OVERLAP: u64 = 5_000;
pub const MAX_ROUND_TRIP: u64 = 1_000;
/// Every map is at its base size by here.
pub const END: u64 = QUIET + 2 * ROW_KEEP + 40_000;
/// The wall clock of a host at time 0.
pub const WALL: u64 = 1_700_000_000_000;

pub struct Config {
    pub n_nodes: usize,
    pub n_members: usize,
    pub replicas: u8,
    pub interval: u64,
    pub lease: u64,
    pub n_servers: usize,
    pub scrape_every: u64,
    pub kinds: Vec<Fault>,
    /// Go on until everything is forgotten again.
    pub to_the_end: bool,
}

impl Config {
    pub fn of(seed: u64, rng: &mut Rng) -> Config {
        let kinds = Fault::ALL.into_iter().filter(|_| rng.chance(500)).collect();
        let interval = if rng.chance(750) { 1_000 } else { 2_000 };
        Config {
            n_nodes: rng.between(1, 4) as usize,
            n_members: rng.between(2, 5) as usize,
            replicas: [1, 1, 2, 2, 3][rng.below(5) as usize],
            interval,
            lease: if interval == 2_000 || rng.chance(300) { 6_000 } else { 3_000 },
            n_servers: rng.between(1, 3) as usize,
            scrape_every: rng.between(3_000, 9_000),
            kinds,
            to_the_end: seed.is_multiple_of(20),
        }
    }
}

pub fn member(number: usize) -> MemberId {
    MemberId::new(format!("c{number}")).unwrap()
}

/// Rings are pure and dear: one per membership for all worlds.
pub fn ring(members: u8, replicas: u8) -> Arc<Ring> {
    static RINGS: Mutex<BTreeMap<(u8, u8), Arc<Ring>>> = Mutex::new(BTreeMap::new());
    let mut rings = RINGS.lock().unwrap();
    let make = || {
        let of = (0..8).filter(|bit| members >> bit & 1 == 1);
        Arc::new(Ring::new(of.map(|bit| Member { id: member(bit), node: None }), replicas).unwrap())
    };
    rings.entry((members, replicas)).or_insert_with(make).clone()
}
