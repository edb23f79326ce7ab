//! What Swarm's own list adds to an answer: services without tasks, reasons, orphans, nodes that should report.

use crate::fixtures::*;
use std::sync::Arc;
use swarmstats::figures::{By, groups};
use swarmstats::join::{Answers, Bounds, Join};
use swarmstats::json::{self, Shape, What};
use swarmstats::model::{NodeId, ServiceId, TaskId};
use swarmstats::stat;
use swarmstats::swarm::{FRESH_FOR, List, Mode, Node, Resources, SETTLED, Service, Swarm, Task};
use swarmstats::view::{Ask, Holding, Report, Selector};

/// Later than the fixtures' tasks were started.
const LISTED_AT: u64 = 1_800_000_000_000;
/// A node id of Swarm's own form, which the fixtures' are not.
const SWARM_NODE: &str = "4133co7lqij683wmagv6t8m3d";
/// A task id of that form.
const ZOMBIE: &str = "zombie00000000000000000ab";

fn id<T>(new: fn(String) -> Result<T, swarmstats::model::NameError>, text: &str) -> T {
    new(text.into()).unwrap()
}

fn listed_node(name: &str) -> Node {
    Node {
        name: name.into(),
        role: "worker".into(),
        availability: "active".into(),
        status: "ready".into(),
        capacity: Resources { nano_cpus: 8_000_000_000, memory_bytes: 32 << 30 },
        ..Node::default()
    }
}

fn running(service: &str, slot: u64, node: &str) -> Task {
    Task {
        service: id(ServiceId::new, &format!("id-{service}")),
        slot,
        node: Some(id(NodeId::new, node)),
        state: "running".into(),
        wanted: true,
        lasts: 10 * SETTLED,
        error: "".into(),
    }
}

fn pending(service: &str, slot: u64, error: &str) -> Task {
    Task { node: None, state: "pending".into(), error: error.into(), ..running(service, slot, "n1") }
}

/// `burn` with two tasks on two nodes, as Swarm and the shippers agree; `idle` has none, and shall have none.
fn list() -> List {
    let service = |name: &str, desired| {
        let service =
            Service { name: name.into(), stack: "demo".into(), desired, running: desired, ..Service::default() };
        (id(ServiceId::new, &format!("id-{name}")), service)
    };
    List {
        age: 1_500,
        listed_at: LISTED_AT,
        watched: 3_600_000,
        services: [service("burn", 2), service("idle", 0)].into(),
        tasks: [
            (id(TaskId::new, "task1"), running("burn", 1, "n1")),
            (id(TaskId::new, "task2"), running("burn", 2, "n2")),
        ]
        .into(),
        nodes: ["n1", "n2"].into_iter().map(|n| (id(NodeId::new, n), listed_node(&format!("host-{n}")))).collect(),
    }
}

fn two() -> Holding {
    let tasks = vec![task("task1", "burn", "n1"), task("task2", "burn", "n2")];
    let rows = vec![row("n1", "burn", 1), row("n2", "burn", 1)];
    holding("c1", tasks, rows, vec![node("n1", &["burn"]), node("n2", &["burn"])])
}

/// What `holding` and a member with this list answer.
fn answers(holding: Holding, list: List) -> Answers {
    let told = Some(Swarm { list: Some(list), trouble: None });
    vec![says(holding), says(Holding { swarm: told, ..super::fixtures::holding("c2", vec![], vec![], vec![]) })]
}

fn read(holding: Holding, list: List, ask: &Ask) -> Report {
    read_once(answers(holding, list), ask)
}

fn document(report: &Report, what: What) -> serde_json::Value {
    let shape = Shape { what, stats: stat::TASKS, points: false, owners: &|_| vec![], ring_id: None };
    serde_json::from_str(&json::document(report, &shape)).unwrap()
}

fn item<'a>(document: &'a serde_json::Value, what: &str, name: &str) -> &'a serde_json::Value {
    document[what].as_array().unwrap().iter().find(|item| item["name"] == name).unwrap()
}

