//! The page that Prometheus scrapes, byte for byte against `tests/data/metrics.txt` (written by hand from DESIGN §7 and
//! the text format's rules), and linted by Prometheus' own tool.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use swarmstats::aggregate::{ScrapedNode, ScrapedService, ScrapedTask};
use swarmstats::metrics::exposition::CHUNK;
use swarmstats::metrics::own::{Bound, Endpoint, HelloRefused, StreamEnd, StreamFailed, register_process, render};
use swarmstats::metrics::{
    CollectorMetrics, GroupSeries, LabelCache, NodeSeries, Page, ProcessMetrics, Registry, RouterMetrics, Series,
    ShipperMetrics, SwarmMetrics,
};
use swarmstats::model::{Labels, MemberId, NodeId, NodeMeta, RingId, RowMeta, ServiceId, TaskId, TaskMeta, Values};
use swarmstats::outbox::RowFigures;
use swarmstats::stat::{self, Stat};

fn meta(id: &str, name: &str, labels: &[(&str, &str)]) -> Arc<TaskMeta> {
    Arc::new(TaskMeta {
        task_id: TaskId::new(id).unwrap(),
        task_name: name.into(),
        slot: "1".into(),
        service_id: ServiceId::new("svc1").unwrap(),
        service_name: "shop_web".into(),
        stack: "shop".into(),
        node_id: NodeId::new("nodeid1").unwrap(),
        node_name: "alpha".into(),
        container_id: "c0ffee".into(),
        image: "nginx:1.27".into(),
        started_at: 1_700_000_000_500,
        labels: labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect::<Labels>(),
        shares_netns: false,
    })
}

fn values(of: &[(Stat, u64)]) -> Values {
    of.iter().copied().collect()
}

/// Two tasks, one of which lacks most stats; their service; their node; and a row of a shipper.
fn series() -> Series {
    let web = meta("t1", "shop_web.1.t1", &[("com.example.team", "pay\"ments\\\n"), ("com.example/team", "b")]);
    let odd = Arc::new(TaskMeta { stack: "".into(), slot: "".into(), ..(*meta("t2", "solo", &[])).clone() });
    let tasks = vec![
        ScrapedTask {
            meta: web,
            values: values(&[
                (stat::CPU, 12_500_000_001),
                (stat::MEMORY_USED, 268_435_456),
                (stat::PIDS, 0),
                (stat::CPU_LIMIT, 1_500_000_000),
                (stat::START_TIME, 1_700_000_000_500_000_000),
            ]),
            age: 1_250,
        },
        ScrapedTask { meta: odd, values: values(&[(stat::CPU, 7_000_000_000)]), age: 0 },
    ];
    let service = ScrapedService {
        service_id: ServiceId::new("svc1").unwrap(),
        name: "shop_web".into(),
        stack: "shop".into(),
        counters: values(&[(stat::CPU, 19_500_000_001), (stat::OOM_KILLS, 0)]),
        gauges: values(&[(stat::MEMORY_USED, 268_435_456)]),
        fresh: 2,
    };
    let row = RowFigures {
        meta: Arc::new(RowMeta {
            node_id: NodeId::new("nodeid1").unwrap(),
            node_name: "alpha".into(),
            service_id: ServiceId::new("svc1").unwrap(),
            service_name: "shop_web".into(),
            stack: "shop".into(),
            since: 0,
        }),
        values: values(&[(stat::RX_BYTES, 1_024)]),
        fresh: 2,
    };
    let node = ScrapedNode {
        meta: Arc::new(NodeMeta {
            node_id: NodeId::new("nodeid1").unwrap(),
            node_name: "alpha".into(),
            services: Vec::new(),
            since: 0,
        }),
        values: values(&[(stat::CPU, 3_020_000_000), (stat::CPU_LIMIT, 8_000_000_000), (stat::LOAD1, 1_020)]),
        age: 1_250,
    };
    Series {
        tasks: LabelCache::default().tasks(tasks),
        services: vec![GroupSeries::from(&service)],
        nodes: vec![NodeSeries::from(node)],
        node_services: vec![GroupSeries::from(&row)],
        cluster: None,
    }
}

