//! What the engine's events, listings and inspections mean for the table.
//!
//! An event may come twice, late, or while the same container is being inspected; an inspection may be of the next
//! incarnation already. Each incarnation is taken up once and told to be over once. It deliberately asks the engine
//! nothing: it says which containers to inspect.

use super::{
    Fault, Node,
    cgroup::Target,
    describe::{Container, Include},
    engine::{
        Error,
        api::{Event, Inspect, Listed},
    },
    parse,
    table::{Exit, Table},
};
use crate::model::{NameError, TaskMeta};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// The table, shared between the loop that keeps it true and the one that samples it.
#[derive(Debug)]
pub struct Shared {
    table: Mutex<Table>,
    /// The sampler would like something looked at.
    pub wake: Notify,
}

impl Shared {
    /// Around a table.
    pub fn new(table: Table) -> Shared {
        Shared { table: Mutex::new(table), wake: Notify::new() }
    }

    /// The table. Held for one tick at most (some 30 µs a container), never across an await. A panic of another holder
    /// leaves it usable: a tick or a change is missed at worst.
    pub fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which containers are taken, and what of their labels.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Which containers.
    pub include: Include,
    /// Which labels.
    pub labels: Vec<String>,
}

/// What is known of containers from events, while the engine is asked about them.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    node: Node,
    choice: Choice,
    /// The number of the newest listing that was asked for.
    listing: u64,
    asked: BTreeMap<Arc<str>, Asked>,
    /// The newest event's time, by the engine's clock.
    newest: Option<u64>,
}

/// A container that the engine is being asked about.
#[derive(Debug, Default)]
struct Asked {
    start: Option<Event>,
    /// It ended meanwhile.
    died: Option<(u64, Exit)>,
    /// It was started again meanwhile: ask again.
    again: Option<Event>,
}

impl Watch {
    /// Of a node; nothing is known yet.
    pub fn new(shared: Arc<Shared>, node: Node, choice: Choice) -> Watch {
        Watch { shared, node, choice, listing: 0, asked: BTreeMap::new(), newest: None }
    }

    /// Who the node is.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// From when on events are not known yet, by the engine's clock; `None` before the first.
    pub fn since(&self) -> Option<u64> {
        self.newest.map(|newest| newest + 1)
    }

    /// A listing is about to be asked for: its number.
    pub fn next_listing(&mut self) -> u64 {
        self.listing += 1;
        self.listing
    }

    /// Takes an event; gives the container to inspect, if one has to be.
    pub fn event(&mut self, event: Event) -> Option<Arc<str>> {
        let id: Arc<str> = event.actor.id.as_str().into();
        if event.kind != "container" || id.is_empty() {
            self.shared.table().faults().count(Fault::Event);
            return None;
        }
        self.newest = self.newest.max(Some(event.time_nano));
        let attributes = &event.actor.attributes;
        match event.action.as_str() {
            "start" if self.choice.include.takes(attributes) => return self.ask(id, Some(event)),
            "rename" if self.shared.table().target(&id).is_some() => return self.ask(id, None),
            "oom" => self.shared.table().out_of_memory(&id),
            "die" | "destroy" => {
                let code = attributes.get("exitCode").and_then(|code| code.parse().ok());
                let exit = Exit { code, oom_killed: false };
                if let Some(asked) = self.asked.get_mut(&id) {
                    asked.died.get_or_insert((event.time_nano, exit));
                }
                self.shared.table().ended(&id, exit, Some(event.time_nano));
            }
            _ => {}
        }
        None
    }

    /// Notes that a container is to be inspected; gives it unless that is under way.
    pub fn ask(&mut self, id: Arc<str>, start: Option<Event>) -> Option<Arc<str>> {
        if let Some(asked) = self.asked.get_mut(&id) {
            asked.again = start.or(asked.again.take());
            return None;
        }
        self.asked.insert(id.clone(), Asked { start, ..Asked::default() });
        Some(id)
    }

    /// Takes a listing; gives the containers to inspect.
    pub fn listed(&mut self, number: u64, listed: &[Listed]) -> Vec<Arc<str>> {
        let taken = listed.iter().filter(|container| self.choice.include.takes(&container.labels));
        // Whatever the state is called, the engine lists what runs; `created` and the like are told apart by inspect.
        let running: Vec<&str> = taken.map(|container| container.id.as_str()).collect();
        let interesting = self.shared.table().listed(&running, number);
        interesting.into_iter().filter_map(|id| self.ask(id.into(), None)).collect()
    }