#[test]
fn where_swarm_and_shippers_agree_nothing_is_said_but_numbers() {
    let report = read(two(), list(), &everything());
    assert_eq!((missing(&report), report.warnings.as_slice()), (vec![], &[] as &[String]));
    let services = document(&report, What::Services);
    assert_eq!(services["swarm"]["age_seconds"], 1.5);
    let burn = item(&services, "services", "burn");
    assert_eq!(burn["tasks"], serde_json::json!({"fresh": 2, "known": 2, "desired": 2}));
    assert_eq!((&burn["mode"], &burn["update"], &burn["completed"]), (&"replicated".into(), &().into(), &().into()));
    let stacks = document(&report, What::Stacks);
    assert_eq!(item(&stacks, "stacks", "demo")["tasks"]["desired"], 2);
}

#[test]
fn without_swarm_there_is_null_and_never_0() {
    let report = read_once(vec![says(two())], &everything());
    for (what, name) in [(What::Services, "burn"), (What::Nodes, "host-n1"), (What::Stacks, "demo")] {
        let document = document(&report, what);
        assert_eq!(document["swarm"], serde_json::Value::Null);
        let item = item(&document, what.plural(), name);
        assert_eq!(item["tasks"]["desired"], serde_json::Value::Null);
        for key in ["mode", "update", "completed", "reserved", "availability", "status", "role"] {
            assert!(item.get(key).is_none_or(serde_json::Value::is_null), "{key}");
        }
    }
}

#[test]
fn a_service_with_no_replicas_keeps_its_entry_and_its_name_means_it() {
    let idle = |ask: &Ask| {
        let report = read(two(), list(), ask);
        let services = document(&report, What::Services);
        item(&services, "services", "idle")["tasks"].clone()
    };
    let none = serde_json::json!({"fresh": 0, "known": 0, "desired": 0});
    for ask in [everything(), service("idle"), service("id-idle")] {
        assert_eq!(idle(&ask), none);
    }
    assert!(groups(&read(two(), list(), &service("burn")), By::Service).iter().all(|group| &*group.name == "burn"));
}

#[test]
fn a_name_means_the_service_that_swarm_lists_and_not_one_that_is_gone() {
    // A removed service of the same name has left its row, without any running task but younger.
    let old = with(row("n1", "burn", 0), |row| {
        let meta = Arc::make_mut(&mut row.meta);
        (meta.service_id, meta.since) = (id(ServiceId::new, "id-removed"), 1_900_000_000_000);
    });
    let mut holding = two();
    holding.tasks.clear();
    holding.rows = vec![old];
    holding.nodes = vec![node("n1", &["removed"]), node("n2", &[])];
    let list = List { tasks: [].into(), ..list() };
    let report = read(holding, list, &service("burn"));
    assert_eq!(groups(&report, By::Service).iter().map(|group| &*group.id).collect::<Vec<_>>(), ["id-burn"]);
}

#[test]
fn a_task_without_a_node_has_not_been_scheduled_and_swarm_says_why() {
    let mut list = list();
    let why = "no suitable node (insufficient resources on 2 nodes)";
    list.tasks.insert(id(TaskId::new, "task3"), pending("burn", 3, why));
    let report = read(two(), list.clone(), &service("burn"));
    assert_eq!(report.warnings, [format!("task burn.3 has not been scheduled: {why}")]);
    assert!(report.complete, "what does not run uses nothing that could be missing");
    list.tasks.insert(id(TaskId::new, "task4"), pending("burn", 4, why));
    list.tasks.insert(id(TaskId::new, "task5"), Task { state: "rejected".into(), ..running("burn", 5, "n1") });
    list.tasks.insert(id(TaskId::new, "task6"), Task { state: "preparing".into(), ..running("burn", 6, "n1") });
    list.tasks.insert(id(TaskId::new, "other"), pending("idle", 1, why));
    let report = read(two(), list, &service("burn"));
    assert_eq!(
        report.warnings,
        [
            format!("2 tasks of service burn have not been scheduled: {why}"),
            "task burn.6 is not running yet (preparing)".into(),
            "task burn.5 is rejected".into()
        ]
    );
}

