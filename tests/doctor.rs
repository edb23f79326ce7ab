//! `docker swarmstats doctor` names what is wrong: each fault is provoked, and found by its code, with a remedy.
//!
//! The daemons are the real ones, so is the engine in `swarm` (a dockerd of the test's own; needs root). Fakes stand in
//! only for what no real part says: a member of another hash version, a clock that is wrong, another program on a port.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "shared with other suites, which use the rest")]
#[path = "e2e/rig.rs"]
mod rig;

#[allow(dead_code, reason = "shared with other suites, which use the rest")]
mod engine;

#[path = "doctor/fixture.rs"]
mod fixture;

#[path = "doctor/tier.rs"]
mod tier;

#[path = "doctor/machine.rs"]
mod machine;

#[path = "doctor/swarm.rs"]
mod swarm;