    /// Takes the answer to an inspection. Gives the container to watch the first process of, if it was taken up; and
    /// whether to inspect it again.
    pub fn inspected(&mut self, id: &Arc<str>, answer: Result<Inspect, Error>) -> (Option<Target>, bool) {
        let mut asked = self.asked.remove(id).unwrap_or_default();
        let again = asked.again.take().is_some_and(|start| self.ask(id.clone(), Some(start)).is_some());
        let taken = match answer {
            Ok(inspect) => self.known(&inspect, asked),
            Err(error) if error.is_not_found() => self.vanished(id, asked).map(|()| None),
            Err(error) => {
                tracing::warn!(container = &**id, %error, "cannot inspect a container; it is looked at again later");
                self.shared.table().faults().count(Fault::Engine);
                Ok(None)
            }
        };
        let taken = taken.unwrap_or_else(|error| {
            tracing::warn!(container = &**id, %error, "a container whose name or ids cannot be shown is left out");
            self.shared.table().faults().count(Fault::Identity);
            None
        });
        (taken, again)
    }

    fn known(&self, inspect: &Inspect, asked: Asked) -> Result<Option<Target>, NameError> {
        let started_at = parse::rfc3339(&inspect.state.started_at).unwrap_or(0);
        let mut table = self.shared.table();
        let (network, shares_netns) = network(&inspect.host_config.network_mode, &table);
        let container = Container {
            id: &inspect.id,
            name: &inspect.name,
            image: &inspect.config.image,
            labels: &inspect.config.labels,
            started_at: started_at / 1_000_000,
            shares_netns,
        };
        let meta = container.task(&self.node, &self.choice.labels)?;
        let over = asked.died.filter(|(at, _)| *at >= started_at);
        if let (Some(start), Some((at, exit)), None) = (&asked.start, asked.died, over) {
            // This is the next incarnation already; the one that was asked about came and went.
            let meta = TaskMeta { started_at: start.time_nano / 1_000_000, ..meta.clone() };
            table.missed(meta, exit, at.saturating_sub(start.time_nano));
        }
        if !inspect.state.running || over.is_some() {
            let (at, exit) = over.map_or((None, Exit::default()), |(at, exit)| (Some(at), exit));
            let code = exit.code.or_else(|| (!inspect.state.running).then_some(inspect.state.exit_code));
            let exit = Exit { code, oom_killed: inspect.state.oom_killed };
            if table.target(&inspect.id).is_some() {
                table.ended(&inspect.id, exit, at);
            } else if asked.start.is_some() {
                table.missed(meta, exit, at.map_or(0, |at| at.saturating_sub(started_at)));
            }
            return Ok(None);
        }
        let target = Target {
            container_id: inspect.id.clone(),
            pid: inspect.state.pid,
            cgroup_parent: inspect.host_config.cgroup_parent.clone(),
            network,
            started_at,
        };
        Ok(table.started(meta, target.clone(), self.listing).then_some(target))
    }

    /// The engine knows no such container any more; its start event has what is needed to say who it was.
    fn vanished(&self, id: &Arc<str>, asked: Asked) -> Result<(), NameError> {
        let mut table = self.shared.table();
        let (at, exit) = asked.died.map_or((None, Exit::default()), |(at, exit)| (Some(at), exit));
        if table.target(id).is_some() {
            table.ended(id, exit, at);
        } else if let Some(event) = asked.start {
            let attributes = &event.actor.attributes;
            let text = |name: &str| attributes.get(name).map(String::as_str).unwrap_or_default();
            let container = Container {
                id,
                name: text("name"),
                image: text("image"),
                labels: attributes,
                started_at: event.time_nano / 1_000_000,
                shares_netns: false,
            };
            let meta: TaskMeta = container.task(&self.node, &self.choice.labels)?;
            table.missed(meta, exit, at.map_or(0, |at| at.saturating_sub(event.time_nano)));
        }
        Ok(())
    }
}

/// Whether a container has network figures, and whether they are another container's. The host's are nobody's.
fn network(mode: &str, table: &Table) -> (bool, bool) {
    match mode.strip_prefix("container:") {
        Some(owner) => match table.target(owner) {
            Some(owner) if !owner.network => (false, false),
            _ => (true, true),
        },
        None => (!matches!(mode, "host" | "none"), false),
    }
}