#[test]
fn a_single_task_that_does_not_run_is_known_by_id_and_name() {
    let mut list = list();
    list.tasks.insert(id(TaskId::new, "abcdef"), pending("burn", 3, "no node"));
    for text in ["abcdef", "abcd", "burn.3.abcdef"] {
        let report = read(two(), list.clone(), &single(text));
        assert_eq!(report.warnings, ["task burn.3 has not been scheduled: no node"], "{text}");
    }
    assert!(read(two(), list, &single("burn.2.abcdef")).warnings.is_empty());
}

#[test]
fn a_running_task_that_no_shipper_sees_is_missing_once_it_has_settled() {
    let mut list = list();
    list.tasks.insert(id(TaskId::new, "task3"), Task { lasts: SETTLED - 1, ..running("burn", 3, "n2") });
    assert!(read(two(), list.clone(), &service("burn")).complete);
    list.tasks.insert(id(TaskId::new, "task3"), running("burn", 3, "n2"));
    let report = read(two(), list, &service("burn"));
    assert_eq!(missing(&report), [("task burn.3", "Swarm says it runs, the shipper of node host-n2 does not see it")]);
}

#[test]
fn a_stale_task_is_named_with_its_age() {
    let mut holding = two();
    holding.tasks[1] = stale(task("task2", "burn", "n2"), 12_345);
    holding.rows[1].counts.fresh = 0;
    let report = read(holding, list(), &service("burn"));
    assert!(report.warnings.contains(&"task burn.2: no sample for 12 s".to_string()), "{:?}", report.warnings);
}

#[test]
fn what_a_silent_member_hides_is_said_once() {
    let mut holding = two();
    holding.tasks.pop();
    let mut answers = answers(holding, list());
    answers.push(silent("c3"));
    let report = read_once(answers, &service("burn"));
    let member =
        ("member c3", "did not answer (deadline 1 s), nor ever since this router started: what it holds is not known");
    assert_eq!(missing(&report), [("1 of 2 tasks of service burn", "member c3 did not answer (deadline 1 s)"), member]);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
}

#[test]
fn a_node_whose_shipper_never_reported_is_missing_with_its_tasks() {
    let mut list = list();
    list.nodes.insert(id(NodeId::new, "n3"), listed_node("host-n3"));
    list.tasks.insert(id(TaskId::new, "task3"), running("burn", 3, "n3"));
    list.tasks.insert(id(TaskId::new, "task4"), running("burn", 4, "n3"));
    let never = "its shipper has never reported: is one running there, with these members?";
    let report = read(two(), list.clone(), &everything());
    let tasks = format!("node host-n3: {never}");
    assert_eq!(missing(&report), [("node host-n3", never), ("2 tasks of service burn", &tasks)]);
    let nodes = document(&report, What::Nodes);
    let silent = item(&nodes, "nodes", "host-n3");
    assert_eq!((&silent["status"], &silent["figures"]["cpu_percent"]), (&"ready".into(), &().into()));
    assert!(read(two(), list.clone(), &of_node("host-n1")).complete, "other nodes do not matter");
    assert_eq!(missing(&read(two(), list.clone(), &service("idle"))), [], "nothing of it is there");
    assert_eq!(missing(&read(two(), list.clone(), &service("burn"))).len(), 2);
    assert!(!read(two(), list.clone(), &of_node("host-n3")).complete);
    // A drained node with nothing on it needs no shipper.
    list.tasks.retain(|_, task| task.node != Some(id(NodeId::new, "n3")));
    list.nodes.get_mut("n3").unwrap().availability = "drain".into();
    assert!(read(two(), list, &everything()).complete);
}

/// `two`, with node n2 silent for 40 s.
fn silent_n2() -> Holding {
    let mut holding = two();
    (holding.nodes[1].fresh, holding.nodes[1].age) = (false, 40_000);
    (holding.rows[1].fresh, holding.rows[1].age) = (false, 40_000);
    holding.tasks[1] = stale(task("task2", "burn", "n2"), 40_000);
    holding
}

