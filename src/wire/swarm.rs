//! What Swarm says, on the wire.

use super::{WireError, pb, text};
use crate::model::{NodeId, ServiceId, TaskId};
use crate::swarm::{List, Mode, Node, Resources, Service, Swarm, Task, Truth, shown};
use std::sync::Arc;

/// More of a message than any member keeps; what a peer sends beyond it is cut off, in bytes.
const MAX_MESSAGE: usize = 1_000;

fn message(text: &str) -> Arc<str> {
    shown(text, MAX_MESSAGE)
}

impl From<&Swarm> for pb::Swarm {
    fn from(swarm: &Swarm) -> Self {
        pb::Swarm {
            trouble: swarm.trouble.as_deref().unwrap_or_default().to_string(),
            list: swarm.list.as_ref().map(Into::into),
            ..pb::Swarm::default()
        }
    }
}

impl TryFrom<pb::Swarm> for Swarm {
    type Error = WireError;
    fn try_from(given: pb::Swarm) -> Result<Self, WireError> {
        Ok(Swarm {
            list: given.list.map(TryInto::try_into).transpose()?,
            trouble: (!given.trouble.is_empty()).then(|| message(&given.trouble)),
        })
    }
}

impl From<&Truth> for pb::Swarm {
    fn from(truth: &Truth) -> Self {
        pb::Swarm {
            trouble: String::new(),
            list: Some((&truth.list).into()),
            orphans: truth.orphans.iter().map(ToString::to_string).collect(),
            absent: truth.absent.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<&List> for pb::SwarmList {
    fn from(list: &List) -> Self {
        pb::SwarmList {
            age_ms: list.age,
            listed_at_ms: list.listed_at,
            watched_ms: list.watched,
            services: list.services.iter().map(service).collect(),
            tasks: list.tasks.iter().map(task).collect(),
            nodes: list.nodes.iter().map(node).collect(),
        }
    }
}

impl TryFrom<pb::SwarmList> for List {
    type Error = WireError;
    fn try_from(given: pb::SwarmList) -> Result<Self, WireError> {
        Ok(List {
            age: given.age_ms,
            listed_at: given.listed_at_ms,
            watched: given.watched_ms,
            services: given.services.into_iter().map(service_of).collect::<Result<_, _>>()?,
            tasks: given.tasks.into_iter().map(task_of).collect::<Result<_, _>>()?,
            nodes: given.nodes.into_iter().map(node_of).collect::<Result<_, _>>()?,
        })
    }
}

fn service((id, service): (&ServiceId, &Service)) -> pb::SwarmService {
    pb::SwarmService {
        id: id.to_string(),
        name: service.name.to_string(),
        stack: service.stack.to_string(),
        mode: service.mode.as_str().to_string(),
        desired: service.desired,
        running: service.running,
        completed: service.completed.map(|(done, _)| done),
        total_completions: service.completed.map_or(0, |(_, total)| total),
        update: service.update.to_string(),
        update_message: service.update_message.to_string(),
        stop_grace_ms: service.stop_grace,
    }
}

fn service_of(given: pb::SwarmService) -> Result<(ServiceId, Service), WireError> {
    let service = Service {
        name: text("service name", given.name)?,
        stack: text("stack", given.stack)?,
        // A mode of a later version: nothing here depends on it.
        mode: Mode::named(&given.mode).unwrap_or_default(),
        desired: given.desired,
        running: given.running,
        completed: given.completed.map(|done| (done, given.total_completions)),
        update: text("update status", given.update)?,
        update_message: message(&given.update_message),
        stop_grace: given.stop_grace_ms,
    };
    Ok((ServiceId::new(given.id)?, service))
}

fn task((id, task): (&TaskId, &Task)) -> pb::SwarmTask {
    pb::SwarmTask {
        id: id.to_string(),
        service_id: task.service.to_string(),
        slot: task.slot,
        node_id: task.node.as_ref().map_or_else(String::new, ToString::to_string),
        state: task.state.to_string(),
        wanted: task.wanted,
        lasts_ms: task.lasts,
        error: task.error.to_string(),
    }
}

fn task_of(given: pb::SwarmTask) -> Result<(TaskId, Task), WireError> {
    let task = Task {
        service: ServiceId::new(given.service_id)?,
        slot: given.slot,
        node: if given.node_id.is_empty() { None } else { Some(NodeId::new(given.node_id)?) },
        state: text("task state", given.state)?,
        wanted: given.wanted,
        lasts: given.lasts_ms,
        error: message(&given.error),
    };
    Ok((TaskId::new(given.id)?, task))
}

fn node((id, node): (&NodeId, &Node)) -> pb::SwarmNode {
    pb::SwarmNode {
        id: id.to_string(),
        name: node.name.to_string(),
        role: node.role.to_string(),
        availability: node.availability.to_string(),
        status: node.status.to_string(),
        message: node.message.to_string(),
        capacity: Some(resources(node.capacity)),
        reserved: Some(resources(node.reserved)),
        desired: node.desired,
    }
}

fn node_of(given: pb::SwarmNode) -> Result<(NodeId, Node), WireError> {
    let node = Node {
        name: text("node name", given.name)?,
        role: text("role", given.role)?,
        availability: text("availability", given.availability)?,
        status: text("node status", given.status)?,
        message: message(&given.message),
        capacity: resources_of(given.capacity),
        reserved: resources_of(given.reserved),
        desired: given.desired,
    };
    Ok((NodeId::new(given.id)?, node))
}

fn resources(of: Resources) -> pb::SwarmResources {
    pb::SwarmResources { nano_cpus: of.nano_cpus, memory_bytes: of.memory_bytes }
}

fn resources_of(given: Option<pb::SwarmResources>) -> Resources {
    let given = given.unwrap_or_default();
    Resources { nano_cpus: given.nano_cpus, memory_bytes: given.memory_bytes }
}
