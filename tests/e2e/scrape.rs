//! `/metrics`: its shape, and the ledger of services across ends of tasks and of processes.

use crate::rig::{Daemon, get, member, series, until, value};
use crate::scripted::{Scripted, figures};
use std::collections::{BTreeMap, BTreeSet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

const CPU_OF_WEB: &str =
    r#"swarmstats_service_cpu_seconds_total{service_id="id-of-web",service_name="web",stack="shop"}"#;

/// DESIGN §7, copied by hand: the suffixes at level `standard`.
const SUFFIXES: &str = "cpu_seconds_total cpu_user_seconds_total cpu_system_seconds_total cpu_periods_total \
    cpu_throttled_periods_total cpu_throttled_seconds_total cpu_limit_cores memory_used_bytes memory_usage_bytes \
    memory_limit_bytes memory_peak_bytes memory_anon_bytes memory_file_bytes memory_shmem_bytes memory_kernel_bytes \
    memory_swap_bytes memory_page_faults_total memory_major_page_faults_total memory_oom_kills_total \
    network_receive_bytes_total network_receive_packets_total network_receive_errors_total \
    network_receive_dropped_total network_transmit_bytes_total network_transmit_packets_total \
    network_transmit_errors_total network_transmit_dropped_total block_read_bytes_total block_written_bytes_total \
    block_reads_total block_writes_total pids pids_limit pressure_cpu_waiting_seconds_total \
    pressure_cpu_stalled_seconds_total pressure_memory_waiting_seconds_total pressure_memory_stalled_seconds_total \
    pressure_io_waiting_seconds_total pressure_io_stalled_seconds_total start_time_seconds memory_working_set_bytes \
    restarts health_status paused exit_code";
/// They say nothing about a group.
const OF_TASKS_ONLY: [&str; 4] = ["memory_peak_bytes", "start_time_seconds", "health_status", "exit_code"];
/// They say nothing about a machine.
const NOT_OF_NODES: &str = "cpu_periods_total cpu_throttled_periods_total cpu_throttled_seconds_total \
    memory_usage_bytes memory_peak_bytes memory_working_set_bytes restarts health_status paused exit_code";
/// Of machines alone.
const OF_NODES_ONLY: &str = "sample_age_seconds load1 load5 load15 memory_swap_limit_bytes filesystem_size_bytes \
    filesystem_used_bytes filesystem_available_bytes cpu_iowait_seconds_total cpu_steal_seconds_total";

/// The series of tasks and services whose values do not depend on the moment.
fn lasting(page: &str) -> BTreeSet<&str> {
    let figures = |line: &&str| line.starts_with("swarmstats_task_") || line.starts_with("swarmstats_service_");
    page.lines().filter(figures).filter(|line| !line.contains("sample_age")).collect()
}

#[tokio::test]
async fn the_page_has_the_shape_that_the_design_names() {
    let daemon = Daemon::collectord("c1", "").await;
    let mut shipper = Scripted::new("node-1", &[("c1", daemon.api)]);
    shipper.run("web", "task1", figures(12, 34));
    shipper.run("web", "task2", figures(7, 16));
    shipper.machine = figures(40, 70);
    shipper.settle().await;
    let page = get(daemon.metrics, "/metrics").await.body;

    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut current, mut seen) = ("", BTreeSet::new());
    for line in page.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap();
            assert!(types.insert(name, kind).is_none(), "{name} is there twice");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            current = name;
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(series.split('{').next().unwrap(), current, "a series outside its family");
            assert!(seen.insert(series), "{series} is there twice");
            value.parse::<f64>().unwrap();
        }
    }
    let of = |scope: &str| -> BTreeSet<&str> {
        types.keys().filter_map(|name| name.strip_prefix(&format!("swarmstats_{scope}_"))).collect()
    };
    let mut of_tasks: BTreeSet<&str> = SUFFIXES.split_whitespace().collect();
    let mut of_services = of_tasks.clone();
    let mut of_nodes = of_tasks.clone();
    of_nodes.retain(|name| !NOT_OF_NODES.split_whitespace().any(|not| not == *name));
    of_nodes.extend(OF_NODES_ONLY.split_whitespace());
    of_services.retain(|name| !OF_TASKS_ONLY.contains(name));
    of_tasks.extend(["sample_age_seconds", "info"]);
    of_services.insert("tasks");
    assert_eq!(of("task"), of_tasks);
    assert_eq!(of("service"), of_services);
    assert_eq!(of("node"), of_nodes);
    let node = r#"{node_id="node-1",node_name="name-of-node-1"}"#;
    assert_eq!(value(&page, &format!("swarmstats_node_cpu_seconds_total{node}")), Some(40.0));
    assert_eq!(value(&page, &format!("swarmstats_node_memory_used_bytes{node}")), Some(70.0));

    let task =
        r#"{task_id="task1",task_name="web.1.task1",service_name="web",stack="shop",node_name="name-of-node-1"}"#;
    assert_eq!(value(&page, &format!("swarmstats_task_cpu_seconds_total{task}")), Some(12.0));
    assert_eq!(value(&page, &format!("swarmstats_task_memory_used_bytes{task}")), Some(34.0));
    let service = r#"{service_id="id-of-web",service_name="web",stack="shop"}"#;
    assert_eq!(value(&page, &format!("swarmstats_service_memory_used_bytes{service}")), Some(50.0));
    assert_eq!(value(&page, CPU_OF_WEB), Some(0.0), "what was used before the shipper began is no increment");
    let fresh = r#"swarmstats_service_tasks{service_id="id-of-web",service_name="web",stack="shop",state="fresh"}"#;
    assert_eq!(value(&page, fresh), Some(2.0));
    let info = page.lines().find(|line| line.starts_with("swarmstats_task_info{task_id=\"task1\"")).unwrap();
    for label in ["service_id=\"id-of-web\"", "node_id=\"node-1\"", "slot=\"1\"", "image=\"made-up:1\"", "} 1"] {
        assert!(info.contains(label), "{label} in {info}");
    }
    for own in
        ["process_cpu_seconds_total", "swarmstats_build_info{version=\"0.1.0\"}", "swarmstats_router_queries_total"]
    {
        assert!(value(&page, own).is_some(), "{own}");
    }
}