#[test]
fn a_node_that_is_down_or_drained_in_swarm_is_said_to_be() {
    let mut lost = list();
    let n2 = lost.nodes.get_mut("n2").unwrap();
    (n2.status, n2.message) = ("down".into(), "heartbeat failure for node in \"ready\" state".into());
    let report = read(silent_n2(), lost.clone(), &service("burn"));
    let why =
        "is not available: Swarm calls it down (heartbeat failure for node in \"ready\" state); no sample for 40 s";
    assert_eq!(missing(&report), [("node host-n2", why), ("task burn.2", "node host-n2 is not available")]);
    // Its task was replaced: the service is whole again, though the node may still run the old one.
    lost.tasks.remove("task2");
    lost.tasks.insert(id(TaskId::new, "task3"), running("burn", 2, "n1"));
    let mut holding = silent_n2();
    holding.tasks.push(task("task3", "burn", "n1"));
    (holding.rows[0].counts.running, holding.rows[0].counts.fresh) = (2, 2);
    let report = read(holding, lost, &service("burn"));
    assert_eq!(missing(&report), [("node host-n2", why)]);
    let burn = &groups(&report, By::Service)[0];
    assert_eq!((burn.tasks.fresh, burn.tasks.known), (2, 2));

    let mut drained = list();
    drained.nodes.get_mut("n2").unwrap().availability = "drain".into();
    drained.tasks.remove("task2");
    let mut holding = silent_n2();
    holding.rows.pop();
    holding.tasks.pop();
    let report = read(holding, drained, &everything());
    assert_eq!(
        (report.complete, report.warnings),
        (true, vec!["node host-n2: it is drained; no sample for 40 s".into()])
    );
}

#[test]
fn a_node_removed_from_the_swarm_is_not_missing_at_once() {
    let renamed = |mut holding: Holding| {
        let gone = id(NodeId::new, SWARM_NODE);
        Arc::make_mut(&mut holding.nodes[1].meta).node_id = gone.clone();
        Arc::make_mut(&mut holding.rows[1].meta).node_id = gone.clone();
        Arc::make_mut(&mut holding.tasks[1].meta).node_id = gone;
        holding
    };
    let mut removed = list();
    removed.nodes.remove("n2");
    removed.tasks.remove("task2");
    removed.services.get_mut("id-burn").unwrap().desired = 1;
    let report = read(renamed(silent_n2()), removed.clone(), &everything());
    assert_eq!((missing(&report), report.complete), (vec![], true));
    let burn = &groups(&report, By::Service)[0];
    assert_eq!((burn.tasks.fresh, burn.tasks.known), (1, 1));
    assert_eq!(burn.totals.get(swarmstats::stat::CPU), Some(100 * SECOND), "totals forget nothing");
    let old = List { age: FRESH_FOR + 1, ..removed };
    assert!(!read(renamed(silent_n2()), old, &everything()).complete, "an old list proves nothing");
    assert!(!read_once(vec![says(renamed(silent_n2()))], &everything()).complete);
}

#[test]
fn p10_an_orphan_counts_for_its_node_and_not_for_its_service() {
    let mut holding = two();
    holding.tasks.push(task(ZOMBIE, "burn", "n1"));
    (holding.rows[0].counts.running, holding.rows[0].counts.fresh) = (2, 2);
    let report = read(holding.clone(), list(), &everything());
    assert!(report.complete);
    assert_eq!(
        report.warnings,
        [format!(
            "task burn.1.{ZOMBIE} runs on node host-n1 though Swarm does not want it (an orphan): \
             counted for the node only, see `docker ps` there"
        )]
    );
    let (services, nodes) = (groups(&report, By::Service), groups(&report, By::Node));
    assert_eq!((services[0].tasks.fresh, services[0].tasks.known), (2, 2));
    assert_eq!(services[0].stats.get(swarmstats::stat::MEMORY_USED), Some(200));
    assert_eq!((nodes[0].tasks.fresh, nodes[0].stats.get(swarmstats::stat::MEMORY_USED)), (2, Some(200)));
    assert_eq!(report.tasks.len(), 3, "it is still there to be looked at");

    // No orphan: one that was told to stop a moment ago, one that began after the list, a container without a task.
    let mut leaving = list();
    leaving.tasks.insert(id(TaskId::new, ZOMBIE), Task { wanted: false, lasts: 3_000, ..running("burn", 1, "n1") });
    assert!(read(holding.clone(), leaving, &everything()).warnings.is_empty());
    let early = List { listed_at: 1_700_000_000_000, ..list() };
    assert!(read(holding.clone(), early, &everything()).warnings.is_empty());
    let old = List { age: FRESH_FOR + 1, ..list() };
    assert_eq!(groups(&read(holding.clone(), old, &everything()), By::Service)[0].tasks.fresh, 3);
    // Over gRPC, where only sums are asked for, a container's id is not told: a plain container is none still.
    use swarmstats::{view::Texts, wire};
    let bare = |holding: &Holding| wire::holding(wire::held(holding, Texts::Groups)).unwrap();
    let mut plain = holding.clone();
    let meta = Arc::make_mut(&mut plain.tasks[2].meta);
    (meta.task_id, meta.container_id) = (id(TaskId::new, &"c0ffee00".repeat(8)), "c0ffee00".repeat(8).into());
    assert!(read(bare(&plain), list(), &everything()).warnings.is_empty());
    let unnamed = &read(bare(&holding), list(), &everything()).warnings[0];
    assert!(unnamed.starts_with(&format!("task {ZOMBIE} runs on")), "without a name its id stands: {unnamed}");
}

