//! A node's machine: its own figures and its capacity, once, whoever tells of them and however many tasks run there.

use crate::fixtures::*;
use serde_json::{Value, json};
use swarmstats::figures::of_machine;
use swarmstats::json::{Shape, What, document};
use swarmstats::model::Values;
use swarmstats::stat::{self, Stat};
use swarmstats::view::{NodeView, Previous, Report};

const CORE: u64 = 1_000_000_000;

fn machine(id: &str, before: &[(Stat, u64)], now: &[(Stat, u64)]) -> NodeView {
    with(node(id, &["web"]), |node| {
        node.values = now.iter().copied().collect();
        node.monotonic = 10 * SECOND;
        node.previous = Previous::of(9 * SECOND, &before.iter().copied().collect::<Values>());
    })
}

/// 8 CPUs of which 4 are busy, 32 GiB of which a quarter is used.
fn large() -> NodeView {
    let before = [(stat::CPU, 10 * SECOND), (stat::RX_BYTES, 1000), (stat::IO_WAITING, 0), (stat::BLOCK_READ, 9)];
    let now = [
        (stat::CPU, 14 * SECOND),
        (stat::CPU_LIMIT, 8 * CORE),
        (stat::MEMORY_USED, 8 << 30),
        (stat::MEMORY_LIMIT, 32 << 30),
        (stat::MEMORY_SWAP, 0),
        (stat::LOAD1, 4_250),
        (stat::RX_BYTES, 4000),
        (stat::IO_WAITING, SECOND / 4),
        (stat::BLOCK_READ, 9),
        (stat::FILESYSTEM_SIZE, 1000),
    ];
    machine("n1", &before, &now)
}

fn nodes(report: &Report, stats: u64) -> Value {
    let text =
        document(report, &Shape { what: What::Nodes, stats, points: false, owners: &|_| Vec::new(), ring_id: None });
    serde_json::from_str::<Value>(&text).unwrap()
}

#[test]
fn p08_a_nodes_capacity_counts_once_however_many_tasks_and_members_tell_of_it() {
    let tasks = || ["t1", "t2", "t3"].map(|id| task(id, "web", "n1")).to_vec();
    let answer = |of: &str| says(holding(of, tasks(), vec![row("n1", "web", 3)], vec![large()]));
    let report = read_once(vec![answer("c1"), answer("c2")], &everything());
    let document = nodes(&report, u64::MAX);
    assert_eq!(document["nodes"].as_array().unwrap().len(), 1);
    let node = &document["nodes"][0];
    assert_eq!(node["capacity"], json!({"cpu_cores": 8.0, "memory_bytes": 34_359_738_368_u64}));
    let figures = &node["machine"]["figures"];
    assert_eq!(figures["cpu_percent"], 400.0);
    assert_eq!(figures["cpu_percent_of_node"], 50.0);
    assert_eq!(figures["memory_percent"], 25.0);
    // Its tasks' own sums stand beside it: three of them, each a whole CPU.
    assert_eq!(node["figures"]["cpu_percent"], 300.0);
    assert_eq!(node["figures"]["cpu_percent_of_node"], 37.5);
}

#[test]
fn a_machine_has_every_figure_that_is_promised_and_absent_is_null() {
    let report = Report { nodes: vec![large()], ..Report::default() };
    let node = &nodes(&report, stat::LOAD1.bit() | stat::PIDS.bit() | stat::RESTARTS.bit())["nodes"][0];
    let expected = json!({
        "cpu_percent": 400.0, "cpu_percent_of_node": 50.0, "load1": 4.25, "load5": null, "load15": null,
        "memory_used_bytes": 8_589_934_592_u64, "memory_limit_bytes": 34_359_738_368_u64, "memory_percent": 25.0,
        "swap_used_bytes": 0, "swap_limit_bytes": null,
        "filesystem_used_bytes": null, "filesystem_size_bytes": 1000, "filesystem_available_bytes": null,
        "network_receive_bytes_per_second": 3000, "network_transmit_bytes_per_second": null,
        "block_read_bytes_per_second": 0, "block_written_bytes_per_second": null,
        "pressure_cpu_percent": null, "pressure_memory_percent": null, "pressure_io_percent": 25.0,
    });
    assert_eq!(node["machine"]["figures"], expected);
    assert_eq!(
        node["machine"]["stats"],
        json!({"pids": null, "load1": 4.25}),
        "what was asked for, of what machines have"
    );
}

#[test]
fn a_silent_machine_does_nothing_and_has_nothing() {
    let report = Report { nodes: vec![with(large(), |node| node.fresh = false)], ..Report::default() };
    let node = &nodes(&report, u64::MAX)["nodes"][0];
    assert_eq!(node["capacity"], json!({"cpu_cores": null, "memory_bytes": null}));
    assert!(node["machine"]["figures"].as_object().unwrap().values().all(Value::is_null), "{node}");
}

#[test]
fn rounding_to_ticks_is_no_fault_and_a_jump_is_one() {
    // One CPU and a tenth of a second: 130 ms are 100 ms and ticks, 200 ms cannot be.
    let busy = |cpu: u64| {
        let mut node = machine("n1", &[(stat::CPU, 0)], &[(stat::CPU, cpu), (stat::CPU_LIMIT, CORE)]);
        node.monotonic = 9 * SECOND + SECOND / 10;
        of_machine(&node)
    };
    assert_eq!((busy(130_000_000).cpu_percent, busy(130_000_000).doubts.len()), (Some(100_000_000), 0));
    let jump = busy(200_000_000);
    assert_eq!((jump.cpu_percent, jump.cpu_percent_of_node, jump.doubts.len()), (None, None, 1));
    assert!(
        jump.doubts[0].starts_with("node host-n1: cpu_seconds_total rose by 0.2 within 0.100 s"),
        "{:?}",
        jump.doubts
    );
}

#[test]
fn a_doubt_about_a_node_without_a_name_names_its_id() {
    // A hundred CPUs' time within a second, on a node of 8.
    let before = [(stat::CPU, 0)];
    let now = [(stat::CPU, 100 * SECOND), (stat::CPU_LIMIT, 8 * CORE)];
    let nameless = with(machine("n1", &before, &now), |node| {
        std::sync::Arc::make_mut(&mut node.meta).node_name = "".into();
    });
    let doubts = of_machine(&nameless).doubts;
    assert!(doubts.len() == 1 && doubts[0].starts_with("node n1: "), "{doubts:?}");
}
