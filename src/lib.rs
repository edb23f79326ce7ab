//! `docker stats` for a whole swarm: node shippers, a sharded collector tier, a router and a CLI plugin.
//!
//! The map, in reading order. Dependencies point down only: shell → adapters → core.
//!
//! * **core** (pure: no I/O, no clock, no randomness, no async): [`stat`] the catalogue, [`model`] the vocabulary,
//!   [`message`] what shipper and collector say, [`view`] what is asked and answered, [`codec`] the block of a batch,
//!   [`shard`] who owns a key, [`outbox`] what a shipper owes, [`aggregate`] what a collector knows, [`config`] YAML to
//!   a checked config.
//! * **adapters** (pure translation): [`wire`] protobuf, [`retry`] how long to wait, [`metrics`] what Prometheus
//!   scrapes.
//! * **shell** (sockets, clocks, loops): [`clock`], [`discovery`] the membership, [`collector`], [`grpc`] the apis, [`serve`] listeners.

pub mod stat;
pub mod model;
pub mod message;
pub mod view;
pub mod codec;
pub mod shard;
pub mod outbox;
pub mod aggregate;
pub mod config;

pub mod wire;
pub mod retry;
pub mod metrics;

pub mod clock;
pub mod discovery;
pub mod collector;
pub mod grpc;
pub mod serve;
