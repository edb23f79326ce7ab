//! The simulation.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(unreachable_pub, reason = "the parts of a test see each other")]

#[path = "sim/accounts.rs"]
mod accounts;
#[path = "sim/check.rs"]
mod check;
#[path = "sim/collecting.rs"]
mod collecting;
#[path = "sim/faults.rs"]
mod faults;
#[path = "sim/host.rs"]
mod host;
#[path = "sim/money.rs"]
mod money;
#[path = "sim/net.rs"]
mod net;
#[path = "sim/reader.rs"]
mod reader;
#[path = "sim/rng.rs"]
mod rng;
#[path = "sim/shipping.rs"]
mod shipping;
#[path = "sim/truth.rs"]
mod truth;
#[path = "sim/world.rs"]
mod world;

use std::collections::{BTreeMap, VecDeque};
use world::World;

fn seeds(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Lives a world once more, with its log; prints the log's end.
fn replay(seed: u64, print: bool) -> World {
    let mut world = World::new(seed);
    (world.log, world.print) = (Some(VecDeque::new()), print);
    let result = world.run();
    if let Err(violation) = result {
        let log = world.log.take().unwrap_or_default();
        for line in log.iter().skip(log.len().saturating_sub(40)).filter(|_| !print) {
            eprintln!("{line}");
        }
        panic!(
            "seed {seed}, step {}: {}: {}\n  SIM_SEED={seed} cargo test --test sim replay -- --nocapture",
            world.n_steps, violation.invariant, violation.text
        );
    }
    world
}

#[test]
fn worlds() {
    let mut notes = BTreeMap::<&'static str, u64>::new();
    let (mut bad, mut steps, first) = (BTreeMap::<&'static str, Vec<u64>>::new(), 0, seeds("SIM_FIRST", 0));
    let (mut over, mut under, mut total) = (0, 0, 0);
    let n = seeds("SIM_SEEDS", 200);
    let start = std::time::Instant::now();
    for seed in first..first + n {
        let mut world = World::new(seed);
        if let Err(violation) = world.run() {
            bad.entry(violation.invariant).or_default().push(seed);
            eprintln!("{seed} {} {} {:.3000}", world.n_steps, violation.invariant, violation.text);
        }
        world.notes.iter().for_each(|(what, n)| *notes.entry(what).or_default() += n);
        steps += world.n_steps;
        over += world.accounts.over.sum();
        under += world.accounts.under.sum();
        total += world.lives.iter().map(|life| life.increments.sum()).sum::<i64>();
    }
    println!("{n} worlds, {steps} steps, {:?}, over {over} under {under} of {total}", start.elapsed());
    println!("{notes:#?}");
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn replay_seed() {
    if let Ok(seed) = std::env::var("SIM_SEED") {
        replay(seed.parse().unwrap(), true);
    }
}
