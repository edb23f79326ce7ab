//! `docker stats` for a whole swarm: node shippers, a sharded collector tier, a router and a CLI plugin.
//!
//! The map, in reading order. Dependencies point down only: shell → adapters → core.
//!
//! * **core** (pure: no I/O, no clock, no randomness, no async): [`stat`] the catalogue, [`model`] the vocabulary.
//! * **shell**: [`source`] how a node's figures are read.

pub mod stat;
pub mod model;
pub mod message;
pub mod view;
pub mod source;