fn text(page: Page) -> String {
    String::from_utf8(page.flatten().collect()).unwrap()
}

#[test]
fn the_page_is_pinned() {
    assert_eq!(text(Page::new(series())), include_str!("../data/metrics.txt"));
}

#[test]
fn b032_b107_b112_b139_task_series_have_one_set_of_labels_that_a_query_can_rely_on() {
    let page = text(Page::new(series()));
    let labels = |line: &str| {
        let (_, inside) = line.split_once('{').unwrap();
        let names = inside.rsplit_once('}').unwrap().0.split("\",").map(|pair| pair.split('=').next().unwrap());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let of_tasks = |line: &&str| line.starts_with("swarmstats_task_") && !line.starts_with("swarmstats_task_info");
    let lines: Vec<_> = page.lines().filter(of_tasks).collect();
    assert!(lines.len() > 5);
    for line in &lines {
        assert_eq!(labels(line), ["task_id", "task_name", "service_name", "stack", "node_name"], "{line}");
    }
    // No path of a cgroup and no CPU among them: a task has one series of CPU time, whatever the kernel is.
    assert_eq!(lines.iter().filter(|line| line.starts_with("swarmstats_task_cpu_seconds_total")).count(), 2);
}

#[test]
fn nothing_to_show_is_no_text() {
    assert_eq!(Page::new(Series::default()).count(), 0);
}

#[test]
fn a_long_page_comes_in_chunks_that_join_to_the_same_text() {
    let tasks = |n: usize| {
        let task = |i| ScrapedTask {
            meta: meta(&format!("task{i:06}"), "web", &[]),
            values: values(&[(stat::CPU, i), (stat::PIDS, i)]),
            age: 0,
        };
        (0..n as u64).map(task).collect::<Vec<_>>()
    };
    let mut cache = LabelCache::default();
    let mut page = Page::new(Series { tasks: cache.tasks(tasks(3_000)), ..Series::default() });
    let chunks: Vec<Vec<u8>> = page.by_ref().collect();
    assert_eq!(page.n_series(), 4 * 3_000);
    let (last, whole) = chunks.split_last().unwrap();
    assert!(whole.iter().all(|chunk| (CHUNK..CHUNK + 1_024).contains(&chunk.len())));
    assert!(!last.is_empty());
    let text = String::from_utf8(chunks.concat()).unwrap();
    assert_eq!(text.matches("# TYPE ").count(), 4, "each family has one head, wherever chunks end");
    for i in 0..3_000 {
        let line = format!("swarmstats_task_pids{{task_id=\"task{i:06}\",");
        assert_eq!(text.matches(&line).count(), 1);
    }
}

#[test]
fn labels_follow_a_changed_task() {
    let mut cache = LabelCache::default();
    let mut scrape = |meta: Arc<TaskMeta>| {
        let task = ScrapedTask { meta, values: Values::default(), age: 0 };
        text(Page::new(Series { tasks: cache.tasks(vec![task]), ..Series::default() }))
    };
    assert!(scrape(meta("t1", "old", &[])).contains("task_name=\"old\""));
    assert!(scrape(meta("t1", "new", &[])).contains("task_name=\"new\""));
}

/// Everything at once, as one page: every stat of the catalogue at every scope, and all own metrics.
fn full_page() -> String {
    let all: Values = Stat::all().map(|stat| (stat, 1)).collect();
    let mut series = series();
    for task in &mut series.tasks {
        task.values = all.clone();
    }
    let registry = Registry::new();
    let process = ProcessMetrics::register(&registry).unwrap();
    process.set_ring(RingId(1));
    process.set_ring(RingId(0xabc));
    process.set_insecure(Endpoint::Metrics);
    process.common.bounds_refused.of(Bound::MaxTasks).inc();
    let shipper = ShipperMetrics::register(&registry).unwrap();
    shipper.streams_failed.of(StreamFailed::BatchLate).inc();
    for (member, n) in [("c1", 4), ("c2", 5)] {
        let member = MemberId::new(member).unwrap();
        shipper.batches_sent.of(&member).inc_by(n);
        shipper.batches_acked.of(&member).inc_by(n - 1);
        shipper.batches_unacked.of(&member).inc();
        shipper.batches_owed.of(&member).set(n as f64);
        shipper.owed_seconds.of(&member).set(1.5);
    }
    // This one has left the ring.
    let gone = MemberId::new("c3").unwrap();
    shipper.batches_sent.of(&gone).inc();
    shipper.batches_sent.forget(&gone);
    shipper.batches_sent.forget(&gone);
    SwarmMetrics::register(&registry).unwrap();
    let collector = CollectorMetrics::register(&registry).unwrap();
    collector.hellos_refused.of(HelloRefused::Full).inc_by(3);
    collector.streams_ended.of(StreamEnd::DataLoss).inc();
    collector.roles.set(7);
    RouterMetrics::register(&registry).unwrap().queries.inc();
    register_process(&registry).unwrap();
    String::from_utf8(render(&registry).unwrap()).unwrap() + &text(Page::new(series))
}

#[test]
fn own_metrics_say_what_happened() {
    let page = full_page();
    for line in [
        concat!("swarmstats_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        "swarmstats_ring_info{ring_id=\"0000000000000abc\"} 1",
        "swarmstats_insecure_listen{endpoint=\"api\"} 0",
        "swarmstats_insecure_listen{endpoint=\"metrics\"} 1",
        "swarmstats_bound_refusals_total{bound=\"max_tasks\"} 1",
        "swarmstats_bound_refusals_total{bound=\"max_queries\"} 0",
        "swarmstats_collector_hellos_refused_total{reason=\"full\"} 3",
        "swarmstats_collector_hellos_refused_total{reason=\"too_many_streams\"} 0",
        "swarmstats_collector_streams_ended_total{reason=\"data_loss\"} 1",
        "swarmstats_collector_roles 7",
        "swarmstats_collector_batch_seconds_total 0",
        "swarmstats_collector_advised_interval_factor 0",
        "swarmstats_router_queries_total 1",
        "swarmstats_shipper_batches_sent_total{member=\"c1\"} 4",
        "swarmstats_shipper_batches_sent_total{member=\"c2\"} 5",
        "swarmstats_shipper_batches_acked_total{member=\"c1\"} 3",
        "swarmstats_shipper_batches_unacknowledged_total{member=\"c1\"} 1",
        "swarmstats_shipper_owed_batches{member=\"c2\"} 5",
        "swarmstats_shipper_owed_seconds{member=\"c2\"} 1.5",
        "swarmstats_shipper_streams_failed_total{reason=\"batch_late\"} 1",
        "swarmstats_shipper_streams_failed_total{reason=\"connect\"} 0",
        "swarmstats_shipper_moves_total 0",
        "swarmstats_shipper_takeovers_total 0",
        "swarmstats_shipper_returned_batches_total 0",
        "swarmstats_shipper_returned_cpu_seconds_total 0",
        "swarmstats_shipper_usable_members 0",
        "swarmstats_shipper_faults_total{reason=\"denied\"} 0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    assert_eq!(page.matches("swarmstats_ring_info{").count(), 1, "the ring before is forgotten");
    assert!(!page.contains("c3"), "a member that is gone is told no more");
    assert!(page.contains("\nprocess_cpu_seconds_total ") && page.contains("\nprocess_start_time_seconds 1"));
}

#[test]
fn one_registry_has_one_set() {
    let registry = Registry::new();
    RouterMetrics::register(&registry).unwrap();
    let again = RouterMetrics::register(&registry).unwrap_err();
    assert!(again.to_string().contains("swarmstats_router_queries_total"), "{again}");
}

#[test]
fn promtool_finds_nothing() {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is needed: install Debian's package `prometheus`");
    promtool.stdin.take().unwrap().write_all(full_page().as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let found = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && found.is_empty(), "{}: {found}", output.status);
}
