//! A node's figures for the shipper's loop: who the node is, one tick over its tasks, and the loop that finds them.
//!
//! ```no_run
//! # async fn shipper() -> Result<(), Box<dyn std::error::Error>> {
//! use swarmstats::source::{Config, Docker};
//! let (mut docker, discovery) = Docker::connect(Config::default()).await?;
//! let found = tokio::spawn(discovery.run(|| std::iter::repeat(std::time::Duration::from_secs(1))));
//! let round = docker.sample();
//! # Ok(()) }
//! ```
//!
//! It deliberately sends nothing anywhere and spawns nothing by itself.

use super::{
    Faults, Round,
    cgroup::Host,
    describe::Include,
    discovery::Discovery,
    engine::{self, Engine, api::Info},
    node::{self, Machine, Places},
    table::Table,
    watch::{Choice, Shared, Watch},
};
use crate::{
    model::{NameError, NodeId},
    stat::Level,
};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::{io, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Where to look, and for what.
#[derive(Clone, Debug)]
pub struct Config {
    /// The engine's socket: a path, or `unix://` and a path.
    pub socket: String,
    /// `DOCKER_API_VERSION`: a version to speak instead of the negotiated one.
    pub api_version: Option<String>,
    /// The host's `/proc`, as seen from this process.
    pub host_proc: PathBuf,
    /// The host's `/sys`, as seen from this process; its `fs/cgroup` alone is enough.
    pub host_sys: PathBuf,
    /// Which containers are taken.
    pub include: Include,
    /// Which stats are read.
    pub level: Level,
    /// Which container labels are kept.
    pub labels: Vec<String>,
    /// How often all containers are listed, for what events missed.
    pub relist: Duration,
    /// At most this many tasks.
    pub max_tasks: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            socket: "/var/run/docker.sock".into(),
            api_version: None,
            host_proc: "/proc".into(),
            host_sys: "/sys".into(),
            include: Include::Swarm,
            level: Level::Standard,
            labels: Vec::new(),
            relist: Duration::from_secs(30),
            max_tasks: 4096,
        }
    }
}

/// Why reading cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// The mount table.
    #[error("cannot read the mounts in {0}/self/mountinfo: mount the host's /proc there, or set host_proc")]
    Mounts(PathBuf, #[source] io::Error),
    /// An identity that cannot be.
    #[error("the engine says who this node is in a form that no engine has")]
    Identity(#[from] NameError),
}

/// Who the node is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Swarm's id of it; where there is no swarm, the engine's.
    pub node_id: NodeId,
    /// The host's name.
    pub node_name: Arc<str>,
}

/// A node's id: Swarm's, or where there is none the engine's.
///
/// # Errors
/// If it is one that no engine makes.
pub(super) fn node_id(info: &Info) -> Result<NodeId, NameError> {
    NodeId::new(if info.swarm.node_id.is_empty() { &info.id } else { &info.swarm.node_id })
}

/// A node and its tasks, ready to be sampled.
pub struct Docker {
    node: Node,
    machine: Machine,
    shared: Arc<Shared>,
}

impl Docker {
    /// Asks the engine who this node is. Nothing is known of its tasks before [`Discovery::run`] runs, which the caller
    /// spawns and may drop at any moment.
    ///
    /// # Errors
    /// If the engine does not answer or the mount table cannot be read; trying again later may help.
    pub async fn connect(config: Config) -> Result<(Docker, Discovery), Error> {
        let engine = Engine::new(&config.socket, config.api_version.as_deref())?;
        engine.negotiate(false).await?;
        let info = engine.info().await?;
        let host = Host::new(&config.host_proc, &config.host_sys)
            .map_err(|error| Error::Mounts(config.host_proc.clone(), error))?;
        let node = Node { node_id: node_id(&info)?, node_name: info.name.as_str().into() };
        let places = Places {
            proc_: config.host_proc.clone(),
            sys: config.host_sys.clone(),
            network_of: node::engine_process(&config.socket, &config.host_proc).await,
            data: node::data_of_engine(&info.docker_root_dir),
        };
        let machine = Machine::new(places, config.level);
        let shared = Arc::new(Shared::new(Table::new(host, config.level, config.max_tasks)));
        let choice = Choice { include: config.include, labels: config.labels };
        let watch = Watch::new(shared.clone(), node.clone(), choice);
        let discovery = Discovery::new(engine, shared.clone(), watch, config.relist);
        Ok((Docker { node, machine, shared }, discovery))
    }

    /// Who the node is.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Follows what is wrong with the engine; `None` while it answers.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.shared.trouble.subscribe()
    }

    /// One tick: reads the machine and every task once, some 30 µs each; waits for nobody.
    pub fn sample(&mut self) -> Round {
        let machine = self.machine.read();
        let (round, look) = {
            let mut table = self.shared.table();
            (Round { machine, ..table.sample() }, table.wants_a_look())
        };
        if look {
            self.shared.wake.notify_one();
        }
        round
    }

    /// What could not be read or understood since the beginning.
    pub fn faults(&self) -> Faults {
        let mut faults = self.shared.table().faults().clone();
        self.machine.faults().iter().for_each(|(fault, n)| faults.add(fault, n));
        faults
    }
}

/// Lets this process hold as many files open as it may: some fifteen a task are needed. Gives how many.
///
/// # Errors
/// If the kernel refuses.
pub fn raise_open_files_limit() -> io::Result<Option<u64>> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(limit.current)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p05_cloned_machines_with_one_engine_id_are_two_nodes() {
        let info = |json: &str| serde_json::from_str::<Info>(json).unwrap();
        let clone = |node: &str| info(&format!(r#"{{"ID":"7TRN:IPZB","Name":"vm","Swarm":{{"NodeID":"{node}"}}}}"#));
        let (one, other) = (node_id(&clone("uptimqtenixg79kuf8h9rctqy")), node_id(&clone("k1p8vqnzkh0ksbmi7t2vd4l3s")));
        assert_ne!(one.unwrap(), other.unwrap());
        let alone = info(r#"{"ID":"7TRN:IPZB","Swarm":{"NodeID":"","LocalNodeState":"inactive"}}"#);
        assert_eq!(node_id(&alone).unwrap().as_str(), "7TRN:IPZB", "where there is no swarm");
    }
}