#[tokio::test]
async fn service_counters_never_fall_and_every_scraper_sees_the_same() {
    let daemon = Daemon::collectord("c1", "").await;
    let mut shipper = Scripted::new("node-1", &[("c1", daemon.api)]);
    shipper.run("web", "task1", figures(100, 1));
    shipper.run("web", "task2", figures(200, 1));
    shipper.settle().await;
    assert_eq!(series(daemon.metrics, CPU_OF_WEB).await, Some(0.0));
    shipper.run("web", "task1", figures(103, 1));
    shipper.run("web", "task2", figures(204, 1));
    shipper.round().await;
    assert_eq!(series(daemon.metrics, CPU_OF_WEB).await, Some(7.0));
    // A task ends, with two seconds more; another is killed unseen; one begins anew.
    shipper.end("task1", figures(105, 1));
    shipper.tasks.remove("task2");
    shipper.run("web", "task3", figures(50, 1));
    shipper.settle().await;
    assert_eq!(series(daemon.metrics, CPU_OF_WEB).await, Some(9.0));
    shipper.run("web", "task3", figures(51, 1));
    shipper.settle().await;
    let pages = [get(daemon.metrics, "/metrics").await.body, get(daemon.metrics, "/metrics").await.body];
    assert_eq!(value(&pages[0], CPU_OF_WEB), Some(10.0));
    assert_eq!(lasting(&pages[0]), lasting(&pages[1]), "a second scraper sees the same");
    assert!(!pages[0].contains("task_id=\"task1\""), "an ended task has no series");
}

