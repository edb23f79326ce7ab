//! Figures and documents. Expected values are from public reports, from docker's own rules, or added up by hand.

use crate::fixtures::*;
use serde_json::Value;
use std::sync::Arc;
use swarmstats::figures::{By, Coverage, FIGURES, Group, Machines, groups, of_task};
use swarmstats::json::{self, Shape, What};
use swarmstats::model::{TaskId, Values, bits};
use swarmstats::stat::{self, Stat};
use swarmstats::view::{Missing, NodeView, Point, Previous, Report, TaskView};

/// A task's own figures, on a machine that tells nothing.
fn alone(task: &TaskView) -> Group {
    of_task(task, &Machines::of(&Report::default()))
}

fn cpu(then: (u64, u64), now: (u64, u64)) -> Option<u64> {
    let task = with(task("t", "s", "n"), |task| {
        task.previous = before(then.0, then.1);
        task.monotonic = now.0;
        task.values.set(stat::CPU, now.1);
    });
    alone(&task).figures.cpu_percent
}

/// A node whose machine has so many CPUs and so much memory.
fn machine(id: &str, cpus: u64, memory: u64) -> NodeView {
    with(node(id, &[]), |node| node.values = values([(stat::CPU_LIMIT, cpus * CORE), (stat::MEMORY_LIMIT, memory)]))
}

/// A task between two readings, one second apart.
fn between<const B: usize, const N: usize>(
    id: &str,
    node: &str,
    then: [(Stat, u64); B],
    now: [(Stat, u64); N],
) -> TaskView {
    with(task(id, "web", node), |task| {
        (task.previous, task.monotonic) = (Previous::of(9 * SECOND, &values(then)), 10 * SECOND);
        task.values = values(now);
    })
}

const CORE: u64 = 1_000_000_000;

fn values<const N: usize>(pairs: [(Stat, u64); N]) -> Values {
    pairs.into_iter().collect()
}

fn valued<const N: usize>(id: &str, pairs: [(Stat, u64); N]) -> TaskView {
    with(task(id, "web", "n1"), |task| task.values = values(pairs))
}

fn group_of(tasks: Vec<TaskView>) -> Group {
    groups(&Report { tasks, ..Report::default() }, By::Service).remove(0)
}

#[test]
fn cpu_percent_is_what_docker_stats_shows() {
    // docker/for-linux#151: Δcpu 731308110 ns, Δsystem 3.89 s on 4 CPUs, which is 0.9725 s of time: 75.20 %, not 281.995.
    assert_eq!(cpu((1_000, 0), (1_000 + 972_500_000, 731_308_110)).unwrap() / 10_000, 7519);
    assert_eq!(format!("{:.2}", cpu((0, 0), (972_500_000, 731_308_110)).unwrap() as f64 / 1e6), "75.20");
    // The same thread's healthy sample: system +7.96 s on 8 CPUs.
    let percent = cpu((0, 18_702_324_497_183), (995_000_000, 18_702_340_106_497)).unwrap();
    assert_eq!(format!("{:.2}", percent as f64 / 1e6), "1.57");
    // Two busy cores are 200 % (moby/moby#13626: intended).
    assert_eq!(cpu((0, 0), (SECOND, 2 * SECOND)), Some(200_000_000));
    assert_eq!(cpu((0, 7), (SECOND, 7)), Some(0), "idle is zero, not absent");
}

#[test]
fn cpu_percent_is_absent_where_nothing_can_be_said() {
    let first = with(task("t", "s", "n"), |task| task.previous = None);
    assert_eq!(alone(&first).figures.cpu_percent, None, "a first reading");
    assert_eq!(cpu((0, 10), (SECOND, 9)), None, "a reset: never 1.8e19 % (elastic/beats#3682)");
    assert_eq!(cpu((SECOND, 0), (SECOND, 1)), None, "no time has passed");
    assert_eq!(cpu((2 * SECOND, 0), (SECOND, 1)), None, "nor does it run backwards");
    assert_eq!(alone(&with(task("t", "s", "n"), |task| task.values.clear(stat::CPU))).figures.cpu_percent, None);
    assert_eq!(alone(&ended(task("t", "s", "n"))).figures.cpu_percent, None, "what is over uses nothing");
}

