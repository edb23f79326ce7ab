//! Scenarios of a shipper's outbox and collectors' aggregates talking to each other, one rule of LEDGER.md each.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "handover/amounts.rs"]
mod amounts;
#[path = "handover/churn.rs"]
mod churn;
#[path = "handover/copies.rs"]
mod copies;
#[path = "handover/entries.rs"]
mod entries;
#[path = "handover/faults.rs"]
mod faults;
#[path = "handover/fixture.rs"]
mod fixture;
#[path = "handover/machine.rs"]
mod machine;
#[path = "handover/points.rs"]
mod points;