#[test]
fn p10_a_task_that_may_still_be_stopping_is_no_orphan() {
    let mut holding = two();
    holding.tasks.push(task(ZOMBIE, "burn", "n1"));
    (holding.rows[0].counts.running, holding.rows[0].counts.fresh) = (2, 2);
    let n_orphans = |watched: u64, stop_grace: u64, known: bool| {
        let mut list = List { watched, ..list() };
        if known {
            list.services.get_mut("id-burn").unwrap().stop_grace = stop_grace;
        } else {
            list.services.remove("id-burn");
        }
        read(holding.clone(), list, &everything()).swarm.unwrap().orphans.len()
    };
    // The lister has just begun: what was told to stop before, with ten minutes to do so, is on no list of its.
    let minutes = 60_000;
    assert_eq!(n_orphans(0, 10_000, true), 0);
    assert_eq!(n_orphans(10 * minutes, 10 * minutes, true), 0);
    assert_eq!(n_orphans(10 * minutes + 20_000, 10 * minutes, true), 1);
    assert_eq!(n_orphans(30_000, 10_000, true), 1);
    // Of a service that was gone before, the time is not known.
    assert_eq!((n_orphans(minutes, 0, false), n_orphans(11 * minutes, 0, false)), (0, 1));
}

#[test]
fn a_list_that_names_no_node_of_here_excuses_nobodys_silence() {
    let mut holding = silent_n2();
    let gone = id(NodeId::new, SWARM_NODE);
    Arc::make_mut(&mut holding.nodes[1].meta).node_id = gone.clone();
    Arc::make_mut(&mut holding.rows[1].meta).node_id = gone.clone();
    Arc::make_mut(&mut holding.tasks[1].meta).node_id = gone;
    let others =
        List { nodes: [(id(NodeId::new, "elsewhere"), listed_node("elsewhere"))].into(), tasks: [].into(), ..list() };
    let report = read(holding, others, &service("burn"));
    assert!(missing(&report).iter().any(|(what, _)| *what == "node host-n2"), "{:?}", report.missing);
    assert!(report.swarm.unwrap().absent.is_empty());
}

#[test]
fn a_service_that_was_removed_is_told_from_one_that_rests() {
    const GONE: &str = "gone0000000000000000000ab";
    let mut holding = two();
    holding.rows.push(with(row("n1", "old", 0), |row| {
        Arc::make_mut(&mut row.meta).service_id = id(ServiceId::new, GONE);
    }));
    holding.nodes[0].meta = Arc::new(swarmstats::model::NodeMeta {
        services: [id(ServiceId::new, "id-burn"), id(ServiceId::new, GONE)].into(),
        ..(*holding.nodes[0].meta).clone()
    });
    let removed = |holding: Holding, list: Option<List>, name: &str| {
        let report = match list {
            Some(list) => read(holding, list, &everything()),
            None => read_once(vec![says(holding)], &everything()),
        };
        item(&document(&report, What::Services), "services", name)["removed"].clone()
    };
    assert_eq!(removed(holding.clone(), Some(list()), "old"), true);
    assert_eq!(removed(holding.clone(), Some(list()), "idle"), false);
    let none = serde_json::Value::Null;
    assert_eq!(removed(holding.clone(), None, "old"), none);
    assert_eq!(removed(holding.clone(), Some(List { age: FRESH_FOR + 1, ..list() }), "old"), none);
    let mut runs = holding;
    runs.rows[2].counts.running = 1;
    assert_eq!(removed(runs, Some(list()), "old"), false, "something of it is still there");
}