#[test]
fn b025_cpu_time_that_no_machine_can_give_is_absent_and_named() {
    // google/cadvisor#3611: one jump of 1.73e9 s of CPU time.
    let jump = between("t", "n", [(stat::CPU, 0)], [(stat::CPU, 1_730_000_000 * SECOND)]);
    let group = alone(&jump);
    assert_eq!(group.figures.cpu_percent, None);
    let why = "cpu_seconds_total rose by 1730000000 within 1.000 s, which cannot be: no rate is shown of it";
    assert_eq!(group.doubts, [format!("task web.1.t: {why}")]);
    // The document says so, and the sum goes on without it.
    let fine = between("t2", "n", [(stat::CPU, 0)], [(stat::CPU, SECOND / 4)]);
    let report = Report { tasks: vec![jump, fine], ..Report::default() };
    let json: Value = serde_json::from_str(&json::document(&report, &shape(What::Services))).unwrap();
    assert_eq!(json["services"][0]["figures"]["cpu_percent"], 25.0);
    assert_eq!(json["warnings"], serde_json::json!([format!("task web.1.t: {why}")]));
}

#[test]
fn a_skewed_sample_shows_no_more_than_the_node_has() {
    // docker/for-linux#151: Δcpu 18193278189 ns on 12 CPUs within 11.95 s of their time: 1826.94 % of 1200.
    let skewed = |cpus| {
        let task = with(task("t", "web", "n1"), |task| {
            (task.previous, task.monotonic) = (before(SECOND, 0), SECOND + 11_950_000_000 / 12);
            task.values.set(stat::CPU, 18_193_278_189);
        });
        groups(&Report { tasks: vec![task], nodes: vec![machine("n1", cpus, 1)], ..Report::default() }, By::Service)
            .remove(0)
    };
    assert_eq!((skewed(12).figures.cpu_percent, skewed(12).doubts.len()), (None, 1));
    assert_eq!((skewed(12).figures.cpu_percent_of_node, skewed(12).figures.cpu_percent_of_limit), (None, None));
    let large = skewed(64);
    assert_eq!(format!("{:.1}", large.figures.cpu_percent.unwrap() as f64 / 1e6), "1826.9");
    assert!(large.doubts.is_empty(), "64 CPUs can give that");
}

#[test]
fn p08_each_percentage_names_its_base_and_capacity_counts_once() {
    // 8 CPUs, one task with a limit of half a CPU that it uses: the node is at 6.25 %, the task at 100 % of its limit.
    let busy = |id: &str, node: &str| {
        let now = [(stat::CPU, CORE / 2), (stat::CPU_LIMIT, CORE / 2), (stat::MEMORY_USED, 10)];
        between(id, node, [(stat::CPU, 0)], now)
    };
    let idle = between("t9", "n1", [(stat::CPU, 5)], [(stat::CPU, 5), (stat::MEMORY_USED, 30)]);
    let nodes = vec![machine("n1", 8, 1_000), machine("n2", 2, 600)];
    let tasks = vec![busy("t1", "n1"), idle.clone()];
    let report = Report { tasks, nodes: nodes.clone(), ..Report::default() };
    let of = |report: &Report, by| {
        let figures = groups(report, by).remove(0).figures;
        [
            figures.cpu_percent,
            figures.cpu_percent_of_node,
            figures.cpu_percent_of_limit,
            figures.memory_percent_of_node,
            figures.memory_percent,
        ]
    };
    let expected = [Some(50_000_000), Some(6_250_000), Some(100_000_000), Some(4_000_000), None];
    assert_eq!(of(&report, By::Service), expected);
    assert_eq!(of(&report, By::Node), expected);
    let own = of_task(&report.tasks[0], &Machines::of(&report)).figures;
    assert_eq!((own.cpu_percent_of_node, own.memory_percent_of_node), (Some(6_250_000), Some(1_000_000)));
    // Two of them on n1 and one on n2: 1.5 of 10 CPUs, 60 of 1600 bytes, each node counted once.
    let tasks = vec![busy("t1", "n1"), busy("t2", "n1"), busy("t3", "n2"), idle];
    let spread = of(&Report { tasks: tasks.clone(), nodes, ..Report::default() }, By::Service);
    assert_eq!(spread, [Some(150_000_000), Some(15_000_000), Some(100_000_000), Some(3_750_000), None]);
    let untold = of(&Report { tasks, ..Report::default() }, By::Service);
    assert_eq!(untold, [Some(150_000_000), None, Some(100_000_000), None, None], "a base that is not known is none");
}

