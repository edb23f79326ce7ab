//! Properties: what holds for every input, not for one example.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "props/shard.rs"]
mod shard;
