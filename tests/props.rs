//! Properties: what holds for every input, not for one example.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "props/codec.rs"]
mod codec;
#[path = "props/shard.rs"]
mod shard;

#[path = "props/join.rs"]
mod join;

#[path = "props/rising.rs"]
mod rising;

#[path = "query/fixtures.rs"]
mod fixtures;