#[test]
fn rates_are_over_elapsed_time_and_per_incarnation() {
    let then = [
        (stat::RX_BYTES, 1_000),
        (stat::TX_BYTES, 9_000),
        (stat::BLOCK_READ, 4_096),
        (stat::CPU_PERIODS, 100),
        (stat::THROTTLED_PERIODS, 40),
        (stat::CPU_WAITING, 0),
        (stat::IO_WAITING, 7),
    ];
    let now = [
        (stat::RX_BYTES, 4_000),
        (stat::TX_BYTES, 10),
        (stat::BLOCK_READ, 4_096),
        (stat::BLOCK_WRITTEN, 512),
        (stat::CPU_PERIODS, 120),
        (stat::THROTTLED_PERIODS, 45),
        (stat::CPU_WAITING, SECOND / 2),
        (stat::IO_WAITING, 7 + 30 * SECOND),
    ];
    // The readings are two seconds apart.
    let one = with(between("t1", "n1", then, now), |task| task.monotonic += SECOND);
    let figures = alone(&one).figures;
    assert_eq!(figures.network_receive_bytes_per_second, Some(1_500));
    assert_eq!(figures.network_transmit_bytes_per_second, None, "a decrease is a reset");
    assert_eq!(figures.block_read_bytes_per_second, Some(0));
    assert_eq!(figures.block_written_bytes_per_second, None, "it was absent before");
    assert_eq!(figures.cpu_throttled_percent, Some(25_000_000), "5 of 20 periods");
    assert_eq!((figures.pressure_cpu_percent, figures.pressure_memory_percent), (Some(25_000_000), None));
    assert_eq!(figures.pressure_io_percent, None, "nobody waits for 30 s within 2");
    assert_eq!(alone(&one).doubts.len(), 1);
    // A second one beside it: rates add up, periods add up, of pressure the worst task counts.
    let then = [(stat::RX_BYTES, 0), (stat::CPU_PERIODS, 0), (stat::THROTTLED_PERIODS, 0), (stat::CPU_WAITING, 0)];
    let now =
        [(stat::RX_BYTES, 100), (stat::CPU_PERIODS, 20), (stat::THROTTLED_PERIODS, 15), (stat::CPU_WAITING, SECOND)];
    let two = between("t2", "n1", then, now);
    let sidecar = with(two.clone(), |task| {
        let meta = Arc::make_mut(&mut task.meta);
        (meta.task_id, meta.shares_netns) = (TaskId::new("t3").unwrap(), true);
        task.values.clear(stat::CPU_WAITING);
        task.values.clear(stat::CPU_PERIODS);
    });
    let figures = group_of(vec![one, two, sidecar]).figures;
    assert_eq!(figures.network_receive_bytes_per_second, Some(1_600), "the shared namespace once");
    assert_eq!((figures.cpu_throttled_percent, figures.pressure_cpu_percent), (Some(50_000_000), Some(100_000_000)));
}