#[test]
fn b130_stale_tasks_of_a_partition_are_not_in_k_of_n() {
    // 6/2: four tasks of before a partition still run on a node that Swarm does not reach.
    let mut holding = two();
    holding.nodes.push(node("n3", &["burn"]));
    holding.rows.push(row("n3", "burn", 4));
    holding.tasks.extend((0..4).map(|i| task(&format!("before{i}000000000000000000"), "burn", "n3")));
    let mut list = list();
    list.nodes.insert(id(NodeId::new, "n3"), Node { status: "down".into(), ..listed_node("host-n3") });
    let report = read(holding, list, &service("burn"));
    let burn = document(&report, What::Services)["services"][0]["tasks"].clone();
    assert_eq!(burn, serde_json::json!({"fresh": 2, "known": 2, "desired": 2}));
    assert_eq!(report.warnings.len(), 4, "each is said to be an orphan: {:?}", report.warnings);
}

#[test]
fn p11_a_paused_update_is_flagged_and_all_its_tasks_count() {
    // 5/1 for 30 h, all healthy.
    let mut holding = two();
    holding.tasks = (1..=5).map(|i| task(&format!("task{i}"), "burn", "n1")).collect();
    holding.rows = vec![row("n1", "burn", 5)];
    let mut list = list();
    list.tasks = (1..=5).map(|i| (id(TaskId::new, &format!("task{i}")), running("burn", i, "n1"))).collect();
    let burn = list.services.get_mut("id-burn").unwrap();
    (burn.desired, burn.running, burn.update) = (1, 5, "paused".into());
    burn.update_message = "update paused due to failure or early termination of task task5".into();
    let report = read(holding, list, &service("burn"));
    let document = document(&report, What::Services);
    let burn = item(&document, "services", "burn");
    assert_eq!(burn["tasks"], serde_json::json!({"fresh": 5, "known": 5, "desired": 1}));
    assert_eq!((&burn["update"], &burn["figures"]["memory_used_bytes"]), (&"paused".into(), &500.into()));
    assert_eq!(
        report.warnings,
        ["service burn: update paused, 5 running of 1 wanted: \
          update paused due to failure or early termination of task task5"]
    );
}

#[test]
fn b118_jobs_say_how_far_they_are() {
    let mut list = list();
    let idle = list.services.get_mut("id-idle").unwrap();
    (idle.mode, idle.desired, idle.completed) = (Mode::ReplicatedJob, 1, Some((3, 10)));
    let done = Task { state: "complete".into(), ..running("idle", 1, "n1") };
    list.tasks.insert(id(TaskId::new, "done"), done);
    let report = read(two(), list, &everything());
    let document = document(&report, What::Services);
    let idle = item(&document, "services", "idle");
    assert_eq!(
        (&idle["mode"], &idle["completed"], &idle["total_completions"], &idle["tasks"]["desired"]),
        (&"replicated-job".into(), &3.into(), &10.into(), &1.into())
    );
    assert!(report.complete && report.warnings.is_empty(), "a task that is done lacks nothing");
}