#[tokio::test]
async fn what_a_killed_collector_had_not_shown_reaches_its_successor_exactly_once() {
    let mut first = Daemon::collectord("c1", "").await;
    let c1 = member("c1");
    let mut shipper = Scripted::new("node-1", &[("c1", first.api)]);
    shipper.run("web", "task1", figures(1000, 1));
    shipper.settle().await;
    assert_eq!(series(first.metrics, CPU_OF_WEB).await, Some(0.0));
    shipper.run("web", "task1", figures(1005, 1));
    shipper.round().await;
    assert_eq!(series(first.metrics, CPU_OF_WEB).await, Some(5.0));
    // Told that 5 were shown; then 11 more are stored, acknowledged, and never scraped.
    shipper.round().await;
    assert_eq!(shipper.outbox.sizes().unexposed, 0);
    shipper.run("web", "task1", figures(1016, 1));
    shipper.round().await;
    assert_eq!(shipper.outbox.sizes().unexposed, 1);
    first.kill();
    shipper.close(&c1);
    // It was started again while the task used 3 more.
    let second = Daemon::collectord_at("c1", first.api, "").await;
    shipper.run("web", "task1", figures(1019, 1));
    shipper.settle().await;
    assert_eq!(series(second.metrics, CPU_OF_WEB).await, Some(0.0), "born with 0, so that increase() sees all of it");
    assert_eq!(series(second.metrics, CPU_OF_WEB).await, Some(14.0), "5 + 14 = 1019 - 1000");
    // Totals are the shipper's own and never depended on any collector.
    let service = get(second.api, "/v1/services/web").await.json();
    assert_eq!(service["services"][0]["totals"]["cpu_seconds_total"], 1019.0);
}

#[tokio::test]
async fn a_scrape_whose_reader_leaves_midway_has_shown_nothing() {
    let daemon = Daemon::collectord("c1", "").await;
    let mut shipper = Scripted::new("node-1", &[("c1", daemon.api)]);
    // Some 15 MB of text: more than the kernel takes off the collector's hands.
    for i in 0..1800 {
        shipper.run("web", &format!("task{i:04}"), figures(i, 1));
    }
    shipper.settle().await;
    get(daemon.metrics, "/metrics").await;
    shipper.run("web", "task0000", figures(8, 1));
    shipper.round().await;
    let broken = "swarmstats_collector_scrapes_broken_total";
    let (scrapes, n_broken) = {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut reader = socket.connect(daemon.metrics).await.unwrap();
        reader.write_all(b"GET /metrics HTTP/1.1\r\nHost: it\r\n\r\n").await.unwrap();
        let mut some = vec![0; 4096];
        reader.read_exact(&mut some).await.unwrap();
        assert!(some.starts_with(b"HTTP/1.1 200"));
        (1.0, 1.0)
    };
    // The counters of a broken scrape are those of the next; the shipper is asked before that one.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    shipper.round().await;
    assert_eq!(shipper.outbox.sizes().unexposed, 1, "a broken scrape counted as shown");
    let page = get(daemon.metrics, "/metrics").await.body;
    assert_eq!(value(&page, broken), Some(n_broken));
    assert_eq!(value(&page, "swarmstats_collector_scrapes_total"), Some(scrapes));
    shipper.round().await;
    assert_eq!(shipper.outbox.sizes().unexposed, 0, "a whole scrape did not count as shown");
}

/// The machine's own figures come from one process at a time, follow what is told, and go with the shipper's life sign;
/// every router has them.
#[tokio::test]
async fn a_machines_figures_arrive_once() {
    let daemons = [Daemon::collectord("c1", "").await, Daemon::collectord("c2", "").await];
    let members = [("c1", daemons[0].api), ("c2", daemons[1].api)];
    let mut shipper = Scripted::new("node-1", &members);
    shipper.run("web", "task1", figures(12, 34));
    shipper.machine = figures(40, 70);
    shipper.settle().await;
    // The list of services changes, which introduces the node anew under its handle; then a figure goes.
    shipper.run("db", "task2", figures(1, 1));
    shipper.machine = figures(44, 71);
    shipper.machine.clear(swarmstats::stat::LOAD1);
    shipper.settle().await;
    let series = |name: &str| format!("swarmstats_node_{name}{{node_id=\"node-1\",node_name=\"name-of-node-1\"}}");
    let mut emitting = Vec::new();
    for daemon in &daemons {
        let page = get(daemon.metrics, "/metrics").await.body;
        let cpu = value(&page, &series("cpu_seconds_total"));
        assert_eq!(page.contains("swarmstats_node_memory_used_bytes{"), cpu.is_some());
        assert_eq!(value(&page, &series("load1")), None, "absent is no series");
        emitting.extend(cpu);
    }
    assert_eq!(emitting, [44.0], "the primary alone");
    let owner = daemons.iter().zip(&members).find(|(_, (id, _))| {
        let key = swarmstats::model::Key::Node(swarmstats::model::NodeId::new("node-1").unwrap());
        shipper.ring().primary(&key) == &member(id)
    });
    let body = get(owner.unwrap().0.api, "/v1/nodes?scope=local").await.body;
    let node = serde_json::from_str::<serde_json::Value>(&body).unwrap()["nodes"][0].clone();
    assert_eq!(node["machine"]["stats"]["cpu_seconds_total"], 44.0);
    assert_eq!(node["machine"]["figures"]["memory_used_bytes"], 71);
    assert_eq!(node["machine"]["figures"]["load1"], serde_json::Value::Null);
    assert!(node["machine"]["figures"]["cpu_percent"].is_number(), "there is a reading before: {node}");
    assert_eq!(node["capacity"]["memory_bytes"], 1000 + swarmstats::stat::MEMORY_LIMIT.number());
}