#[test]
fn what_is_counted_in_ticks_and_periods_may_be_one_ahead() {
    // One busy CPU read after 50 ms: six ticks are no fault, eight are one. A period that is not over yet is no fault.
    let of = |ticks: u64, throttled: u64| {
        let then = [(stat::CPU, 0), (stat::CPU_PERIODS, 7), (stat::THROTTLED_PERIODS, 5)];
        let now = [(stat::CPU, ticks * 10_000_000), (stat::CPU_PERIODS, 9), (stat::THROTTLED_PERIODS, 5 + throttled)];
        let task = with(between("t", "n1", then, now), |task| task.monotonic = 9 * SECOND + SECOND / 20);
        let report = Report { nodes: vec![machine("n1", 1, 1)], ..Report::default() };
        let own = of_task(&task, &Machines::of(&report));
        (own.figures.cpu_percent, own.figures.cpu_throttled_percent, own.doubts.len())
    };
    assert_eq!(of(6, 3), (Some(120_000_000), Some(100_000_000), 0));
    assert_eq!(of(8, 4), (None, None, 2));
}

#[test]
fn a_group_remembers_the_kills_of_tasks_that_are_over() {
    let row = with(row("n1", "web", 1), |row| row.values.set(stat::OOM_KILLS, 7));
    let task = with(task("t1", "web", "n1"), |task| {
        task.values.set(stat::OOM_KILLS, 2);
        task.values.set(stat::RESTARTS, 3);
    });
    let own = alone(&task).figures;
    assert_eq!((own.oom_kills, own.restarts), (Some(2), Some(3)));
    let group = groups(&Report { rows: vec![row], tasks: vec![task], ..Report::default() }, By::Service).remove(0);
    assert_eq!((group.figures.oom_kills, group.figures.restarts), (Some(7), Some(3)));
}

#[test]
fn a_group_is_the_sum_of_its_fresh_tasks() {
    let fresh = |id: &str, cpu: u64, memory: u64, age: u64| {
        with(valued(id, [(stat::CPU, cpu), (stat::MEMORY_USED, memory), (stat::PIDS, 3)]), |task| {
            (task.age, task.previous, task.monotonic) = (age, before(0, 0), SECOND);
        })
    };
    let old = stale(fresh("t3", SECOND, 1_000, 0), 9_000);
    let over = ended(fresh("t4", SECOND, 1_000, 0));
    let group = group_of(vec![fresh("t1", SECOND / 2, 100, 300), fresh("t2", SECOND / 4, 20, 900), old, over]);
    assert_eq!(group.figures.cpu_percent, Some(75_000_000));
    assert_eq!(group.stats, values([(stat::CPU, 750_000_000), (stat::MEMORY_USED, 120), (stat::PIDS, 6)]));
    assert_eq!((group.tasks.fresh, group.age), (2, Some(900)), "the age is its oldest fresh task's");
}

#[test]
fn what_does_not_add_up_is_not_added() {
    let limited = valued(
        "t1",
        [(stat::MEMORY_USED, 30), (stat::MEMORY_LIMIT, 40), (stat::MEMORY_PEAK, 35), (stat::PIDS_LIMIT, 5)],
    );
    let larger = valued(
        "t2",
        [(stat::MEMORY_USED, 30), (stat::MEMORY_LIMIT, 60), (stat::MEMORY_PEAK, 31), (stat::PIDS_LIMIT, 5)],
    );
    let unlimited = valued("t3", [(stat::MEMORY_USED, 1_000)]);
    let both = group_of(vec![limited.clone(), larger.clone()]);
    assert_eq!((both.stats.get(stat::MEMORY_LIMIT), both.figures.memory_percent), (Some(100), Some(60_000_000)));
    assert_eq!(both.stats.get(stat::MEMORY_PEAK), None, "two peaks need not have been at one moment");
    let all = group_of(vec![limited, unlimited, larger]);
    assert_eq!(all.stats.get(stat::MEMORY_LIMIT), None, "a group with an unlimited task has no limit");
    assert_eq!(all.stats.get(stat::PIDS_LIMIT), None);
    assert_eq!(all.figures.memory_percent, Some(60_000_000), "MEM % is of those with a limit");
    assert_eq!(all.stats.get(stat::MEMORY_USED), Some(1_060));
    assert_eq!(group_of(vec![valued("t", [(stat::MEMORY_USED, 1)])]).figures.memory_percent, None);
}

