//! `docker stats` for a whole swarm: node shippers, a sharded collector tier, a router and a CLI plugin.
//!
//! The map, in reading order. Dependencies point down only: shell → adapters → core.
//!
//! * **core** (pure: no I/O, no clock, no randomness, no async): [`rules`] which of LEDGER.md a test may switch off, [`stat`] the catalogue, [`model`] the vocabulary,
//!   [`message`] what shipper and collector say, [`view`] what is asked and answered, [`swarm`] what Swarm says itself, [`codec`] the block of a batch,
//!   [`shard`] who owns a key, [`outbox`] what a shipper owes, [`aggregate`] what a collector knows, [`join`] many
//!   answers made one, [`figures`] a report made groups of figures, [`subscriptions`] what a stream is subscribed to,
//!   [`config`] YAML made a checked config.
//! * **adapters** (pure translation): [`wire`] protobuf, [`json`] the documents, [`status`] what a process says of itself, [`metrics`] exposition, [`retry`] how long to wait.
//! * **shell** (sockets, clocks, loops): [`clock`], [`serve`] listeners, [`discovery`] the membership, [`router`] asks
//!   the members and joins what they say, [`source`] how a node's figures are read, [`manager`] lists what Swarm says, [`collector`] and [`shipper`] the roles, [`collectord`] and [`shipperd`] their processes,
//!   [`grpc`], [`http`] and [`scrape`] the apis; [`cli`] asks a router from outside and shows its answer.

pub mod rules;
pub mod stat;
pub mod model;
pub mod message;
pub mod view;
pub mod swarm;
pub mod codec;
pub mod shard;
pub mod outbox;
pub mod aggregate;
pub mod join;
pub mod figures;
pub mod subscriptions;
pub mod config;

pub mod wire;
pub mod json;
pub mod status;
pub mod retry;
pub mod metrics;

pub mod clock;
pub mod serve;
pub mod discovery;
pub mod router;
pub mod source;
pub mod manager;
pub mod collector;
pub mod shipper;
pub mod grpc;
pub mod http;
pub mod scrape;
pub mod collectord;
pub mod shipperd;
pub mod cli;
