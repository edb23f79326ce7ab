//! Swarm's own truth: what a manager's engine lists of services, tasks and nodes, and how old that list is.
//!
//! A list is one moment's, whole, and of one engine: lists are never merged, the youngest one counts. What it says of a
//! node is its state and nothing else's: a node that is not on it is no node of the swarm.
//! It deliberately asks nobody (that is `manager`) and concludes nothing about samples (that is `join`).

mod read;

pub use read::{Answers, Limits, ReadError, TooMany};

use crate::model::{Millis, NodeId, ServiceId, TaskId};
use crate::view::{Ask, Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A list older than this says nothing any more about what runs now: six times the pause between two lists.
pub const FRESH_FOR: Millis = 30_000;
/// A task that Swarm calls running for less may well have no sample yet.
pub const SETTLED: Millis = 10_000;
/// For how long beyond its time to stop a task is no orphan yet.
pub const LATE: Millis = 20_000;
/// How long the tasks of a service may take to stop that was gone before anybody listed it.
pub const STOP_GRACE_UNKNOWN: Millis = 600_000;

/// What a process with an engine knows of Swarm.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Swarm {
    /// The newest list, unless there never was one or it is too old to show.
    pub list: Option<List>,
    /// Why there is no newer one, with a remedy.
    pub trouble: Option<Arc<str>>,
}

/// What an engine listed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct List {
    /// How old it is.
    pub age: Millis,
    /// When it was made, by its reader's wall clock.
    pub listed_at: Millis,
    /// For how long its lister has been listing without a gap: what was told to stop before that is not on it.
    pub watched: Millis,
    /// All services; in a [`List::narrowed`] one, those not asked for by name, stack and time to stop alone.
    pub services: BTreeMap<ServiceId, Service>,
    /// The tasks that Swarm wants or wanted a moment ago; in a [`List::narrowed`] one, those asked for.
    pub tasks: BTreeMap<TaskId, Task>,
    /// All nodes; in a [`List::narrowed`] one, those not asked for without what they are and have.
    pub nodes: BTreeMap<NodeId, Node>,
}

/// How a service's tasks come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names are Swarm's")]
pub enum Mode {
    #[default]
    Replicated,
    Global,
    ReplicatedJob,
    GlobalJob,
}

impl Mode {
    /// Swarm's name of it, as in `docker service create --mode`.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Replicated => "replicated",
            Mode::Global => "global",
            Mode::ReplicatedJob => "replicated-job",
            Mode::GlobalJob => "global-job",
        }
    }
    /// The mode of that name.
    pub fn named(name: &str) -> Option<Mode> {
        [Mode::Replicated, Mode::Global, Mode::ReplicatedJob, Mode::GlobalJob].into_iter().find(|m| m.as_str() == name)
    }
}

/// A service, with the numbers of `docker service ls`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Service {
    /// Its name.
    pub name: Arc<str>,
    /// Its stack, or empty.
    pub stack: Arc<str>,
    /// How its tasks come about.
    pub mode: Mode,
    /// How many tasks shall run now.
    pub desired: u64,
    /// How many slots, or nodes of a global service, have a task that Swarm wants and calls running on a node that is up.
    pub running: u64,
    /// Of a job: how many tasks are done, and how many shall be.
    pub completed: Option<(u64, u64)>,
    /// `updating`, `paused`, … of its newest update; empty if it never had one.
    pub update: Arc<str>,
    /// What Swarm says about that.
    pub update_message: Arc<str>,
    /// How long its tasks may take to stop.
    pub stop_grace: Millis,
}

impl Service {
    /// Enough of it where it is not asked for.
    fn bare(&self) -> Service {
        let Service { name, stack, stop_grace, .. } = self;
        Service { name: name.clone(), stack: stack.clone(), stop_grace: *stop_grace, ..Service::default() }
    }
    /// Whether its update waits for somebody to do something.
    pub fn is_paused(&self) -> bool {
        matches!(&*self.update, "paused" | "rollback_paused")
    }
}