#[test]
fn p17_a_nodes_state_is_the_youngest_lists_alone_and_has_its_age() {
    let old = with(list(), |list| {
        list.age = 9_000;
        list.nodes.get_mut("n2").unwrap().role = "manager".into();
    });
    let young = with(list(), |list| {
        list.age = 2_000;
        list.nodes.get_mut("n1").unwrap().role = "manager".into();
    });
    let member = |of: &str, list: List| {
        says(Holding { swarm: Some(Swarm { list: Some(list), trouble: None }), ..holding(of, vec![], vec![], vec![]) })
    };
    let answers = vec![says(two()), member("c2", old), member("c3", young)];
    for turned in [false, true] {
        let mut answers = answers.clone();
        if turned {
            answers.reverse();
        }
        let nodes = document(&read_once(answers, &everything()), What::Nodes);
        assert_eq!(nodes["swarm"]["age_seconds"], 2.0);
        let managers = nodes["nodes"].as_array().unwrap().iter().filter(|node| node["role"] == "manager");
        assert_eq!(managers.map(|node| node["name"].as_str().unwrap()).collect::<Vec<_>>(), ["host-n1"]);
    }
}

#[test]
fn a_node_shows_what_is_reserved_beside_what_it_has() {
    let list = with(list(), |list| {
        let n1 = list.nodes.get_mut("n1").unwrap();
        (n1.reserved, n1.desired) = (Resources { nano_cpus: 1_250_000_000, memory_bytes: 64 << 20 }, 1);
    });
    let nodes = document(&read(two(), list, &everything()), What::Nodes);
    let n1 = item(&nodes, "nodes", "host-n1");
    assert_eq!(n1["reserved"], serde_json::json!({"cpu_cores": 1.25, "memory_bytes": 67_108_864}));
    assert_eq!(n1["capacity"], serde_json::json!({"cpu_cores": 8.0, "memory_bytes": 34_359_738_368_u64}));
    assert_eq!((&n1["availability"], &n1["tasks"]["desired"]), (&"active".into(), &1.into()));
    // A container's view of the machine (lxcfs, a limited guest) may be another than what Swarm schedules by.
    let mut holding = two();
    holding.nodes[0].values = [(stat::CPU_LIMIT, 2 * SECOND), (stat::MEMORY_LIMIT, 4 << 30)].into_iter().collect();
    let cpus = |age: u64| {
        let nodes = document(&read(holding.clone(), List { age, ..self::list() }, &everything()), What::Nodes);
        item(&nodes, "nodes", "host-n1")["capacity"]["cpu_cores"].clone()
    };
    assert_eq!((cpus(0), cpus(FRESH_FOR + 1)), (8.0.into(), 2.0.into()));
}

#[test]
fn an_old_list_is_shown_with_its_age_and_says_nothing_is_missing() {
    let mut list = list();
    list.age = FRESH_FOR + 15_000;
    list.tasks.insert(id(TaskId::new, "task3"), running("burn", 3, "n2"));
    list.nodes.insert(id(NodeId::new, "n3"), listed_node("host-n3"));
    let told = Some(Swarm { list: Some(list), trouble: Some("nobody listens on the engine's socket".into()) });
    let report = read_once(vec![says(Holding { swarm: told, ..two() })], &everything());
    assert_eq!(missing(&report), []);
    assert_eq!(
        report.warnings,
        [
            "what Swarm says is 45 s old: it is shown, but not used to tell what is missing",
            "member c1 cannot list what Swarm says: nobody listens on the engine's socket"
        ]
    );
    assert_eq!(document(&report, What::Services)["swarm"]["age_seconds"], 45.0);
}

#[test]
fn p07_a_member_without_an_engine_answers_as_one_that_has_it() {
    let ask = everything();
    let told = Some(Swarm { list: Some(list()), trouble: None });
    let with_engine = Holding { swarm: told, ..holding("c2", vec![], vec![], vec![]) };
    let answers = |own: &Holding, other: &Holding| vec![says(own.clone()), says(other.clone())];
    let one = Join::new(Bounds::default()).read(answers(&two(), &with_engine), &ask, NOW);
    let other = Join::new(Bounds::default()).read(answers(&with_engine, &two()), &ask, NOW);
    assert_eq!(one, other);
}

