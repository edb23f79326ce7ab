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
        api::{Event, Inspect, Labels, Listed},
    },
    life::{Exit, Life, health},
    parse,
    round::Unread,
    table::Table,
};
use crate::model::{NameError, TaskMeta};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Notify, watch};

/// The table, shared between the loop that keeps it true and the one that samples it.
#[derive(Debug)]
pub struct Shared {
    table: Mutex<Table>,
    /// The sampler would like something looked at.
    pub wake: Notify,
    /// What the engine did not do when it was last asked; `None` when it did.
    pub trouble: watch::Sender<Option<String>>,
}

impl Shared {
    /// Around a table.
    pub fn new(table: Table) -> Shared {
        Shared { table: Mutex::new(table), wake: Notify::new(), trouble: watch::Sender::new(None) }
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
    /// Its life changed meanwhile: ask again.
    changed: bool,
    /// Who it is, by a listing.
    listed: Option<Listed>,
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
            "update" => self.shared.table().updated(&id),
            "pause" => self.changed(&id, |life| life.paused = true),
            "unpause" => self.changed(&id, |life| life.paused = false),
            "die" | "destroy" => {
                let code = attributes.get("exitCode").and_then(|code| code.parse().ok());
                let exit = Exit { code, oom_killed: false };
                if let Some(asked) = self.asked.get_mut(&id) {
                    asked.died.get_or_insert((event.time_nano, exit));
                }
                self.shared.table().ended(&id, exit, Some(event.time_nano));
            }
            action => {
                if let Some(status) = action.strip_prefix("health_status:") {
                    self.changed(&id, |life| life.health = health(status));
                }
            }
        }
        None
    }

    fn changed(&mut self, id: &Arc<str>, change: impl FnOnce(&mut Life)) {
        if let Some(asked) = self.asked.get_mut(id) {
            asked.changed = true;
        }
        self.shared.table().changed(id, self.listing, change);
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
        // Whatever the state is called, the engine lists what runs; `created` and the like are told apart by inspect.
        let running: Vec<_> = listed.iter().filter(|one| self.choice.include.takes(&one.labels)).collect();
        let interesting = self.shared.table().listed(&running, number);
        let mut asks = Vec::new();
        for one in interesting {
            if let Some(id) = self.ask(one.id.as_str().into(), None) {
                self.asked.entry(id.clone()).or_default().listed = Some(one.clone());
                asks.push(id);
            }
        }
        asks
    }

    /// Takes the answer to an inspection. Gives the container to watch the first process of, if it was taken up; and
    /// whether to inspect it again.
    pub fn inspected(&mut self, id: &Arc<str>, answer: Result<Inspect, Error>) -> (Option<Target>, bool) {
        let mut asked = self.asked.remove(id).unwrap_or_default();
        let (start, changed) = (asked.again.take(), std::mem::take(&mut asked.changed));
        let again = (start.is_some() || changed) && self.ask(id.clone(), start).is_some();
        let taken = match answer {
            Ok(inspect) => self.known(&inspect, asked),
            Err(error) if error.is_not_found() => self.vanished(id, asked).map(|()| None),
            Err(error) => {
                tracing::warn!(container = &**id, %error, "cannot inspect a container; it is looked at again later");
                self.shared.table().faults().count(Fault::Engine);
                self.unanswered(id, asked).map(|()| None)
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
        let state = &inspect.state;
        let life = Life { restarts: inspect.restart_count, health: health(&state.health.status), paused: state.paused };
        let target = Target {
            container_id: inspect.id.clone(),
            pid: state.pid,
            cgroup_parent: inspect.host_config.cgroup_parent.clone(),
            network,
            started_at,
        };
        let over = asked.died.filter(|(at, _)| *at >= started_at);
        if let (Some(start), Some((at, exit)), None) = (&asked.start, asked.died, over) {
            // This is the next incarnation already; the one that was asked about came and went.
            let meta = TaskMeta { started_at: start.time_nano / 1_000_000, ..meta.clone() };
            table.missed(meta, exit, at.saturating_sub(start.time_nano));
        }
        let runs = state.running && !state.restarting;
        if !runs || over.is_some() {
            let (at, exit) = over.map_or((None, Exit::default()), |(at, exit)| (Some(at), exit));
            let code = exit.code.or_else(|| (!runs).then_some(state.exit_code));
            let exit = Exit { code, oom_killed: state.oom_killed };
            if table.target(&inspect.id).is_some_and(|known| known.pid != 0) {
                table.ended(&inspect.id, exit, at);
            } else if asked.start.is_some() {
                table.missed(meta.clone(), exit, at.map_or(0, |at| at.saturating_sub(started_at)));
            }
            if state.restarting {
                table.unreadable(meta, Target { pid: 0, ..target }, life, Unread::Restarting, self.listing);
            } else {
                table.ended(&inspect.id, exit, at);
            }
            return Ok(None);
        }
        Ok(table.started(meta, target.clone(), life, self.listing).then_some(target))
    }

    /// The engine lists a container or told of its start, and says nothing more: it is there, with nothing to read.
    fn unanswered(&self, id: &Arc<str>, asked: Asked) -> Result<(), NameError> {
        let mut table = self.shared.table();
        if table.target(id).is_some() || asked.died.is_some() {
            return Ok(());
        }
        let container = match (&asked.start, &asked.listed) {
            (Some(event), _) => told(id, event),
            (None, Some(listed)) => Container {
                id,
                name: listed.names.first().map_or("", String::as_str),
                image: &listed.image,
                labels: &listed.labels,
                started_at: 0,
                shares_netns: false,
            },
            (None, None) => return Ok(()),
        };
        let meta = TaskMeta { started_at: 0, ..container.task(&self.node, &self.choice.labels)? };
        let target = Target { container_id: id.to_string(), network: true, ..Target::default() };
        table.unreadable(meta, target, Life::default(), Unread::NoAnswer, self.listing);
        Ok(())
    }

    /// The engine knows no such container any more; its start event has what is needed to say who it was.
    fn vanished(&self, id: &Arc<str>, asked: Asked) -> Result<(), NameError> {
        let mut table = self.shared.table();
        let (at, exit) = asked.died.map_or((None, Exit::default()), |(at, exit)| (Some(at), exit));
        if table.target(id).is_some() {
            table.ended(id, exit, at);
        } else if let Some(event) = asked.start {
            let meta: TaskMeta = told(id, &event).task(&self.node, &self.choice.labels)?;
            table.missed(meta, exit, at.map_or(0, |at| at.saturating_sub(event.time_nano)));
        }
        Ok(())
    }
}

/// What a start event says of a container.
fn told<'a>(id: &'a str, event: &'a Event) -> Container<'a> {
    let attributes: &Labels = &event.actor.attributes;
    let text = |name: &str| attributes.get(name).map(String::as_str).unwrap_or_default();
    let (name, image, started_at) = (text("name"), text("image"), event.time_nano / 1_000_000);
    Container { id, name, image, labels: attributes, started_at, shares_netns: false }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::NodeId,
        source::{
            engine::api::Stats,
            fake::{ID, Layout, Machine, PID, STARTED_AT},
            round::{Reading, Round},
        },
        stat::{self, Level},
    };

    struct Rig {
        _machine: Machine,
        watch: Watch,
    }

    const SECOND: u64 = 1_000_000_000;

    fn rig() -> Rig {
        let machine = Machine::new(Layout::V1Apart);
        machine.container(&format!("/docker/{ID}"));
        let node = Node { node_id: NodeId::new("n1").unwrap(), node_name: "worker-1".into() };
        let shared = Arc::new(Shared::new(Table::new(machine.host(), Level::Standard, 3)));
        let choice = Choice { include: Include::Swarm, labels: Vec::new() };
        Rig { _machine: machine, watch: Watch::new(shared, node, choice) }
    }

    fn event(id: &str, action: &str, at: u64) -> Event {
        let json = serde_json::json!({
            "Type": "container", "Action": action, "timeNano": at,
            "Actor": {"ID": id, "Attributes": {
                "com.docker.swarm.task.id": "t1", "com.docker.swarm.task.name": "web.1.t1",
                "com.docker.swarm.service.id": "s1", "com.docker.swarm.service.name": "web",
                "image": "nginx:1", "name": "web.1.t1", "exitCode": "137",
            }},
        });
        serde_json::from_value(json).unwrap()
    }

    fn inspect(running: bool, started_at: &str, network: &str) -> Inspect {
        let json = serde_json::json!({
            "Id": ID, "Name": "/web.1.t1",
            "State": {"Running": running, "Pid": if running { PID } else { 0 }, "StartedAt": started_at, "ExitCode": 3},
            "HostConfig": {"NetworkMode": network, "CgroupParent": ""},
            "Config": {"Image": "nginx:1", "Labels": event(ID, "", 0).actor.attributes},
        });
        serde_json::from_value(json).unwrap()
    }

    const FIRST: &str = "2026-11-30T18:50:36.022138888Z";
    const SECOND_TIME: &str = "2026-11-30T18:51:00Z";

    impl Rig {
        fn event(&mut self, action: &str, at: u64) -> bool {
            self.watch.event(event(ID, action, at)).is_some()
        }
        fn inspected(&mut self, running: bool, started_at: &str) -> (bool, bool) {
            let (target, again) = self.watch.inspected(&ID.into(), Ok(inspect(running, started_at, "lab0")));
            (target.is_some(), again)
        }
        fn not_found(&mut self) {
            let what = String::new();
            let error = Error::Status { what, status: hyper::StatusCode::NOT_FOUND, message: String::new() };
            self.watch.inspected(&ID.into(), Err(error));
        }
        fn sample(&self) -> Round {
            self.watch.shared.table().sample()
        }
        fn start(&mut self) {
            assert!(self.event("start", STARTED_AT + 1));
            assert_eq!(self.inspected(true, FIRST), (true, false));
        }
        fn fault(&self, fault: Fault) -> u64 {
            self.watch.shared.table().faults().of(fault)
        }
    }

    #[test]
    fn a_container_is_taken_up_at_its_start_and_over_at_its_end() {
        let mut rig = rig();
        rig.start();
        let round = rig.sample();
        let (meta, reading) = &round.readings[0];
        assert_eq!((meta.task_id.as_str(), &*meta.slot, &*meta.container_id), ("t1", "1", ID));
        assert_eq!(meta.started_at, STARTED_AT / 1_000_000);
        let Reading::Fresh(values) = reading else { panic!("{reading:?}") };
        assert_eq!(values.get(stat::CPU), Some(8_274_898_924));

        assert!(!rig.event("die", STARTED_AT + SECOND));
        let round = rig.sample();
        assert!(round.readings.is_empty());
        let ended = &round.ended[0];
        assert_eq!(ended.meta.task_id.as_str(), "t1");
        assert_eq!(ended.last.as_ref().and_then(|values| values.get(stat::CPU)), Some(8_274_898_924));
        assert_eq!(ended.exit, Exit { code: Some(137), oom_killed: false });
        assert_eq!(ended.unseen_tail, None, "the files could still be read");
        assert!(rig.sample().ended.is_empty(), "told once");
    }

    #[test]
    fn b127_events_that_come_twice_change_nothing() {
        let mut rig = rig();
        rig.start();
        assert!(rig.event("start", STARTED_AT + 1));
        assert_eq!(rig.inspected(true, FIRST), (false, false));
        assert_eq!(rig.sample().readings.len(), 1);
        rig.event("die", STARTED_AT + SECOND);
        rig.event("die", STARTED_AT + SECOND);
        rig.event("destroy", STARTED_AT + SECOND);
        assert_eq!(rig.sample().ended.len(), 1);
    }

    #[test]
    fn b106_a_restart_in_place_is_a_new_incarnation_and_the_old_one_is_over() {
        let mut rig = rig();
        rig.start();
        // The end was lost; the start says it all.
        assert!(rig.event("start", STARTED_AT + 24 * SECOND));
        assert_eq!(rig.inspected(true, SECOND_TIME), (true, false));
        let round = rig.sample();
        assert_eq!((round.readings.len(), round.ended.len()), (1, 1));
        assert!(!round.readings[0].0.same_incarnation(&round.ended[0].meta));
        // The lost end comes after all: of the incarnation that is over already.
        rig.event("die", STARTED_AT + 10 * SECOND);
        let round = rig.sample();
        assert_eq!((round.readings.len(), round.ended.len()), (1, 0));
    }

    #[test]
    fn b109_a_container_that_was_over_before_anybody_looked_is_told_nevertheless() {
        for gone in [false, true] {
            let mut rig = rig();
            assert!(rig.event("start", STARTED_AT));
            rig.event("die", STARTED_AT + SECOND);
            if gone {
                rig.not_found()
            } else {
                assert_eq!(rig.inspected(false, FIRST), (false, false))
            }
            let round = rig.sample();
            assert!(round.readings.is_empty());
            let ended = &round.ended[0];
            assert_eq!((ended.meta.task_id.as_str(), &*ended.meta.service_name), ("t1", "web"));
            assert_eq!(ended.last, None);
            assert_eq!(ended.exit.code, Some(137));
            assert!(ended.unseen_tail.is_some_and(|tail| tail.abs_diff(SECOND) < SECOND / 10));
            assert_eq!(rig.fault(Fault::UnseenTail), 1);
        }
    }

    #[test]
    fn an_end_that_comes_before_the_answer_to_the_inspection_counts() {
        let mut rig = rig();
        rig.event("start", STARTED_AT);
        rig.event("die", STARTED_AT + SECOND);
        // The answer is from before the end.
        assert_eq!(rig.inspected(true, FIRST), (false, false));
        let round = rig.sample();
        assert_eq!((round.readings.len(), round.ended.len()), (0, 1));
    }

    #[test]
    fn a_start_during_an_inspection_is_looked_at_again() {
        let mut rig = rig();
        rig.event("start", STARTED_AT);
        rig.event("die", STARTED_AT + SECOND);
        assert!(!rig.event("start", STARTED_AT + 24 * SECOND), "it is being inspected");
        // The answer is of the second incarnation already.
        assert_eq!(rig.inspected(true, SECOND_TIME), (true, true));
        assert_eq!(rig.inspected(true, SECOND_TIME), (false, false));
        let round = rig.sample();
        assert_eq!((round.readings.len(), round.ended.len()), (1, 1), "the first one was missed, and is told");
    }

    fn listed(ids: &[&str]) -> Vec<Listed> {
        let container = |id: &&str| Listed {
            id: id.to_string(),
            state: "hibernating".into(),
            names: vec![format!("/web.{id}")],
            labels: [("com.docker.swarm.task.id".to_owned(), format!("t-{id}"))].into(),
            ..Listed::default()
        };
        ids.iter().map(container).collect()
    }

    #[test]
    fn a_listing_finds_what_events_missed() {
        let mut rig = rig();
        let listing = rig.watch.next_listing();
        assert_eq!(rig.watch.listed(listing, &listed(&[ID])), [ID.into()], "whatever its state is called");
        rig.inspected(true, FIRST);
        let listing = rig.watch.next_listing();
        assert!(rig.watch.listed(listing, &listed(&[ID])).is_empty());
        let listing = rig.watch.next_listing();
        rig.watch.listed(listing, &[]);
        let round = rig.sample();
        assert_eq!((round.readings.len(), round.ended.len()), (0, 1));
    }

    #[test]
    fn a_listing_ends_nothing_that_started_after_it_was_asked_for() {
        let mut rig = rig();
        let listing = rig.watch.next_listing();
        rig.start();
        rig.watch.listed(listing, &[]);
        assert_eq!(rig.sample().readings.len(), 1);
    }

    #[test]
    fn plain_containers_are_left_out_unless_told() {
        let mut rig = rig();
        let plain = Listed { id: "p1".into(), ..Listed::default() };
        let listing = rig.watch.next_listing();
        assert!(rig.watch.listed(listing, std::slice::from_ref(&plain)).is_empty());
        rig.watch.choice.include = Include::All;
        assert_eq!(rig.watch.listed(listing, &[plain]), ["p1".into()]);
    }

    #[test]
    fn tasks_are_bounded_and_what_is_left_out_is_counted() {
        let mut rig = rig();
        let listing = rig.watch.next_listing();
        assert_eq!(rig.watch.listed(listing, &listed(&["a", "b", "c", "d", "e"])).len(), 3);
        assert_eq!(rig.fault(Fault::Bounds), 2);
    }

    #[test]
    fn b080_b086_b089_whose_network_it_is() {
        let mut rig = rig();
        for (mode, expected) in [
            ("host", (false, false)),
            ("none", (false, false)),
            ("default", (true, false)),
            ("ingress", (true, false)),
            ("container:unknown", (true, true)),
        ] {
            assert_eq!(network(mode, &rig.watch.shared.table()), expected, "{mode}");
        }
        rig.watch.inspected(&ID.into(), Ok(inspect(true, FIRST, "host")));
        let of_host = network(&format!("container:{ID}"), &rig.watch.shared.table());
        assert_eq!(of_host, (false, false), "the host's, by way of another container");
        let round = rig.sample();
        let Reading::Fresh(values) = &round.readings[0].1 else { panic!() };
        assert_eq!(values.get(stat::RX_BYTES), None);
    }

    #[test]
    fn a_container_that_only_the_engine_can_see_has_its_record_with_its_age() {
        let mut rig = rig();
        std::fs::remove_dir_all(rig._machine.root.join("sys/fs/cgroup")).unwrap();
        rig.start();
        assert_eq!(rig.fault(Fault::Unseen), 1);
        assert_eq!(rig.sample().readings[0].1, Reading::Unread(Unread::NoRecord));
        assert_eq!(rig.watch.shared.table().wanting_record(), [ID.into()]);
        assert!(rig.watch.shared.table().wanting_record().is_empty(), "asked once at a time");
        let stats = serde_json::from_slice(&crate::source::fake::recording("v1/stats.json")).unwrap();
        rig.watch.shared.table().record(ID, Some(&stats), 0);
        let round = rig.sample();
        let Reading::Aged { values, age } = &round.readings[0].1 else { panic!("{round:?}") };
        assert_eq!(values.get(stat::MEMORY_USED), Some(9_584_640));
        assert!(*age < SECOND);
        assert!(rig.watch.shared.table().wants_a_look());
    }

    #[test]
    fn b103_an_event_without_an_id_is_passed_over() {
        let mut rig = rig();
        assert_eq!(rig.watch.event(event("", "start", 1)), None);
        assert_eq!(rig.fault(Fault::Event), 1);
    }

    #[test]
    fn b115_a_kill_for_want_of_memory_is_told_with_the_end() {
        let mut rig = rig();
        rig.start();
        rig.event("oom", STARTED_AT + 1);
        rig.event("die", STARTED_AT + 2);
        assert!(rig.sample().ended[0].exit.oom_killed);
    }

    #[test]
    fn a_rename_changes_names_and_nothing_else() {
        let mut rig = rig();
        rig.watch.choice.include = Include::All;
        let mut plain = inspect(true, FIRST, "lab0");
        plain.config.labels.clear();
        plain.name = "/db".into();
        rig.watch.inspected(&ID.into(), Ok(plain.clone()));
        assert!(rig.event("rename", STARTED_AT + 1));
        plain.name = "/database".into();
        assert!(rig.watch.inspected(&ID.into(), Ok(plain)).0.is_none());
        let (meta, _) = &rig.sample().readings[0];
        assert_eq!((&*meta.task_name, meta.service_id.as_str()), ("database", "db"));
    }

    /// How a running task is: restarts, health, paused.
    fn life(rig: &Rig) -> [Option<u64>; 3] {
        let round = rig.sample();
        let Reading::Fresh(values) = &round.readings[0].1 else { panic!("{round:?}") };
        [stat::RESTARTS, stat::HEALTH, stat::PAUSED].map(|stat| values.get(stat))
    }

    fn checked(status: &str, restarts: u64) -> Inspect {
        let mut inspect = inspect(true, FIRST, "lab0");
        (inspect.restart_count, inspect.state.health.status) = (restarts, status.into());
        inspect
    }

    #[test]
    fn restarts_health_and_pause_are_figures_of_the_task() {
        let mut rig = rig();
        rig.start();
        assert_eq!(life(&rig), [Some(0), None, Some(0)], "no health check is no health");
        rig.event("rename", STARTED_AT + 2);
        rig.watch.inspected(&ID.into(), Ok(checked("healthy", 2)));
        assert_eq!(life(&rig), [Some(2), Some(1), Some(0)]);
        rig.event("pause", STARTED_AT + 3);
        rig.event("health_status: unhealthy", STARTED_AT + 4);
        assert_eq!(life(&rig), [Some(2), Some(2), Some(1)]);
        rig.event("unpause", STARTED_AT + 5);
        assert_eq!(life(&rig), [Some(2), Some(2), Some(0)]);
    }

    #[test]
    fn a_level_that_does_not_ask_for_them_has_none_of_them() {
        let mut rig = rig();
        let table = Table::new(rig._machine.host(), Level::Docker, 3);
        rig.watch.shared = Arc::new(Shared::new(table));
        rig.start();
        assert_eq!(life(&rig), [None; 3]);
        rig.event("die", STARTED_AT + SECOND);
        let ended = rig.sample().ended.remove(0);
        assert_eq!(ended.last.map(|values| values.present()), Some(Level::Docker.mask()));
    }

    #[test]
    fn a_pause_that_events_missed_is_in_the_next_listing_and_an_older_listing_changes_nothing() {
        let mut rig = rig();
        rig.start();
        let paused = |state: &str| Listed { state: state.into(), ..listed(&[ID]).remove(0) };
        let listing = rig.watch.next_listing();
        rig.watch.listed(listing, &[paused("paused")]);
        assert_eq!(life(&rig)[2], Some(1));
        let listing = rig.watch.next_listing();
        rig.event("pause", STARTED_AT + SECOND);
        rig.watch.listed(listing, &[paused("running")]);
        assert_eq!(life(&rig)[2], Some(1), "the listing was asked for before the event");
        let listing = rig.watch.next_listing();
        rig.watch.listed(listing, &[paused("running")]);
        assert_eq!(life(&rig)[2], Some(0));
    }

    #[test]
    fn a_pause_during_an_inspection_has_it_asked_again() {
        let mut rig = rig();
        rig.event("start", STARTED_AT + 1);
        rig.event("pause", STARTED_AT + 2);
        assert_eq!(rig.inspected(true, FIRST), (true, true), "the answer may be from before the pause");
        assert_eq!(rig.inspected(true, FIRST), (false, false));
    }

    #[test]
    fn a_task_that_only_the_engine_can_see_has_them_too() {
        let mut rig = rig();
        std::fs::remove_dir_all(rig._machine.root.join("sys/fs/cgroup")).unwrap();
        rig.event("start", STARTED_AT + 1);
        rig.watch.inspected(&ID.into(), Ok(checked("starting", 1)));
        rig.watch.shared.table().wanting_record();
        let stats = serde_json::from_slice(&crate::source::fake::recording("v1/stats.json")).unwrap();
        rig.watch.shared.table().record(ID, Some(&stats), 0);
        let round = rig.sample();
        let Reading::Aged { values, .. } = &round.readings[0].1 else { panic!("{round:?}") };
        assert_eq!((values.get(stat::RESTARTS), values.get(stat::HEALTH)), (Some(1), Some(0)));
        rig.event("die", STARTED_AT + SECOND);
        let last = rig.sample().ended.remove(0).values().unwrap();
        assert_eq!((last.get(stat::EXIT_CODE), last.get(stat::MEMORY_USED)), (Some(137), Some(9_584_640)));
    }

    #[test]
    fn b128_the_last_figures_of_an_ended_task_have_its_exit_code() {
        let mut rig = rig();
        rig.start();
        rig.event("oom", STARTED_AT + 1);
        rig.event("die", STARTED_AT + SECOND);
        let last = rig.sample().ended.remove(0).values().unwrap();
        assert_eq!((last.get(stat::EXIT_CODE), last.get(stat::OOM_KILLS)), (Some(137), Some(1)));
        assert_eq!((last.get(stat::CPU), last.get(stat::PAUSED)), (Some(8_274_898_924), Some(0)));
        // One that was never read: how it ended is all there is.
        let mut missed = self::rig();
        missed.event("start", STARTED_AT);
        missed.event("die", STARTED_AT + SECOND);
        missed.not_found();
        let last = missed.sample().ended.remove(0).values().unwrap();
        let expected = [(stat::START_TIME, STARTED_AT / 1_000_000 * 1_000_000), (stat::EXIT_CODE, 137)];
        assert_eq!(last.iter().collect::<Vec<_>>(), expected);
    }

    fn restarting(started_at: &str) -> Inspect {
        let mut inspect = inspect(true, started_at, "lab0");
        (inspect.state.restarting, inspect.state.pid) = (true, 0);
        inspect
    }

    #[test]
    fn b095_a_container_that_waits_to_be_restarted_is_shown_without_figures_and_ends_no_second_time() {
        let mut rig = rig();
        rig.start();
        rig.event("die", STARTED_AT + SECOND);
        assert_eq!(rig.sample().ended.len(), 1);
        let waits = Listed { state: "restarting".into(), ..listed(&[ID]).remove(0) };
        let listing = rig.watch.next_listing();
        assert_eq!(rig.watch.listed(listing, std::slice::from_ref(&waits)), [ID.into()]);
        assert_eq!(rig.watch.inspected(&ID.into(), Ok(restarting(FIRST))).0, None);
        assert_eq!(rig.sample().readings[0].1, Reading::Unread(Unread::Restarting));
        let listing = rig.watch.next_listing();
        assert_eq!(rig.watch.listed(listing, &[waits]), [ID.into()], "looked at again and again");
        assert_eq!(rig.watch.inspected(&ID.into(), Ok(restarting(FIRST))).0, None);
        assert!(rig.sample().ended.is_empty());

        assert!(rig.event("start", STARTED_AT + 24 * SECOND));
        assert_eq!(rig.inspected(true, SECOND_TIME), (true, false));
        let mut round = rig.sample();
        assert!(matches!(round.readings[0].1, Reading::Fresh(_)));
        assert_eq!(round.ended.remove(0).values(), None, "the wait is over, and was no life");
    }

    #[test]
    fn a_container_whose_end_was_lost_and_that_waits_to_be_restarted_is_over_with_its_figures() {
        let mut rig = rig();
        rig.start();
        let waits = Listed { state: "restarting".into(), ..listed(&[ID]).remove(0) };
        let listing = rig.watch.next_listing();
        assert_eq!(rig.watch.listed(listing, &[waits]), [ID.into()]);
        rig.watch.inspected(&ID.into(), Ok(restarting(FIRST)));
        let mut round = rig.sample();
        assert_eq!(round.readings[0].1, Reading::Unread(Unread::Restarting));
        let last = round.ended.remove(0).values().unwrap();
        assert_eq!((last.get(stat::CPU), last.get(stat::EXIT_CODE)), (Some(8_274_898_924), Some(3)));
    }

    #[test]
    fn b097_b098_a_container_the_engine_says_nothing_of_is_shown_without_figures_and_others_with_theirs() {
        let mut rig = rig();
        rig.start();
        let listing = rig.watch.next_listing();
        let dead = listed(&["dead", ID]);
        assert_eq!(rig.watch.listed(listing, &dead), ["dead".into()]);
        let late = || Error::Timeout { what: "dead".into(), after: std::time::Duration::from_secs(10) };
        assert_eq!(rig.watch.inspected(&"dead".into(), Err(late())), (None, false));
        let round = rig.sample();
        let of = |id: &str| &round.readings.iter().find(|(meta, _)| &*meta.container_id == id).unwrap().1;
        assert_eq!(*of("dead"), Reading::Unread(Unread::NoAnswer));
        assert!(matches!(of(ID), Reading::Fresh(_)));
        assert_eq!(rig.fault(Fault::Engine), 1);
        // It is asked about again with each listing, and gone when it is not listed any more.
        let listing = rig.watch.next_listing();
        assert_eq!(rig.watch.listed(listing, &dead), ["dead".into()]);
        rig.watch.inspected(&"dead".into(), Err(late()));
        let listing = rig.watch.next_listing();
        rig.watch.listed(listing, &listed(&[ID]));
        let mut round = rig.sample();
        assert_eq!((round.readings.len(), round.ended.remove(0).values()), (1, None));
    }

    #[test]
    fn a_known_container_is_read_on_whatever_the_engine_fails_to_say_of_it() {
        let mut rig = rig();
        rig.start();
        rig.event("rename", STARTED_AT + 1);
        let late = Error::Timeout { what: "x".into(), after: std::time::Duration::from_secs(10) };
        rig.watch.inspected(&ID.into(), Err(late));
        assert!(matches!(rig.sample().readings[0].1, Reading::Fresh(_)));
    }

    #[test]
    fn b010_b121_a_record_is_of_the_moment_the_engine_read_it_at_within_the_call() {
        let mut rig = rig();
        std::fs::remove_dir_all(rig._machine.root.join("sys/fs/cgroup")).unwrap();
        rig.start();
        let stats: Stats = serde_json::from_slice(&crate::source::fake::recording("v1/stats.json")).unwrap();
        let read = parse::rfc3339(&stats.read).unwrap() / 1_000_000;
        // How old it was when it came, by the engine's clock; and how old it is taken for: no older than the question.
        for (ago, ages) in [(0, 0..140), (150, 149..290), (5_000, 300..2_000), (-5_000, 0..140)] {
            let mut table = rig.watch.shared.table();
            table.wanting_record();
            std::thread::sleep(std::time::Duration::from_millis(300));
            table.record(ID, Some(&stats), read.saturating_add_signed(ago));
            let Reading::Aged { age, .. } = table.sample().readings[0].1 else { panic!() };
            assert!(ages.contains(&(age / 1_000_000)), "{ago} ms ago: {age} ns");
        }
    }

    #[test]
    fn b116_a_task_began_when_the_engine_started_it() {
        let mut rig = rig();
        rig.start();
        let round = rig.sample();
        let Reading::Fresh(values) = &round.readings[0].1 else { panic!("{round:?}") };
        // `date -u -d 2026-11-30T18:50:36Z +%s` says 1796064636; the folders of this machine were made just now.
        assert_eq!(values.get(stat::START_TIME).map(|at| at / SECOND), Some(1_796_064_636));
    }

    #[test]
    fn an_engine_that_was_started_anew_ends_what_it_does_not_run_and_nothing_else() {
        let mut rig = rig();
        rig.start();
        // Live-restore: the same container, the same start. The stream of events is new, with those of before again.
        rig.event("start", STARTED_AT + 1);
        assert_eq!(rig.inspected(true, FIRST), (false, false));
        let listing = rig.watch.next_listing();
        rig.watch.listed(listing, &listed(&[ID]));
        let round = rig.sample();
        assert_eq!((round.readings.len(), round.ended.len()), (1, 0));
        // Without it: the container is there again, started anew.
        let listing = rig.watch.next_listing();
        rig.watch.listed(listing, &[]);
        assert!(rig.event("start", STARTED_AT + 24 * SECOND));
        assert_eq!(rig.inspected(true, SECOND_TIME), (true, false));
        let round = rig.sample();
        assert_eq!((round.readings.len(), round.ended.len()), (1, 1));
    }

    #[test]
    fn tasks_of_one_slot_after_another_and_beside_each_other_are_two() {
        let mut rig = rig();
        rig.start();
        // The successor of slot 1, as after an update; the old container still runs for a while, or for good.
        let mut next = inspect(true, SECOND_TIME, "lab0");
        next.id = ID.replace('d', "e");
        next.config.labels.insert("com.docker.swarm.task.id".into(), "t2".into());
        next.config.labels.insert("com.docker.swarm.task.name".into(), "web.1.t2".into());
        std::fs::rename(
            rig._machine.root.join(format!("proc/{PID}")),
            rig._machine.root.join(format!("proc/{}", PID + 1)),
        )
        .unwrap();
        assert!(rig.watch.ask(next.id.as_str().into(), None).is_some());
        rig.watch.inspected(&next.id.as_str().into(), Ok(next.clone()));
        let round = rig.sample();
        let tasks: Vec<_> = round.readings.iter().map(|(meta, _)| (meta.task_id.as_str(), &*meta.slot)).collect();
        assert_eq!(tasks, [("t1", "1"), ("t2", "1")]);
        rig.event("die", STARTED_AT + SECOND);
        let round = rig.sample();
        assert_eq!((round.readings[0].0.task_id.as_str(), round.ended[0].meta.task_id.as_str()), ("t2", "t1"));
    }
}
