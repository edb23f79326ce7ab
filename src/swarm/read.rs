//! The Engine API's JSON of services, tasks and nodes into a [`List`], leniently: any field may be missing, null or new.
//!
//! Desired and completed tasks are the engine's own count where it gives one (API 1.41), else counted as `docker service
//! ls` does for older engines. What cannot be an id is passed over.

use super::{FRESH_FOR, LATE, List, Mode, Node, Phase, Resources, SETTLED, Service, Task, shown};
use crate::model::{MAX_NAME, Millis, NodeId, ServiceId, TaskId};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The longest message of Swarm's that is kept, in bytes.
const MAX_MESSAGE: usize = 500;
/// How long a task that was told to stop may take, unless its service says otherwise.
const STOP_GRACE: Millis = 10_000;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// What an engine answered, as JSON text.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    /// `GET /services?status=true`
    pub services: &'a [u8],
    /// `GET /tasks` without those that Swarm does not want any more.
    pub tasks: &'a [u8],
    /// `GET /nodes`
    pub nodes: &'a [u8],
}

/// How much of it is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Tasks, and services.
    pub max_tasks: usize,
    /// Nodes.
    pub max_nodes: usize,
}

/// More than [`Limits`] allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("Swarm has {n} {what}, {most} are allowed: raise limits.{key}")]
pub struct TooMany {
    what: &'static str,
    n: usize,
    most: usize,
    key: &'static str,
}

