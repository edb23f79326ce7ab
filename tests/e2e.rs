//! The whole path over real loopback sockets: the two daemons as child processes, and the collector embedded.
//!
//! No engine is needed: readings are made up and named so, and where the shipper binary runs, a fake engine answers it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "e2e/rig.rs"]
mod rig;

#[path = "e2e/scripted.rs"]
mod scripted;

#[path = "e2e/embedding.rs"]
mod embedding;

#[path = "e2e/subscribe.rs"]
mod subscribe;

#[path = "e2e/wire.rs"]
mod wire;

#[path = "e2e/scrape.rs"]
mod scrape;

#[path = "e2e/peers.rs"]
mod peers;

#[path = "e2e/input.rs"]
mod input;

#[path = "e2e/members.rs"]
mod members;

#[path = "e2e/names.rs"]
mod names;

#[path = "e2e/ring.rs"]
mod ring;

#[path = "e2e/term.rs"]
mod term;

#[path = "e2e/engine.rs"]
mod engine;

#[path = "e2e/ships.rs"]
mod ships;

#[path = "e2e/streams.rs"]
mod streams;

#[path = "e2e/faults.rs"]
mod faults;

#[path = "e2e/manager.rs"]
mod manager;