/// A router's own page of the whole cluster: whole services and stacks, counted from its start, and tasks by state.
#[tokio::test]
async fn a_router_tells_the_whole_cluster_and_counts_from_its_start() {
    let daemons =
        [Daemon::collectord("c1", "roles: [collector]").await, Daemon::collectord("c2", "roles: [collector]").await];
    let members = [("c1", daemons[0].api), ("c2", daemons[1].api)];
    let list = |(id, api): &(&str, std::net::SocketAddr)| format!("{{id: {id}, addr: '{api}'}}");
    let list = members.iter().map(list).collect::<Vec<_>>().join(", ");
    let router = Daemon::collectord("r1", &format!("roles: [router]\nmembers: {{static: [{list}]}}")).await;
    let mut shipper = Scripted::new("node-1", &members);
    shipper.machine = figures(40, 70);
    for (service, id, cpu) in [("web", "task1", 100), ("web", "task2", 200), ("db", "task3", 50)] {
        shipper.run(service, id, figures(cpu, 10));
    }
    shipper.settle().await;
    let page = async || get(router.metrics, "/metrics?scope=cluster").await.body;
    let of = |page: &str, name: &str, more: &str| {
        let labels = format!("service_id=\"id-of-web\",service_name=\"web\",stack=\"shop\"{more}");
        value(page, &format!("swarmstats_service_{name}{{{labels}}}"))
    };
    let first = page().await;
    assert_eq!(of(&first, "cpu_seconds_total", ""), Some(0.0), "{first}");
    assert_eq!(of(&first, "memory_used_bytes", ""), Some(20.0));
    assert_eq!(of(&first, "tasks", ",state=\"fresh\""), Some(2.0));
    assert_eq!(of(&first, "tasks", ",state=\"missing\""), Some(0.0));
    assert_eq!(value(&first, "swarmstats_cluster_complete"), Some(1.0));
    assert!(!first.contains("swarmstats_task_") && !first.contains("swarmstats_router_"), "only what is whole");
    assert_eq!(
        value(&first, "swarmstats_node_cpu_seconds_total{node_id=\"node-1\",node_name=\"name-of-node-1\"}"),
        Some(40.0)
    );
    // What has risen since, once, however often it is read; and of a service that is new, all.
    for (service, id, cpu) in [("web", "task1", 130), ("web", "task2", 207), ("api", "task4", 9)] {
        shipper.run(service, id, figures(cpu, 10));
    }
    shipper.settle().await;
    page().await;
    let second = page().await;
    assert_eq!(of(&second, "cpu_seconds_total", ""), Some(37.0));
    assert_eq!(value(&second, "swarmstats_stack_cpu_seconds_total{stack=\"shop\"}"), Some(37.0 + 9.0));
    assert_eq!(value(&second, "swarmstats_stack_tasks{stack=\"shop\",state=\"fresh\"}"), Some(4.0));
    // It says whether it is all there is.
    let [c1, mut c2] = daemons;
    c2.kill();
    until("it is known not to be complete", async || value(&page().await, "swarmstats_cluster_complete") == Some(0.0))
        .await;
    let daemons = [c1];
    // Others have no such page, and say so.
    assert_eq!(get(daemons[0].metrics, "/metrics?scope=cluster").await.status, 404);
    let wrong = get(router.metrics, "/metrics?scope=galaxy").await;
    assert!(wrong.status == 400 && wrong.body.contains("there is scope=cluster"), "{}", wrong.body);
    assert_eq!(get(router.metrics, "/metrics").await.status, 200);
}