#[test]
fn a_shared_network_namespace_counts_once_in_sums_and_fully_for_a_task() {
    // henrygd/beszel#457: traffic doubled where sidecars share a namespace.
    let owner = valued("t1", [(stat::RX_BYTES, 500), (stat::BLOCK_READ, 1)]);
    let sidecar = with(valued("t2", [(stat::RX_BYTES, 500), (stat::BLOCK_READ, 2)]), |task| {
        Arc::make_mut(&mut task.meta).shares_netns = true;
    });
    assert_eq!(alone(&sidecar).stats.get(stat::RX_BYTES), Some(500));
    let group = group_of(vec![owner, sidecar]);
    assert_eq!(group.stats, values([(stat::RX_BYTES, 500), (stat::BLOCK_READ, 3)]));
}

#[test]
fn totals_are_the_rows_counters_and_known_is_their_running_tasks() {
    let rows = vec![
        with(row("n1", "web", 2), |row| row.values.set(stat::MEMORY_USED, 5)),
        with(row("n2", "web", 1), |row| Arc::make_mut(&mut row.meta).since = 1_650_000_000_000),
        row("n1", "db", 1),
    ];
    let nodes = vec![node("n1", &["web", "db"]), node("n2", &["web"]), node("n3", &[])];
    let report = Report { rows, nodes, tasks: vec![task("t1", "web", "n1")], ..Report::default() };
    let services = groups(&report, By::Service);
    let names: Vec<_> = services.iter().map(|group| (&*group.name, &*group.stack, group.tasks)).collect();
    let of = |fresh, known| Coverage { fresh, known };
    assert_eq!(names, [("db", "demo", of(0, 1)), ("web", "demo", of(1, 3))]);
    assert_eq!(services[1].totals, values([(stat::CPU, 100 * SECOND)]), "counters alone");
    assert_eq!(services[1].since, Some(1_650_000_000_000), "from then on no ended task of any row is forgotten");
    assert_eq!((services[0].age, services[0].figures.cpu_percent, services[0].stats.is_empty()), (None, None, true));
    let nodes = groups(&report, By::Node);
    let names: Vec<_> = nodes.iter().map(|group| (&*group.id, &*group.name, group.tasks)).collect();
    assert_eq!(names, [("n1", "host-n1", of(1, 3)), ("n2", "host-n2", of(0, 1)), ("n3", "host-n3", of(0, 0))]);
    let stacks = groups(&report, By::Stack);
    assert_eq!((stacks.len(), &*stacks[0].name, stacks[0].tasks), (1, "demo", of(1, 4)));
    assert_eq!(stacks[0].totals.get(stat::CPU), Some(150 * SECOND));
}

#[test]
fn no_group_has_more_fresh_tasks_than_known_ones() {
    // A task that has just begun may be read before its row.
    let tasks = vec![task("t1", "web", "n1"), task("t2", "web", "n1")];
    let report = Report { rows: vec![row("n1", "web", 1)], tasks, ..Report::default() };
    assert_eq!(groups(&report, By::Service)[0].tasks, Coverage { fresh: 2, known: 2 });
}

fn owners(_: &TaskId) -> Vec<swarmstats::model::MemberId> {
    vec![member("c2")]
}

fn shape(what: What) -> Shape<'static> {
    Shape { what, stats: stat::TASKS, points: what == What::Tasks, owners: &owners, ring_id: None }
}

