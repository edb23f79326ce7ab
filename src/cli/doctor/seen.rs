//! What the probes bring home: plain facts, not yet judged.

use crate::cli::row::or_default;
use crate::source::engine::api::Info;
use crate::status::{Machine, Status};
use crate::swarm;
use serde::Deserialize;
use std::time::Duration;

/// What came of asking an address.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// No connection: why.
    Closed(String),
    /// A connection, but no answer within so long.
    Silent(Duration),
    /// An answer, but not one of ours: what it was.
    Foreign(String),
    /// One of ours: what it says of itself, and how many seconds its clock is ahead of ours (to a second or so).
    Ours(Box<Status>, Option<f64>),
}

impl Answer {
    /// What it says of itself.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Answer::Ours(status, _) => Some(status),
            _ => None,
        }
    }
}

/// An address that was asked.
#[derive(Clone, PartialEq, Debug)]
pub struct Spot {
    /// Where: `http://…`; of a member its id as well.
    pub place: String,
    /// What came of it.
    pub answer: Answer,
}

/// An engine that was asked.
#[derive(Clone, PartialEq, Debug)]
pub enum Engine {
    /// Not asked: it is not on this machine's socket.
    Elsewhere(String),
    /// No answer: which kind (as in a finding's code), and what was said.
    Trouble(&'static str, String),
    /// It answers.
    Answers {
        /// Its socket.
        socket: String,
        /// Who it is.
        info: Box<Info>,
        /// The version spoken with it.
        api: String,
        /// What it says as a manager; `None` where it is none.
        swarm: Option<Result<Vec<SwarmNode>, String>>,
    },
}

impl Engine {
    /// The nodes of the swarm, where a manager told.
    pub fn nodes(&self) -> Option<&[SwarmNode]> {
        match self {
            Engine::Answers { swarm: Some(Ok(nodes)), .. } => Some(nodes),
            _ => None,
        }
    }
    /// The Swarm node here.
    pub fn node_id(&self) -> Option<&str> {
        match self {
            Engine::Answers { info, .. } => Some(&*info.swarm.node_id).filter(|id| !id.is_empty()),
            _ => None,
        }
    }
}

macro_rules! of_swarm {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default, Deserialize)]
        #[serde(rename_all = "PascalCase", default)]
        pub struct $name { $($(#[$field_doc])* #[serde(deserialize_with = "or_default")] pub $field: $type),* }
    )*};
}

of_swarm! {
    /// An element of the engine's `GET /nodes`.
    SwarmNode {
        /// Its id.
        #[serde(rename = "ID")] id: String,
        /// What its owner wants of it.
        spec: NodeSpec,
        /// What it is.
        description: NodeDescription,
        /// How it is.
        status: NodeStatus,
    }
    /// Of [`SwarmNode`].
    NodeSpec {
        /// `active`, `pause`, `drain`.
        availability: String,
    }
    /// Of [`SwarmNode`].
    NodeDescription {
        /// Its host's name.
        hostname: String,
    }
    /// Of [`SwarmNode`].
    NodeStatus {
        /// `ready`, `down`, `unknown`, `disconnected`.
        state: String,
        /// Its address.
        addr: String,
    }
    /// An element of the engine's `GET /tasks`.
    SwarmTask {
        /// Its id.
        #[serde(rename = "ID")] id: String,
        /// Whose it is.
        #[serde(rename = "ServiceID")] service_id: String,
        /// Where it runs; empty before it is scheduled.
        #[serde(rename = "NodeID")] node_id: String,
        /// Of a replicated service: which one.
        slot: u64,
        /// What Swarm wants.
        desired_state: String,
        /// How it is.
        status: TaskStatus,
    }
    /// Of [`SwarmTask`].
    TaskStatus {
        /// `running`, `pending`, …
        state: String,
        /// In words.
        message: String,
        /// What went wrong.
        err: String,
    }
}

impl SwarmNode {
    /// Its name, or its id.
    pub fn label(&self) -> &str {
        if self.description.hostname.is_empty() { &self.id } else { &self.description.hostname }
    }
}

impl SwarmTask {
    /// Whether a job's task has done what it was for.
    pub fn is_done(&self) -> bool {
        self.desired_state == "complete" && self.status.state == "complete"
    }
}

/// The tasks to follow of those that Swarm has records of, in the order of their slots: what is over is history, unless
/// it was asked for alone.
pub fn followed(records: &[SwarmTask]) -> Vec<&SwarmTask> {
    let live = |task: &&SwarmTask| records.len() == 1 || swarm::is_live(&task.desired_state, &task.status.state);
    let mut tasks: Vec<&SwarmTask> = records.iter().filter(live).collect();
    tasks.sort_by_key(|task| (task.slot, &task.id));
    tasks
}

/// The ring as the router tells it (`/v1/ring`).
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Ring {
    /// Its id.
    pub ring_id: String,
    /// R.
    pub replicas: u32,
    /// Who is on it.
    pub members: Vec<Member>,
    /// Where the key asked for belongs.
    #[serde(default)]
    pub key: Option<Owners>,
}

/// Of [`Ring`].
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Member {
    /// Its id.
    pub id: String,
    /// `host:port`.
    #[serde(default)]
    pub address: Option<String>,
}

/// Of [`Ring`].
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub struct Owners {
    /// The first is the primary.
    pub owners: Vec<String>,
}

/// A list that a router or member gave: its items, and what it lacks.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Listing {
    /// Nodes or tasks.
    pub items: Vec<Item>,
    /// `what: why`.
    pub missing: Vec<String>,
    /// The router has Swarm's own list, so that what is missing is known.
    pub swarm_told: bool,
}

/// A node or a task of a listing.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// Of a task: where it runs.
    pub node_id: Option<String>,
    /// Of a node, where the router has Swarm's own list: `ready`, `down` …
    pub status: Option<String>,
    /// Of a task: `running`, `stale`, `ended`, …
    pub state: Option<String>,
    /// How old its figures are.
    pub age_seconds: Option<f64>,
    /// k of n.
    pub tasks: Coverage,
}

/// k of n.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct Coverage {
    /// Fresh.
    pub fresh: u64,
    /// Known.
    pub known: u64,
}

/// Everything that was seen of the whole.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// The engine here.
    pub engine: Engine,
    /// The machine, as this process sees it.
    pub machine: Machine,
    /// The router.
    pub router: Spot,
    /// The ring it tells; `None` where it does not.
    pub ring: Option<Ring>,
    /// The nodes it knows.
    pub nodes: Option<Listing>,
    /// The ring's members, `id at address`.
    pub members: Vec<Spot>,
    /// Where a shipper is looked for: first this node's, then whatever other nodes let us see.
    pub shippers: Vec<Spot>,
    /// Where `/metrics` are looked for, with whether one of ours says that it listens there.
    pub metrics: Vec<(Spot, bool)>,
}

/// Everything that was seen of one task or service.
#[derive(Clone, PartialEq, Debug)]
pub struct Trail {
    /// As it was asked for.
    pub name: String,
    /// What Swarm says of it; `None` where no manager is at hand.
    pub swarm: Option<Result<Vec<SwarmTask>, String>>,
    /// What the router answers.
    pub router: Result<Listing, String>,
    /// Each examined task's owner, by task id; `None` where the router does not tell it.
    pub owners: Vec<(String, Option<Owner>)>,
}

/// Who should hold a task, and whether it does.
#[derive(Clone, PartialEq, Debug)]
pub struct Owner {
    /// The member: `id at address`.
    pub member: String,
    /// What it holds of the task; the error says why it does not answer.
    pub holds: Result<Option<Item>, String>,
}
