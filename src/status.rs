//! What a process says of itself at `GET /v1/status`: who it is, which ring it sees, where it listens, what it lacks.
//!
//! One shape for the daemons that write it and for `doctor`, which reads it: fields it does not know are ignored, fields
//! that are not there are empty, so that old and new versions understand each other. Counts are since the process began.
//! It deliberately carries no figure of a task.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// See the head of this file.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// `collector`, `router`, `shipper`.
    pub roles: Vec<String>,
    /// The member's id; of a shipper `shipper`.
    #[serde(default)]
    pub member: String,
    /// This process: another one after a restart.
    #[serde(default)]
    pub process: String,
    /// The Swarm node it runs on, if known.
    #[serde(default)]
    pub node_id: Option<String>,
    /// The ring it sees, if any.
    #[serde(default)]
    pub ring_id: Option<String>,
    /// How many members are to hold each task.
    #[serde(default)]
    pub replicas: u32,
    /// Version of the key hash.
    #[serde(default)]
    pub hash_version: u32,
    /// Where it listens.
    #[serde(default)]
    pub listens: Vec<Listens>,
    /// The most files it may hold open; `None` is no limit.
    #[serde(default)]
    pub open_files_limit: Option<u64>,
    /// Why it is not ready; empty when it is.
    #[serde(default)]
    pub not_ready: Vec<String>,
    /// What it did not take or could not read, by reason, where that is not 0.
    #[serde(default)]
    pub faults: BTreeMap<String, u64>,
    /// Of a shipper: what it can see of its machine.
    #[serde(default)]
    pub shipper: Option<OfShipper>,
}

/// What only a shipper says.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OfShipper {
    /// Tasks it reads.
    pub tasks: u64,
    /// Streams to collectors that are open.
    pub streams: u64,
    /// Task samples that the engine had to give because the cgroup cannot be seen.
    pub samples_by_engine: u64,
    /// Its machine.
    pub machine: Machine,
}

/// An endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Listens {
    /// `api` or `metrics`.
    pub endpoint: String,
    /// Where; port 0 where the system chose one.
    pub address: SocketAddr,
}

/// What can be seen of a machine from one process on it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Where its `/proc` is looked for.
    pub proc_path: String,
    /// Where its `/sys` is looked for.
    pub sys_path: String,
    /// Why its mount table cannot be read, if so.
    pub mounts_trouble: Option<String>,
    /// The cgroup versions that are mounted and can be read: none, `1`, `2`, or both (hybrid).
    pub cgroups: Vec<u8>,
    /// Whether memory is counted by cgroup.
    pub memory_controller: bool,
    /// Whether the kernel tells pressure (PSI).
    pub pressure: bool,
}

/// Both endpoints, as a config has them.
pub fn listens(api: Option<SocketAddr>, metrics: Option<SocketAddr>) -> Vec<Listens> {
    let listens = |endpoint: &str, address: Option<SocketAddr>| {
        address.map(|address| Listens { endpoint: endpoint.into(), address })
    };
    listens("api", api).into_iter().chain(listens("metrics", metrics)).collect()
}
