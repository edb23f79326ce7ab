//! Scenarios of a shipper's outbox and collectors' aggregates talking to each other, one rule of LEDGER.md each.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "handover/amounts.rs"]
mod amounts;
#[path = "handover/churn.rs"]
mod churn;
#[path = "handover/entries.rs"]
mod entries;
#[path = "handover/fixture.rs"]
mod fixture;