/// How far a task is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// No node was found for it yet.
    Waiting,
    /// On its way on a node.
    Starting,
    /// Its container runs.
    Running,
    /// It is over, well or not.
    Over,
}

/// A task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Whose it is.
    pub service: ServiceId,
    /// 0 for global services.
    pub slot: u64,
    /// Where it is or shall be.
    pub node: Option<NodeId>,
    /// Swarm's word for how far it is.
    pub state: Arc<str>,
    /// Swarm wants it to run; otherwise it was told to stop a moment ago.
    pub wanted: bool,
    /// For how long it is known to run; of a task that was told to stop, for how long it still may.
    pub lasts: Millis,
    /// What hinders it, in Swarm's words; empty if nothing does.
    pub error: Arc<str>,
}

impl Task {
    /// How far it is.
    pub fn phase(&self) -> Phase {
        Phase::of(&self.state)
    }
}

impl Phase {
    /// What Swarm's word for a task's state means; a word that is not known counts as one on the way.
    pub fn of(state: &str) -> Phase {
        match state {
            "new" | "pending" | "allocated" => Phase::Waiting,
            "running" => Phase::Running,
            "complete" | "shutdown" | "failed" | "rejected" | "remove" | "orphaned" => Phase::Over,
            _ => Phase::Starting,
        }
    }
}

/// Whether a task takes up a place that a service wants filled, by Swarm's words for what it shall be and what it is; a
/// job's task does until it is done.
pub fn is_live(desired: &str, state: &str) -> bool {
    match desired {
        "shutdown" | "remove" | "orphaned" => false,
        "complete" => Phase::of(state) < Phase::Over,
        _ => true,
    }
}

/// CPU time and memory that a node has or tasks reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resources {
    /// Billionths of a CPU.
    pub nano_cpus: u64,
    /// Bytes.
    pub memory_bytes: u64,
}

impl Resources {
    fn add(&mut self, other: Resources) {
        self.nano_cpus = self.nano_cpus.saturating_add(other.nano_cpus);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
    }
}

/// A node, as Swarm sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// Its host name.
    pub name: Arc<str>,
    /// `manager` or `worker`.
    pub role: Arc<str>,
    /// `active`, `pause` or `drain`.
    pub availability: Arc<str>,
    /// `ready`, `down`, `disconnected` or `unknown`.
    pub status: Arc<str>,
    /// Why, in Swarm's words, or empty.
    pub message: Arc<str>,
    /// What it has.
    pub capacity: Resources,
    /// What the tasks on it reserve, as the scheduler counts: assigned to it, wanted and not over.
    pub reserved: Resources,
    /// How many tasks shall run on it.
    pub desired: u64,
}

impl Node {
    /// Enough of it where it is not asked for.
    fn bare(&self) -> Node {
        let (role, none) = (Arc::default(), Resources::default());
        Node { role, capacity: none, reserved: none, ..self.clone() }
    }
    /// Swarm does not reach it; `unknown`, as after a change of leader, is not that.
    pub fn is_down(&self) -> bool {
        matches!(&*self.status, "down" | "disconnected")
    }
    /// No task shall be on it.
    pub fn is_drained(&self) -> bool {
        &*self.availability == "drain"
    }
}

impl List {
    /// Whether it still tells what is so now.
    pub fn is_fresh(&self) -> bool {
        self.age <= FRESH_FOR
    }