#[test]
fn the_document_of_a_service_has_every_key_and_null_for_what_is_absent() {
    let rows = vec![row("n1", "web", 1)];
    let tasks =
        vec![with(valued("t1", [(stat::CPU, 1_234_567_890_123_456_789), (stat::CPU_LIMIT, 500_000_000)]), |task| {
            (task.previous, task.age) = (None, 1_007);
        })];
    let missing = vec![Missing { what: "node \"x\"".into(), why: "no\nsample".into() }];
    let report = Report { rows, tasks, missing, warnings: vec!["w".into()], ..Report::default() };
    let text = json::document(&report, &shape(What::Services));
    assert!(text.ends_with("}\n") && text.lines().count() == 1);
    assert!(text.contains(r#""cpu_seconds_total":1234567890.123456789,"#), "no figure is lost: {text}");
    assert!(text.contains(r#""cpu_limit_cores":0.500000000,"#));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["complete"], false);
    assert_eq!(json["missing"], serde_json::json!([{"what": "node \"x\"", "why": "no\nsample"}]));
    assert_eq!(json["warnings"], serde_json::json!(["w"]));
    let item = &json["services"][0];
    assert_eq!((&item["id"], &item["name"], &item["stack"]), (&"id-web".into(), &"web".into(), &"demo".into()));
    assert_eq!(item["tasks"], serde_json::json!({"fresh": 1, "known": 1, "desired": null}));
    assert_eq!((&item["age_seconds"], &item["since"]), (&1.007.into(), &"2020-09-13T12:26:40.000Z".into()));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut figures = [
        "cpu_percent",
        "memory_used_bytes",
        "memory_limit_bytes",
        "memory_percent",
        "network_receive_bytes",
        "network_transmit_bytes",
        "block_read_bytes",
        "block_written_bytes",
        "pids",
        "cpu_percent_of_node",
        "cpu_percent_of_limit",
        "memory_percent_of_node",
        "memory_working_set_bytes",
        "memory_anon_bytes",
        "memory_file_bytes",
        "memory_shmem_bytes",
        "memory_swap_bytes",
        "network_receive_bytes_per_second",
        "network_transmit_bytes_per_second",
        "block_read_bytes_per_second",
        "block_written_bytes_per_second",
        "cpu_throttled_percent",
        "pressure_cpu_percent",
        "pressure_memory_percent",
        "pressure_io_percent",
        "oom_kills",
        "restarts",
    ];
    assert!(FIGURES.iter().map(|figure| figure.name).eq(figures), "docker stats' columns first");
    figures.sort_unstable();
    assert_eq!(keys(&item["figures"]), figures);
    assert!(item["figures"].as_object().unwrap().values().all(Value::is_null));
    let mut names: Vec<_> = bits(stat::TASKS).map(|stat| stat.name().to_string()).collect();
    names.sort();
    assert_eq!(keys(&item["stats"]), names, "every catalogue stat");
    names.retain(|name| name.ends_with("_total"));
    assert_eq!(keys(&item["totals"]), names, "every counter");
    assert_eq!(item["totals"]["cpu_seconds_total"], 50.0);
    assert!(item["totals"]["block_reads_total"].is_null());
}

#[test]
fn a_document_lists_the_stats_asked_for_and_figures_whole() {
    let report = Report { rows: vec![row("n1", "web", 1)], tasks: vec![task("t1", "web", "n1")], ..Report::default() };
    let of = |stats| {
        let text = json::document(&report, &Shape { stats, ..shape(What::Services) });
        serde_json::from_str::<Value>(&text).unwrap()["services"][0].clone()
    };
    let none = of(0);
    assert_eq!((&none["stats"], &none["totals"]), (&serde_json::json!({}), &serde_json::json!({})));
    assert_eq!(none["figures"], of(stat::TASKS)["figures"]);
    let two = of(stat::CPU.bit() | stat::MEMORY_USED.bit());
    assert_eq!(two["stats"], serde_json::json!({"cpu_seconds_total": 5.0, "memory_used_bytes": 100}));
    assert_eq!(two["totals"], serde_json::json!({"cpu_seconds_total": 50.0}));
}

#[test]
fn a_task_is_running_paused_stale_or_ended_and_says_how_well_it_is() {
    let with_values = |of: &[(Stat, u64)]| {
        with(task("t", "web", "n1"), |task| of.iter().for_each(|(stat, value)| task.values.set(*stat, *value)))
    };
    let paused = with_values(&[(stat::PAUSED, 1), (stat::HEALTH, 1)]);
    let tasks = vec![
        with_values(&[(stat::PAUSED, 0), (stat::HEALTH, 0), (stat::EXIT_CODE, 0)]),
        paused.clone(),
        stale(paused.clone(), 9_000),
        ended(with_values(&[(stat::HEALTH, 2), (stat::EXIT_CODE, 137)])),
        with_values(&[(stat::HEALTH, 3)]),
    ];
    let text = json::document(&Report { tasks, ..Report::default() }, &shape(What::Tasks));
    let json: Value = serde_json::from_str(&text).unwrap();
    let told = json["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| serde_json::json!([task["state"], task["health"], task["exit_code"]]));
    let expected = serde_json::json!([
        ["running", "starting", null],
        ["paused", "healthy", null],
        ["stale", "healthy", null],
        ["ended", "unhealthy", 137],
        ["running", null, null]
    ]);
    assert_eq!(Value::from_iter(told), expected);
}

#[test]
fn the_document_of_a_task_says_what_and_where_it_is() {
    let running = with(task("t1", "web", "n1"), |task| {
        Arc::make_mut(&mut task.meta).labels.insert("tier".into(), "front \"1\\2\"\t\u{7f}é".into());
        task.points = vec![
            Point { monotonic: 8 * SECOND, values: values([(stat::CPU, SECOND + 5)]) },
            Point { monotonic: 9 * SECOND, values: values([(stat::PIDS, 2)]) },
        ];
    });
    let slotless = with(stale(task("t2", "web", "n1"), 9_000), |task| Arc::make_mut(&mut task.meta).slot = "".into());
    let tasks = vec![running, slotless, ended(task("t3", "web", "n1"))];
    let text = json::document(&Report { tasks, complete: true, ..Report::default() }, &shape(What::Tasks));
    let json: Value = serde_json::from_str(&text).unwrap();
    let task = &json["tasks"][0];
    for (key, value) in [
        ("id", "t1"),
        ("name", "web.1.t1"),
        ("stack", "demo"),
        ("service_id", "id-web"),
        ("service_name", "web"),
        ("node_id", "n1"),
        ("node_name", "host-n1"),
        ("slot", "1"),
        ("container_id", "c0ffeet1"),
        ("image", "busybox:1"),
        ("state", "running"),
        ("since", "2023-11-14T22:13:20.000Z"),
    ] {
        assert_eq!(task[key], value, "{key}");
    }
    assert_eq!(task["owners"], serde_json::json!(["c2"]));
    assert_eq!(task["labels"], serde_json::json!({"tier": "front \"1\\2\"\t\u{7f}é"}));
    assert_eq!(task["tasks"], serde_json::json!({"fresh": 1, "known": 1, "desired": null}));
    assert_eq!((&task["figures"]["cpu_percent"], &task["figures"]["memory_used_bytes"]), (&100.0.into(), &100.into()));
    assert_eq!(task["totals"]["cpu_seconds_total"], 5.0);
    assert!(text.contains(r#""points":[{"seconds_before":2.000000000,"stats":{"cpu_seconds_total":1.000000005}},"#));
    assert_eq!((&json["tasks"][1]["state"], &json["tasks"][1]["slot"]), (&"stale".into(), &Value::Null));
    assert_eq!(json["tasks"][2]["state"], "ended");
    assert_eq!(json["tasks"][2]["tasks"], serde_json::json!({"fresh": 0, "known": 0, "desired": null}));
}

#[test]
fn moments_are_as_date_prints_them() {
    // date -u -d @N +%FT%TZ
    for (millis, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_399_999, "2000-02-28T23:59:59.999Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_078_012_800_000, "2004-02-29T00:00:00.000Z"),
        (1_767_225_599_001, "2025-12-31T23:59:59.001Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
    ] {
        assert_eq!(json::rfc3339(millis), text);
    }
}
