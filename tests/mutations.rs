//! What breaks without each rule of LEDGER.md: its last table, row by row, in the real core.
//!
//! A scenario is a fixed sequence of messages after which one invariant is asked. It must hold with every rule, and fail
//! once the scenario's rule is switched off (`swarmstats::rules`), or it would prove nothing about that rule. Random
//! worlds do the same over many seeds: `./dev sim --without RULE`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "the fixture is shared with tests/handover.rs")]

#[path = "handover/fixture.rs"]
mod fixture;
#[path = "mutations/amounts.rs"]
mod amounts;
#[path = "mutations/leases.rs"]
mod leases;
#[path = "mutations/reading.rs"]
mod reading;

use fixture::{Swarm, ring, service};
use swarmstats::aggregate::Aggregate;
use swarmstats::model::{Key, MemberId, NodeId};
use swarmstats::rules::{Rule, without};

/// What an invariant says: nothing, or how it was violated.
type Checked = Result<(), String>;

fn violated<T>(text: String) -> Result<T, String> {
    Err(text)
}

/// The scenario holds with all rules, and not without this one.
fn needs(rule: Rule, scenario: fn() -> Checked) {
    assert_eq!(scenario(), Ok(()), "with every rule kept");
    let broken = without(rule, scenario).expect_err(&format!("without {rule:?} nothing was seen to break"));
    println!("without {rule:?}: {broken}");
}

/// The members that emit a key now.
fn emitting(swarm: &Swarm, key: &Key) -> Vec<MemberId> {
    let emits = |(_, process): &(&MemberId, &Aggregate)| process.emitted(swarm.now).any(|emitted| emitted == *key);
    swarm.collectors.iter().filter(emits).map(|(id, _)| id.clone()).collect()
}

/// The owner of a service's row, of the two members there are, and the other one.
fn owners_of_row(swarm: &Swarm, of: &str) -> (MemberId, MemberId) {
    let key = Key::Row(NodeId::new("n1").unwrap(), service(of));
    let ids: Vec<&str> = swarm.collectors.keys().map(MemberId::as_str).collect();
    let owner = ring(&ids).primary(&key).clone();
    let other = swarm.collectors.keys().find(|id| **id != owner).unwrap().clone();
    (owner, other)
}
