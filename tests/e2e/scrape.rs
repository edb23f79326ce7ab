//! `/metrics`: its shape, and the ledger of services across ends of tasks and of processes.

use crate::rig::{Daemon, get, member, series, value};
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
    pressure_io_waiting_seconds_total pressure_io_stalled_seconds_total start_time_seconds";
/// They say nothing about a group.
const OF_TASKS_ONLY: [&str; 2] = ["memory_peak_bytes", "start_time_seconds"];

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
    of_services.retain(|name| !OF_TASKS_ONLY.contains(name));
    of_tasks.extend(["sample_age_seconds", "info"]);
    of_services.insert("tasks");
    assert_eq!(of("task"), of_tasks);
    assert_eq!(of("service"), of_services);

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