#[test]
fn what_swarm_says_survives_the_wire() {
    use swarmstats::{view::Texts, wire};
    let mut list = list();
    list.tasks.insert(id(TaskId::new, "task3"), pending("burn", 3, "no suitable node"));
    list.services.get_mut("id-idle").unwrap().completed = Some((0, 0));
    let swarm = Swarm { list: Some(list), trouble: Some("none".into()) };
    let sent = Holding { swarm: Some(swarm), ..two() };
    assert_eq!(wire::holding(wire::held(&sent, Texts::Whole)).unwrap(), sent);
    let long: Arc<str> = "no\n".repeat(100_000).into();
    let mut told = sent.swarm.clone().unwrap();
    told.trouble = Some(long.clone());
    let list = told.list.as_mut().unwrap();
    list.tasks.get_mut("task3").unwrap().error = long.clone();
    list.services.get_mut("id-idle").unwrap().update_message = long.clone();
    list.nodes.get_mut("n1").unwrap().message = long;
    let sent = Holding { swarm: Some(told), ..two() };
    let taken = wire::holding(wire::held(&sent, Texts::Whole)).unwrap().swarm.unwrap();
    let list = taken.list.unwrap();
    let texts = [
        &*taken.trouble.unwrap(),
        &*list.tasks["task3"].error,
        &*list.services["id-idle"].update_message,
        &*list.nodes["n1"].message,
    ];
    assert!(texts.iter().all(|text| text.len() == 1_000 && text.starts_with("no no")), "no peer's text is taken whole");
}

#[test]
fn a_narrowed_list_has_every_task_that_a_question_may_mean() {
    let mut list = list();
    list.tasks.insert(id(TaskId::new, "other"), pending("idle", 1, ""));
    let tasks = |selector: Selector| {
        let narrowed = list.narrowed(&ask(selector));
        assert_eq!((narrowed.services.len(), narrowed.nodes.len()), (2, 2));
        narrowed.tasks.keys().map(ToString::to_string).collect::<Vec<_>>()
    };
    let of = |text: &str| Selector { service: Some(text.into()), ..Selector::default() };
    assert_eq!(tasks(of("burn")), ["task1", "task2"]);
    assert_eq!(tasks(of("id-idle")), ["other"]);
    assert_eq!(tasks(of("nobody")), [] as [&str; 0]);
    assert_eq!(tasks(Selector::everything()), ["other", "task1", "task2"]);
    // Hosts and stacks may go by another name in labels.
    assert_eq!(tasks(Selector { node: Some("n1".into()), ..of("burn") }), ["task1", "task2"]);
    assert_eq!(tasks(Selector { task: Some("task1".into()), ..Selector::default() }), ["task1"]);
}

#[test]
fn a_narrowed_list_has_no_more_of_what_is_not_asked_for_than_a_verdict_needs() {
    let mut list = list();
    for i in 0..500 {
        let service = Service {
            name: format!("other{i}").into(),
            update: "completed".into(),
            update_message: "x".repeat(500).into(),
            desired: 3,
            ..Service::default()
        };
        list.services.insert(id(ServiceId::new, &format!("id-other{i}")), service);
    }
    let length = |list: &List| {
        use prost::Message;
        swarmstats::wire::pb::SwarmList::from(list).encoded_len()
    };
    for ask in [service("burn"), single("task1"), of_node("n1")] {
        let narrowed = list.narrowed(&ask);
        let is_of_services = ask.selectors[0].task.is_none();
        assert_eq!(narrowed.services["id-burn"] == list.services["id-burn"], is_of_services);
        // A node's question may be about each service.
        if ask.selectors[0].node.is_none() {
            assert!(length(&narrowed) < length(&list) / 10, "{} of {}", length(&narrowed), length(&list));
        }
        // What is made of it is the same.
        let (whole, less) = (read(silent_n2(), list.clone(), &ask), read(silent_n2(), narrowed, &ask));
        assert_eq!((whole.missing, whole.warnings, whole.complete), (less.missing, less.warnings, less.complete));
        for what in [What::Services, What::Stacks, What::Tasks] {
            let (whole, less) = (read(two(), list.clone(), &ask), read(two(), list.narrowed(&ask), &ask));
            assert_eq!(document(&whole, what), document(&less, what));
        }
    }
    let nodes = |list: List| document(&read(two(), list, &of_node("n1")), What::Nodes);
    assert_eq!(nodes(list.clone()), nodes(list.narrowed(&of_node("n1"))));
    assert_eq!(list.narrowed(&everything()), list);
}