    /// The list with the tasks that a question is about, or more of them: services and tasks are told apart here, all
    /// else may be named differently by Swarm and by a container's labels. Of the other services and nodes it has what
    /// tells them from those asked for and excuses silence.
    pub fn narrowed(&self, ask: &Ask) -> List {
        let is = |want: &Option<Arc<str>>, id: &str, name: &str| {
            want.as_deref().is_none_or(|text| text == id || text == name)
        };
        let takes_task = |id: &TaskId, task: &Task| {
            ask.selectors.iter().any(|selector| {
                let service = self.services.get(&task.service).map_or("", |service| &service.name);
                is(&selector.service, task.service.as_str(), service)
                    && selector.task.as_deref().is_none_or(|text| self.is_called(id, task, text))
            })
        };
        let takes_service = |id: &ServiceId, service: &Service| {
            let takes = |selector: &Selector| {
                let of_stack = selector.stack.as_deref().is_none_or(|text| text == &*service.stack);
                selector.task.is_none() && of_stack && is(&selector.service, id.as_str(), &service.name)
            };
            ask.selectors.iter().any(takes)
        };
        let takes_node = |id: &NodeId, node: &Node| {
            let is_of_nodes = |s: &Selector| [&s.service, &s.stack, &s.task].iter().all(|text| text.is_none());
            ask.selectors.iter().any(|selector| is_of_nodes(selector) && is(&selector.node, id.as_str(), &node.name))
        };
        let tasks = self.tasks.iter().filter(|(id, task)| takes_task(id, task));
        let services = self.services.iter().map(|(id, service)| {
            (id.clone(), if takes_service(id, service) { service.clone() } else { service.bare() })
        });
        let nodes = self
            .nodes
            .iter()
            .map(|(id, node)| (id.clone(), if takes_node(id, node) { node.clone() } else { node.bare() }));
        List {
            age: self.age,
            listed_at: self.listed_at,
            watched: self.watched,
            services: services.collect(),
            tasks: tasks.map(|(id, task)| (id.clone(), task.clone())).collect(),
            nodes: nodes.collect(),
        }
    }

    /// Whether a text means a task as [`crate::view::Selector::task`] does: by id, its beginning, or name.
    pub fn is_called(&self, id: &TaskId, task: &Task, text: &str) -> bool {
        let is_name = || {
            let (name, place) = (self.service_name(task), self.place(task));
            let rest = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
            let rest = rest.and_then(|rest| rest.strip_prefix(&*place)).and_then(|rest| rest.strip_prefix('.'));
            rest == Some(id.as_str())
        };
        (text.len() >= 4 && id.as_str().starts_with(text)) || text == id.as_str() || is_name()
    }

    /// A task as people speak of it: `web.3`; of a global service by the host, `agent on n2`.
    pub fn task_label(&self, task: &Task) -> String {
        let name = self.service_name(task);
        match &task.node {
            Some(node) if task.slot == 0 => format!("{name} on {}", self.node_label(node)),
            _ => format!("{name}.{}", task.slot),
        }
    }

    /// A node's name, or its id where it has none.
    pub fn node_label<'a>(&'a self, id: &'a NodeId) -> &'a str {
        self.nodes.get(id).map(|node| &*node.name).filter(|name| !name.is_empty()).unwrap_or(id.as_str())
    }

    /// The name of a task's service, or its id.
    pub fn service_name<'a>(&'a self, task: &'a Task) -> &'a str {
        self.services.get(&task.service).map_or(task.service.as_str(), |service| &service.name)
    }

    fn place<'a>(&'a self, task: &'a Task) -> std::borrow::Cow<'a, str> {
        match (&task.node, task.slot) {
            (Some(node), 0) => node.as_str().into(),
            (_, slot) => slot.to_string().into(),
        }
    }
}

/// What a router makes of the youngest list for one answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Truth {
    /// The list, with the services and nodes that were asked for and no task.
    pub list: List,
    /// Tasks that run though Swarm wants them no more: they count for their node, not for their service.
    pub orphans: BTreeSet<TaskId>,
    /// Nodes whose tasks Swarm does not count any more: removed from the swarm, or not reached by it and silent.
    pub absent: BTreeSet<NodeId>,
}

/// A text of somebody else's as it may be shown and sent: no longer than `most` bytes, on one line.
pub(crate) fn shown(text: &str, most: usize) -> Arc<str> {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().into()
}

/// Whether an id is one that Swarm makes: an engine outside of a swarm goes by another kind.
pub fn is_swarm_id(id: &str) -> bool {
    id.len() == 25 && id.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
}