/// Why an answer is no list.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Not the JSON it should be.
    #[error("the engine's list of {0} is not understood")]
    Json(&'static str, #[source] serde_json::Error),
    /// No swarm is without one, so that it is no swarm's.
    #[error("the engine's list of nodes has no manager that is up: is it a manager's engine?")]
    NoManager,
    /// Beyond the limits.
    #[error(transparent)]
    TooMany(#[from] TooMany),
}

macro_rules! json {
    ($($(#[$doc:meta])* $name:ident { $($(#[$rename:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(rename_all = "PascalCase", default)]
        struct $name { $($(#[$rename])* $field: Option<$type>),* }
    )*};
}

json! {
    JsonService { #[serde(rename = "ID")] id: String, spec: JsonSpec, service_status: JsonCounts, update_status: JsonUpdate }
    JsonSpec { name: String, labels: BTreeMap<String, String>, mode: JsonMode, task_template: JsonTemplate }
    JsonMode { replicated: JsonReplicated, global: serde_json::Value, replicated_job: JsonJob, global_job: serde_json::Value }
    JsonReplicated { replicas: u64 }
    JsonJob { max_concurrent: u64, total_completions: u64 }
    JsonTemplate { container_spec: JsonContainer }
    JsonContainer { stop_grace_period: u64 }
    JsonCounts { desired_tasks: u64, completed_tasks: u64 }
    JsonUpdate { state: String, message: String }
    JsonTask {
        #[serde(rename = "ID")] id: String,
        #[serde(rename = "ServiceID")] service_id: String,
        #[serde(rename = "NodeID")] node_id: String,
        slot: u64,
        spec: JsonTaskSpec,
        status: JsonTaskStatus,
        desired_state: String,
        version: JsonVersion,
    }
    JsonVersion { index: u64 }
    JsonTaskSpec { resources: JsonTaskResources }
    JsonTaskResources { reservations: JsonResources }
    JsonResources { #[serde(rename = "NanoCPUs")] nano_cpus: u64, memory_bytes: u64 }
    JsonTaskStatus { state: String, err: String }
    JsonNode { #[serde(rename = "ID")] id: String, spec: JsonNodeSpec, description: JsonDescription, status: JsonNodeStatus }
    JsonNodeSpec { role: String, availability: String }
    JsonDescription { hostname: String, resources: JsonResources }
    JsonNodeStatus { state: String, message: String }
}

fn text(given: Option<String>, most: usize) -> Arc<str> {
    shown(&given.unwrap_or_default(), most)
}

fn list<T: for<'de> Deserialize<'de>>(
    what: &'static str,
    json: &[u8],
    most: usize,
    key: &'static str,
) -> Result<Vec<T>, ReadError> {
    let list: Option<Vec<T>> = serde_json::from_slice(json).map_err(|error| ReadError::Json(what, error))?;
    let list = list.unwrap_or_default();
    if list.len() > most { Err(TooMany { what, n: list.len(), most, key }.into()) } else { Ok(list) }
}

impl From<JsonResources> for Resources {
    fn from(given: JsonResources) -> Resources {
        Resources {
            nano_cpus: given.nano_cpus.unwrap_or_default(),
            memory_bytes: given.memory_bytes.unwrap_or_default(),
        }
    }
}

/// A task, what it reserves, and what Swarm wants of it.
struct Listed {
    id: TaskId,
    task: Task,
    reserves: Resources,
    desired: String,
}

impl Listed {
    fn of(given: JsonTask) -> Option<Listed> {
        let status = given.status.unwrap_or_default();
        let reserves = given.spec.and_then(|spec| spec.resources).and_then(|resources| resources.reservations);
        Some(Listed {
            id: TaskId::new(given.id?).ok()?,
            task: Task {
                service: ServiceId::new(given.service_id?).ok()?,
                slot: given.slot.unwrap_or_default(),
                node: given.node_id.and_then(|id| NodeId::new(id).ok()),
                state: text(status.state, MAX_NAME),
                wanted: true,
                lasts: 0,
                error: text(status.err, MAX_MESSAGE),
            },
            reserves: reserves.unwrap_or_default().into(),
            desired: given.desired_state.unwrap_or_default(),
        })
    }

    fn is_live(&self) -> bool {
        super::is_live(&self.desired, &self.task.state)
    }
}

impl List {
    /// The list that an engine's answers make. `before` is the list before this one, and how long before; `listed_at`
    /// is the wall clock's time.
    ///
    /// # Errors
    /// If an answer is not understood, or longer than is allowed.
    pub fn read(
        answers: Answers<'_>,
        limits: Limits,
        before: Option<(&List, Millis)>,
        listed_at: Millis,
    ) -> Result<List, ReadError> {
        let services = list("services", answers.services, limits.max_tasks, "max_tasks")?;
        let tasks = list("tasks", answers.tasks, limits.max_tasks, "max_tasks")?;
        let nodes = list("nodes", answers.nodes, limits.max_nodes, "max_nodes")?;
        let mut nodes: BTreeMap<NodeId, Node> = nodes.into_iter().filter_map(node).collect();
        // After a change of leader all are `unknown` for a moment.
        if !nodes.values().any(|node| &*node.role == "manager" && !node.is_down()) {
            return Err(ReadError::NoManager);
        }
        let mut tasks: Vec<Listed> = tasks.into_iter().filter_map(Listed::of).collect();
        let mut places: BTreeMap<&ServiceId, Places<'_>> = BTreeMap::new();
        for listed in tasks.iter().filter(|listed| listed.is_live()) {
            let node = listed.task.node.as_ref();
            let place = places.entry(&listed.task.service).or_default();
            place.wanted += 1;
            if listed.task.phase() == Phase::Running && node.and_then(|id| nodes.get(id)).is_some_and(|n| !n.is_down())
            {
                place.running.insert((listed.task.slot, node.filter(|_| listed.task.slot == 0)));
            }
        }
        let services: BTreeMap<ServiceId, Service> = services
            .into_iter()
            .filter_map(|given: JsonService| {
                let id = ServiceId::new(given.id.as_deref()?).ok()?;
                let service = service(given, places.get(&id));
                Some((id, service))
            })
            .collect();
        for listed in &tasks {
            let Some(node) = listed.task.node.as_ref().and_then(|id| nodes.get_mut(id)) else { continue };
            if matches!(listed.task.phase(), Phase::Starting | Phase::Running) {
                node.reserved.add(listed.reserves);
            }
            node.desired += u64::from(listed.is_live());
        }
        tasks.iter_mut().filter(|listed| listed.task.phase() == Phase::Running).for_each(|listed| {
            listed.task.lasts = before.map_or(SETTLED, |(before, elapsed)| {
                let known = before.tasks.get(&listed.id).filter(|task| task.phase() == Phase::Running && task.wanted);
                known.map_or(0, |task| task.lasts.saturating_add(elapsed))
            });
        });
        let mut tasks: BTreeMap<TaskId, Task> = tasks.into_iter().map(|listed| (listed.id, listed.task)).collect();
        if let Some((before, elapsed)) = before {
            keep_leaving(&mut tasks, before, elapsed);
        }
        // In a longer gap tasks may have come and been told to stop that no list has.
        let watched = before.filter(|(_, elapsed)| *elapsed <= FRESH_FOR);
        let watched = watched.map_or(0, |(before, elapsed)| before.watched.saturating_add(elapsed));
        Ok(List { age: 0, listed_at, watched, services, tasks, nodes })
    }
}

/// At most so many services are looked into per list.
const LOOKED_INTO: usize = 16;

impl List {
    /// Services with tasks that neither run nor say why; what became of the tasks before may tell.
    pub fn unexplained(&self) -> Vec<ServiceId> {
        let tasks = self.tasks.values().filter(|task| task.is_unexplained());
        let services: BTreeSet<&ServiceId> = tasks.map(|task| &task.service).collect();
        services.into_iter().take(LOOKED_INTO).cloned().collect()
    }

    /// Says of tasks that follow a failed one in its place what that failed of.
    ///
    /// # Errors
    /// If the answer is not understood, or longer than is allowed.
    pub fn explain(&mut self, past_tasks: &[u8], limits: Limits) -> Result<(), ReadError> {
        let mut failures: BTreeMap<(ServiceId, u64, Option<NodeId>), (u64, String)> = BTreeMap::new();
        for given in list::<JsonTask>("past tasks", past_tasks, limits.max_tasks, "max_tasks")? {
            let version = given.version.as_ref().and_then(|version| version.index).unwrap_or_default();
            let Some(Listed { task, .. }) = Listed::of(given) else { continue };
            if matches!(&*task.state, "failed" | "rejected") {
                let newest = failures.entry(task.seat()).or_default();
                *newest =
                    (version, format!("the one before {}: {}", task.state, task.error)).max(std::mem::take(newest));
            }
        }
        for task in self.tasks.values_mut().filter(|task| task.is_unexplained()) {
            if let Some((_, why)) = failures.get(&task.seat()) {
                task.error = why.as_str().into();
            }
        }
        Ok(())
    }
}

impl Task {
    fn is_unexplained(&self) -> bool {
        self.wanted && self.phase() < Phase::Running && self.error.is_empty()
    }

    /// What one task after the other of a service holds: a slot, or the node of a global service.
    fn seat(&self) -> (ServiceId, u64, Option<NodeId>) {
        (self.service.clone(), self.slot, self.node.clone().filter(|_| self.slot == 0))
    }
}

/// Tasks that were on the list before and are not any more stay for as long as they may take to stop.
fn keep_leaving(tasks: &mut BTreeMap<TaskId, Task>, before: &List, elapsed: Millis) {
    for (id, task) in before.tasks.iter().filter(|(_, task)| task.phase() < Phase::Over) {
        let lasts = if task.wanted {
            // Of the list before: with the task its service may be gone.
            let grace = before.services.get(&task.service).map_or(STOP_GRACE, |service| service.stop_grace);
            Some(grace.saturating_add(LATE))
        } else {
            task.lasts.checked_sub(elapsed)
        };
        if let Some(lasts) = lasts.filter(|_| !tasks.contains_key(id)) {
            tasks.insert(id.clone(), Task { wanted: false, lasts, ..task.clone() });
        }
    }
}

/// What the tasks of a service take up.
#[derive(Default)]
struct Places<'a> {
    wanted: u64,
    /// Slots, or nodes of a global service, with a running task.
    running: BTreeSet<(u64, Option<&'a NodeId>)>,
}

fn service(given: JsonService, places: Option<&Places<'_>>) -> Service {
    let spec = given.spec.unwrap_or_default();
    let mode = spec.mode.unwrap_or_default();
    let counts = given.service_status;
    let wanted = places.map_or(0, |places| places.wanted);
    let (kind, desired) = match &mode {
        JsonMode { replicated_job: Some(job), .. } => (Mode::ReplicatedJob, job.max_concurrent.unwrap_or(wanted)),
        JsonMode { global_job: Some(_), .. } => (Mode::GlobalJob, wanted),
        JsonMode { global: Some(_), .. } => (Mode::Global, wanted),
        _ => (Mode::Replicated, mode.replicated.as_ref().and_then(|mode| mode.replicas).unwrap_or(wanted)),
    };
    let desired = counts.as_ref().map_or(desired, |counts| counts.desired_tasks.unwrap_or_default());
    let completed = counts.and_then(|counts| counts.completed_tasks).unwrap_or_default();
    // `docker service ls`: a global job's tasks are those still to be done and those done.
    let completed = match (kind, mode.replicated_job) {
        (Mode::ReplicatedJob, job) => Some((completed, job.and_then(|job| job.total_completions).unwrap_or_default())),
        (Mode::GlobalJob, _) => Some((completed, completed.saturating_add(desired))),
        _ => None,
    };
    let stack = spec.labels.and_then(|mut labels| labels.remove("com.docker.stack.namespace"));
    let update = given.update_status.unwrap_or_default();
    let grace = spec.task_template.and_then(|template| template.container_spec).and_then(|spec| spec.stop_grace_period);
    Service {
        name: text(spec.name, MAX_NAME),
        stack: text(stack, MAX_NAME),
        mode: kind,
        desired,
        running: places.map_or(0, |places| places.running.len() as u64),
        completed,
        update: text(update.state, MAX_NAME),
        update_message: text(update.message, MAX_MESSAGE),
        stop_grace: grace.map_or(STOP_GRACE, |nanos| nanos / NANOS_PER_MILLI),
    }
}

fn node(given: JsonNode) -> Option<(NodeId, Node)> {
    let (spec, status) = (given.spec.unwrap_or_default(), given.status.unwrap_or_default());
    let description = given.description.unwrap_or_default();
    let node = Node {
        name: text(description.hostname, MAX_NAME),
        role: text(spec.role, MAX_NAME),
        availability: text(spec.availability, MAX_NAME),
        status: text(status.state, MAX_NAME),
        message: text(status.message, MAX_MESSAGE),
        capacity: description.resources.unwrap_or_default().into(),
        reserved: Resources::default(),
        desired: 0,
    };
    Some((NodeId::new(given.id?).ok()?, node))
}

#[cfg(test)]
mod tests {
    //! On what Docker 20.10.24 (API 1.41) answered for one node with a service of each kind, beside what `docker
    //! service ls` printed at that moment (`ls.txt`).

    use super::*;

    const SERVICES: &str = include_str!("../../tests/data/swarm/services.json");
    const TASKS: &str = include_str!("../../tests/data/swarm/tasks.json");
    const NODES: &str = include_str!("../../tests/data/swarm/nodes.json");
    const LS: &str = include_str!("../../tests/data/swarm/ls.txt");
    const LIMITS: Limits = Limits { max_tasks: 100, max_nodes: 10 };

    fn read(services: &str, tasks: &str, nodes: &str, before: Option<(&List, Millis)>) -> List {
        let answers = Answers { services: services.as_bytes(), tasks: tasks.as_bytes(), nodes: nodes.as_bytes() };
        List::read(answers, LIMITS, before, 1_800_000_000_000).unwrap()
    }

    fn recorded() -> List {
        read(SERVICES, TASKS, NODES, None)
    }

    fn service<'a>(list: &'a List, name: &str) -> &'a Service {
        list.services.values().find(|service| &*service.name == name).unwrap()
    }

    /// As `docker service ls --format '{{.Name}} {{.Mode}} {{.Replicas}}'` prints it.
    fn as_ls(service: &Service) -> String {
        let Service { name, mode, running, desired, .. } = service;
        let completed = service.completed.map(|(done, all)| format!(" ({done}/{all} completed)"));
        format!("{name} {} {running}/{desired}{}", mode.as_str().replace('-', " "), completed.unwrap_or_default())
    }

    fn ls(list: &List) -> String {
        let mut lines: Vec<_> = list.services.values().map(as_ls).collect();
        lines.sort();
        lines.join("\n") + "\n"
    }

    #[test]
    fn b118_every_mode_counts_as_docker_service_ls() {
        assert_eq!(ls(&recorded()), LS);
    }

    #[test]
    fn b133_b134_an_older_engine_gives_no_counts_and_the_same_come_out() {
        let mut services: Vec<serde_json::Value> = serde_json::from_str(SERVICES).unwrap();
        // Jobs and these counts are of one age (API 1.41).
        services.retain(|service| {
            !service["Spec"]["Name"].to_string().contains("batch") && service["Spec"]["Name"] != "once"
        });
        services.iter_mut().for_each(|service| drop(service.as_object_mut().unwrap().remove("ServiceStatus")));
        let list = read(&serde_json::to_string(&services).unwrap(), TASKS, NODES, None);
        let expected: String =
            LS.lines().filter(|line| !line.contains(" job ")).map(|line| format!("{line}\n")).collect();
        assert_eq!(ls(&list), expected);
    }

    #[test]
    fn a_services_stack_and_update_are_there() {
        let list = recorded();
        assert_eq!((&*service(&list, "web").stack, &*service(&list, "none").stack), ("shop", ""));
        let paused = service(&list, "paused");
        assert!(paused.is_paused() && !service(&list, "web").is_paused());
        assert!(paused.update_message.starts_with("update paused due to failure or early termination of task "));
    }

    #[test]
    fn a_task_that_waits_says_what_for() {
        let list = recorded();
        let waiting: BTreeSet<_> = list
            .tasks
            .values()
            .filter(|task| task.phase() == Phase::Waiting)
            .map(|task| (list.task_label(task), &*task.error))
            .collect();
        let memory = "no suitable node (insufficient resources on 1 node)";
        let constraint = "no suitable node (scheduling constraints not satisfied on 1 node)";
        assert!(
            waiting.contains(&("huge.1".into(), memory)) && waiting.contains(&("huge.2".into(), memory)),
            "{waiting:?}"
        );
        assert!(waiting.contains(&("nowhere.1".into(), constraint)), "{waiting:?}");
    }

    #[test]
    fn p08_a_node_has_its_capacity_once_and_what_its_tasks_reserve() {
        let list = recorded();
        let (id, node) = list.nodes.first_key_value().unwrap();
        assert_eq!((id.as_str(), &*node.name, &*node.role), ("4133co7lqij683wmagv6t8m3d", "vm", "manager"));
        assert_eq!(
            (&*node.availability, &*node.status, node.is_down(), node.is_drained()),
            ("active", "ready", false, false)
        );
        assert_eq!(node.capacity, Resources { nano_cpus: 2_000_000_000, memory_bytes: 25_276_502_016 });
        // Two of web with 0.25 CPUs and 64 MiB each; huge reserves 900 GiB and is nowhere.
        assert_eq!(node.reserved, Resources { nano_cpus: 500_000_000, memory_bytes: 128 << 20 });
    }

    fn changed(json: &str, change: impl Fn(&mut serde_json::Value)) -> String {
        let mut list: Vec<serde_json::Value> = serde_json::from_str(json).unwrap();
        list.iter_mut().for_each(change);
        serde_json::to_string(&list).unwrap()
    }

    #[test]
    fn b130_b131_a_slot_with_two_running_tasks_counts_once_and_one_on_a_lost_node_not_at_all() {
        let web = service(&recorded(), "web").clone();
        assert_eq!(web.running, 2);
        // The tasks of before a partition that still count as running, in the slots of their successors.
        let mut tasks: Vec<serde_json::Value> = serde_json::from_str(TASKS).unwrap();
        for mut task in tasks.clone() {
            task["ID"] = format!("old{}", task["ID"].as_str().unwrap()).into();
            tasks.push(task);
        }
        let list = read(SERVICES, &serde_json::to_string(&tasks).unwrap(), NODES, None);
        assert_eq!((service(&list, "web").running, service(&list, "agent").running), (2, 1));
        let mut down: Vec<serde_json::Value> = serde_json::from_str(NODES).unwrap();
        down[0]["Status"]["State"] = "down".into();
        down.push(serde_json::json!({"ID": "leader", "Spec": {"Role": "manager"}, "Status": {"State": "ready"}}));
        let down = serde_json::to_string(&down).unwrap();
        assert_eq!(service(&read(SERVICES, TASKS, &down, None), "web").running, 0);
    }

    #[test]
    fn a_task_settles_and_one_that_was_told_to_stop_leaves_after_its_grace() {
        let first = recorded();
        let web =
            |list: &List| list.tasks.values().filter(|t| list.service_name(t) == "web").cloned().collect::<Vec<_>>();
        assert!(web(&first).iter().all(|task| task.lasts == SETTLED), "how long they ran before is not known");
        let second = read(SERVICES, TASKS, NODES, Some((&first, 5_000)));
        assert!(web(&second).iter().all(|task| task.lasts == SETTLED + 5_000 && task.wanted));
        let none = "[]";
        let mut list = read(SERVICES, none, NODES, Some((&second, 5_000)));
        assert!(web(&list).iter().all(|task| task.lasts == 30_000 && !task.wanted));
        for seconds in [10, 20, 30] {
            list = read(SERVICES, none, NODES, Some((&list, 10_000)));
            assert_eq!(web(&list).len(), 2, "after {seconds} s");
        }
        list = read(SERVICES, none, NODES, Some((&list, 1_000)));
        assert!(list.tasks.is_empty(), "Docker gives 10 s to stop, and 20 s more are enough");
        let fresh = read(SERVICES, TASKS, NODES, Some((&list, 5_000)));
        assert!(web(&fresh).iter().all(|task| task.lasts == 0), "just come");
    }

    #[test]
    fn a_task_that_follows_a_failed_one_says_what_that_failed_of() {
        let mut list = recorded();
        let services: Vec<_> = list.unexplained().iter().map(|id| list.services[id].name.to_string()).collect();
        // `paused.2` waits for its turn, `image.1` has just been made; what waits for a node said why.
        assert_eq!(services, ["paused", "image"]);
        let past = |service: &str, slot: u64, index: u64, state: &str, error: &str| {
            let id = list.services.iter().find(|(_, known)| &*known.name == service).unwrap().0.to_string();
            serde_json::json!({
                "ID": format!("past{index}"), "ServiceID": id, "Slot": slot, "DesiredState": "shutdown",
                "Status": {"State": state, "Err": error}, "Version": {"Index": index},
            })
        };
        let past = serde_json::Value::from(vec![
            past("paused", 2, 30, "failed", "task: non-zero exit (1)"),
            past("paused", 2, 9, "failed", "older"),
            past("paused", 2, 40, "shutdown", ""),
            past("paused", 1, 50, "failed", "another slot"),
            past("image", 1, 20, "rejected", "No such image: nosuch.invalid/image:1"),
        ]);
        list.explain(past.to_string().as_bytes(), LIMITS).unwrap();
        let why = |label: &str| {
            let waits = |task: &&Task| task.phase() < Phase::Running && list.task_label(task) == label;
            list.tasks.values().find(waits).unwrap().error.to_string()
        };
        assert_eq!(why("paused.2"), "the one before failed: task: non-zero exit (1)");
        assert_eq!(why("image.1"), "the one before rejected: No such image: nosuch.invalid/image:1");
        assert!(list.unexplained().is_empty());
    }

    #[test]
    fn fields_that_are_missing_null_or_new_are_no_fault() {
        let services = r#"[{"ID":"s","Spec":{"Name":"web","Labels":null,"Mode":{"Replicated":{"Replicas":3,"New":1}}},"UpdateStatus":null},
            {"ID":"t","Spec":{"Name":"odd","Mode":{"Weekly":{}}}},{"Spec":{}},{"ID":"two words"}]"#;
        let tasks = r#"[{"ID":"a","ServiceID":"s","NodeID":"n","Status":{"State":"hibernating"}},{"ID":"b"},{}]"#;
        let list =
            read(services, tasks, r#"[{"ID":"n","Spec":{"Role":"manager"},"Description":null,"Status":{}}]"#, None);
        assert_eq!(list.services.keys().map(ServiceId::as_str).collect::<Vec<_>>(), ["s", "t"]);
        assert_eq!((service(&list, "web").desired, service(&list, "odd").desired), (3, 0));
        assert_eq!(list.tasks.values().map(Task::phase).collect::<Vec<_>>(), [Phase::Starting]);
        assert!(!list.nodes["n"].is_down(), "that has to be said");
        let nothing = read("null", "[]", NODES, None);
        assert!(nothing.services.is_empty() && nothing.tasks.is_empty());
    }

    #[test]
    fn tasks_of_a_service_that_was_removed_leave_after_its_grace() {
        let slow = changed(SERVICES, |service| {
            service["Spec"]["TaskTemplate"]["ContainerSpec"]["StopGracePeriod"] = 600_000_000_000_u64.into();
        });
        let first = read(&slow, TASKS, NODES, None);
        let running = first.tasks.values().filter(|task| task.phase() == Phase::Running).count();
        let mut list = first;
        for elapsed in [5_000, 300_000, 320_000] {
            list = read("[]", "[]", NODES, Some((&list, elapsed)));
            assert_eq!(list.tasks.values().filter(|task| task.phase() == Phase::Running).count(), running);
        }
        assert!(read("[]", "[]", NODES, Some((&list, 1_000))).tasks.is_empty(), "10 min, and 20 s more");
    }

    #[test]
    fn a_list_says_for_how_long_its_lister_has_seen_everything() {
        let first = recorded();
        let second = read(SERVICES, TASKS, NODES, Some((&first, 5_000)));
        let third = read(SERVICES, TASKS, NODES, Some((&second, FRESH_FOR)));
        let after_a_gap = read(SERVICES, TASKS, NODES, Some((&third, FRESH_FOR + 1)));
        let watched = [first, second, third, after_a_gap].map(|list| list.watched);
        assert_eq!(watched, [0, 5_000, 5_000 + FRESH_FOR, 0]);
    }

    #[test]
    fn a_list_of_nodes_without_a_manager_is_no_swarms() {
        let refused = |nodes: &str| {
            let answers = Answers { services: b"[]", tasks: b"[]", nodes: nodes.as_bytes() };
            List::read(answers, LIMITS, None, 0).map(|_| ()).unwrap_err().to_string()
        };
        let worker = changed(NODES, |node| node["Spec"]["Role"] = "worker".into());
        let down = changed(NODES, |node| node["Status"]["State"] = "down".into());
        for nodes in ["[]", "null", &worker, &down] {
            let why = "the engine's list of nodes has no manager that is up: is it a manager's engine?";
            assert_eq!(refused(nodes), why);
        }
    }

    #[test]
    fn what_is_no_list_or_too_long_is_refused() {
        let refused = |services: &str, tasks: &str, most| {
            let answers = Answers { services: services.as_bytes(), tasks: tasks.as_bytes(), nodes: b"[]" };
            List::read(answers, Limits { max_tasks: most, max_nodes: 1 }, None, 0).unwrap_err().to_string()
        };
        assert_eq!(refused("[", "[]", 9), "the engine's list of services is not understood");
        assert_eq!(refused("[]", "{}", 9), "the engine's list of tasks is not understood");
        assert_eq!(refused("[]", "[{},{}]", 1), "Swarm has 2 tasks, 1 are allowed: raise limits.max_tasks");
    }
}
