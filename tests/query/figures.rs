//! Figures and documents. Expected values are from public reports, from docker's own rules, or added up by hand.

use crate::fixtures::*;
use serde_json::Value;
use std::sync::Arc;
use swarmstats::figures::{By, Coverage, Group, cpu_percent, groups, of_task};
use swarmstats::json::{self, What};
use swarmstats::model::{TaskId, Values};
use swarmstats::stat::{self, Stat};
use swarmstats::view::{Missing, Point, Report, TaskView};

fn cpu(then: (u64, u64), now: (u64, u64)) -> Option<u64> {
    cpu_percent(&with(task("t", "s", "n"), |task| {
        task.previous = Some(then);
        task.monotonic = now.0;
        task.values.set(stat::CPU, now.1);
    }))
}

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
    assert_eq!(cpu_percent(&with(task("t", "s", "n"), |task| task.previous = None)), None, "a first reading");
    assert_eq!(cpu((0, 10), (SECOND, 9)), None, "a reset: never 1.8e19 % (elastic/beats#3682)");
    assert_eq!(cpu((SECOND, 0), (SECOND, 1)), None, "no time has passed");
    assert_eq!(cpu((2 * SECOND, 0), (SECOND, 1)), None, "nor does it run backwards");
    // google/cadvisor#3611: one jump of 1.73e9 s of CPU time.
    assert_eq!(cpu((0, 0), (SECOND, 1_730_000_000 * SECOND)), None);
    assert_eq!(cpu_percent(&with(task("t", "s", "n"), |task| task.values.clear(stat::CPU))), None);
}

#[test]
fn a_group_is_the_sum_of_its_fresh_tasks() {
    let fresh = |id: &str, cpu: u64, memory: u64, age: u64| {
        with(valued(id, [(stat::CPU, cpu), (stat::MEMORY_USED, memory), (stat::PIDS, 3)]), |task| {
            (task.age, task.previous, task.monotonic) = (age, Some((0, 0)), SECOND);
        })
    };
    let old = stale(fresh("t3", SECOND, 1_000, 0), 9_000);
    let over = ended(fresh("t4", SECOND, 1_000, 0));
    let group = group_of(vec![fresh("t1", SECOND / 2, 100, 300), fresh("t2", SECOND / 4, 20, 900), old, over]);
    assert_eq!(group.cpu_percent, Some(75_000_000));
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
    assert_eq!((both.stats.get(stat::MEMORY_LIMIT), both.memory_percent), (Some(100), Some(60_000_000)));
    assert_eq!(both.stats.get(stat::MEMORY_PEAK), None, "two peaks need not have been at one moment");
    let all = group_of(vec![limited, unlimited, larger]);
    assert_eq!(all.stats.get(stat::MEMORY_LIMIT), None, "a group with an unlimited task has no limit");
    assert_eq!(all.stats.get(stat::PIDS_LIMIT), None);
    assert_eq!(all.memory_percent, Some(60_000_000), "MEM % is of those with a limit");
    assert_eq!(all.stats.get(stat::MEMORY_USED), Some(1_060));
    assert_eq!(group_of(vec![valued("t", [(stat::MEMORY_USED, 1)])]).memory_percent, None);
}

#[test]
fn a_shared_network_namespace_counts_once_in_sums_and_fully_for_a_task() {
    // henrygd/beszel#457: traffic doubled where sidecars share a namespace.
    let owner = valued("t1", [(stat::RX_BYTES, 500), (stat::BLOCK_READ, 1)]);
    let sidecar = with(valued("t2", [(stat::RX_BYTES, 500), (stat::BLOCK_READ, 2)]), |task| {
        Arc::make_mut(&mut task.meta).shares_netns = true;
    });
    assert_eq!(of_task(&sidecar).stats.get(stat::RX_BYTES), Some(500));
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
    assert_eq!((services[0].age, services[0].cpu_percent, services[0].stats.is_empty()), (None, None, true));
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

#[test]
fn the_document_of_a_service_has_every_key_and_null_for_what_is_absent() {
    let rows = vec![row("n1", "web", 1)];
    let tasks =
        vec![with(valued("t1", [(stat::CPU, 1_234_567_890_123_456_789), (stat::CPU_LIMIT, 500_000_000)]), |task| {
            (task.previous, task.age) = (None, 1_007);
        })];
    let missing = vec![Missing { what: "node \"x\"".into(), why: "no\nsample".into() }];
    let report = Report { rows, tasks, missing, warnings: vec!["w".into()], ..Report::default() };
    let text = json::document(&report, What::Services, &owners, false);
    assert!(text.ends_with("}\n") && text.lines().count() == 1);
    assert!(text.contains(r#""cpu_seconds_total":1234567890.123456789,"#), "no figure is lost: {text}");
    assert!(text.contains(r#""cpu_limit_cores":0.500000000,"#));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["complete"], false);
    assert_eq!(json["missing"], serde_json::json!([{"what": "node \"x\"", "why": "no\nsample"}]));
    assert_eq!(json["warnings"], serde_json::json!(["w"]));
    let item = &json["services"][0];
    assert_eq!((&item["id"], &item["name"], &item["stack"]), (&"id-web".into(), &"web".into(), &"demo".into()));
    assert_eq!(item["tasks"], serde_json::json!({"fresh": 1, "known": 1}));
    assert_eq!((&item["age_seconds"], &item["since"]), (&1.007.into(), &"2020-09-13T12:26:40.000Z".into()));
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let figures = [
        "block_read_bytes",
        "block_written_bytes",
        "cpu_percent",
        "memory_limit_bytes",
        "memory_percent",
        "memory_used_bytes",
        "network_receive_bytes",
        "network_transmit_bytes",
        "pids",
    ];
    assert_eq!(keys(&item["figures"]), figures);
    assert!(item["figures"].as_object().unwrap().values().all(Value::is_null));
    let mut names: Vec<_> = Stat::all().map(|stat| stat.name().to_string()).collect();
    names.sort();
    assert_eq!(keys(&item["stats"]), names, "every catalogue stat");
    names.retain(|name| name.ends_with("_total"));
    assert_eq!(keys(&item["totals"]), names, "every counter");
    assert_eq!(item["totals"]["cpu_seconds_total"], 50.0);
    assert!(item["totals"]["block_reads_total"].is_null());
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
    let text = json::document(&Report { tasks, complete: true, ..Report::default() }, What::Tasks, &owners, true);
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
    assert_eq!(task["tasks"], serde_json::json!({"fresh": 1, "known": 1}));
    assert_eq!((&task["figures"]["cpu_percent"], &task["figures"]["memory_used_bytes"]), (&100.0.into(), &100.into()));
    assert_eq!(task["totals"]["cpu_seconds_total"], 5.0);
    assert!(text.contains(r#""points":[{"seconds_before":2.000000000,"stats":{"cpu_seconds_total":1.000000005}},"#));
    assert_eq!((&json["tasks"][1]["state"], &json["tasks"][1]["slot"]), (&"stale".into(), &Value::Null));
    assert_eq!(json["tasks"][2]["state"], "ended");
    assert_eq!(json["tasks"][2]["tasks"], serde_json::json!({"fresh": 0, "known": 0}));
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
