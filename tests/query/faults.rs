//! Public faults of tools like this one, each by its row of `tests/data/faults.txt`, as people would see them: in the
//! documents over HTTP. The numbers are the reports'.

use crate::fixtures::*;
use crate::http::{Server, serve};
use serde_json::{Value, json};
use std::sync::Arc;
use swarmstats::figures::{FIGURES, Shown as Shows};
use swarmstats::model::Values;
use swarmstats::stat::{self, Stat};
use swarmstats::view::{NodeView, Previous, RowView, TaskView};

/// One member that holds all of this, and its server.
struct Shown {
    server: Server,
    _tier: FakeTier,
}

impl Shown {
    async fn of(tasks: Vec<TaskView>, rows: Vec<RowView>, nodes: Vec<NodeView>) -> Shown {
        let tier = FakeTier::new(1, 1, holding("c1", tasks, rows, nodes), quick());
        Shown { server: serve(tier.router.clone()).await, _tier: tier }
    }
    async fn get(&self, what: &str) -> Value {
        self.server.get(&format!("/v1/{what}")).await.json()
    }
}

/// Tasks of service `web` on node `n1`, with their row.
async fn shown(tasks: Vec<TaskView>) -> Shown {
    let n = tasks.iter().filter(|task| !task.ended).count() as u64;
    Shown::of(tasks, vec![row("n1", "web", n)], vec![node("n1", &["web"])]).await
}

fn values<const N: usize>(pairs: [(Stat, u64); N]) -> Values {
    pairs.into_iter().collect()
}

/// A task that used `used` ns of CPU time within `elapsed` ns.
fn busy(id: &str, used: u64, elapsed: u64) -> TaskView {
    counted(id, 5_000_000_000, 5_000_000_000 + used, elapsed)
}

fn counted(id: &str, then: u64, now: u64, elapsed: u64) -> TaskView {
    with(task(id, "web", "n1"), |task| {
        (task.monotonic, task.previous) = (SECOND + elapsed, before(SECOND, then));
        task.values = values([(stat::CPU, now)]);
    })
}

/// CPU % as a task's document has it, to two digits as docker prints it.
async fn cpu(task: TaskView) -> Option<String> {
    let json = shown(vec![task]).await.get("tasks").await;
    let percent = &json["tasks"][0]["figures"]["cpu_percent"];
    assert!(percent.is_null() || percent.is_number(), "{json}");
    percent.as_f64().map(|percent| format!("{percent:.2}"))
}

#[tokio::test]
async fn b001_b002_b004_b005_b007_cpu_percent_asks_no_one_how_many_cpus_there_might_be() {
    // Δcpu 7.3130811e8 and Δsystem 3.89e9 on 4 CPUs, which is 0.9725 s: 281.995 % where 15 possible ones were counted.
    assert_eq!(cpu(busy("t", 731_308_110, 3_890_000_000 / 4)).await.unwrap(), "75.20");
    // Two online of 15: 7.5 times too high elsewhere.
    assert_eq!(cpu(busy("t", 2 * SECOND, SECOND)).await.unwrap(), "200.00");
}

#[tokio::test]
async fn b011_the_healthy_sample_of_that_thread() {
    // System time rose by 7.96 s on 8 CPUs.
    let elapsed = (67_684_074_960_000_000 - 67_684_067_000_000_000) / 8;
    let task = counted("t", 18_702_324_497_183, 18_702_340_106_497, elapsed);
    assert_eq!(cpu(task).await.unwrap(), "1.57");
}

#[tokio::test]
async fn b014_b016_one_busy_cpu_is_100_percent_and_two_are_200_on_whatever_machine() {
    assert_eq!(cpu(busy("t", SECOND, SECOND)).await.unwrap(), "100.00");
    assert_eq!(cpu(busy("t", 2 * SECOND, SECOND)).await.unwrap(), "200.00");
}

#[tokio::test]
async fn b017_every_percentage_names_what_its_100_percent_is() {
    let half = with(busy("t1", SECOND / 2, SECOND), |task| task.values.set(stat::CPU_LIMIT, SECOND / 2));
    let machine = with(node("n1", &["web"]), |node| node.values.set(stat::CPU_LIMIT, 8 * SECOND));
    let json = Shown::of(vec![half], vec![row("n1", "web", 1)], vec![machine]).await.get("tasks").await;
    let figures = &json["tasks"][0]["figures"];
    let of = ["cpu_percent", "cpu_percent_of_node", "cpu_percent_of_limit"].map(|name| figures[name].as_f64());
    assert_eq!(of, [Some(50.0), Some(6.25), Some(100.0)], "of one CPU, of eight, of the half it may use");
    let percentages = FIGURES.iter().filter(|figure| figure.shown == Shows::Percent);
    assert!(percentages.clone().count() > 3 && percentages.clone().all(|figure| !figure.base.is_empty()));
}

#[tokio::test]
async fn b019_b020_a_first_reading_has_no_cpu_percent() {
    let first = with(busy("t", SECOND, SECOND), |task| task.previous = None);
    assert_eq!(cpu(first).await, None);
}

#[tokio::test]
async fn b023_a_counter_that_was_reset_gives_no_figure_until_there_are_two_readings_again() {
    // 1.8e19 % where the difference wrapped.
    assert_eq!(cpu(counted("t", 7_000_000_000, 1_000_000, SECOND)).await, None);
    assert_eq!(cpu(counted("t", 1_000_000, 501_000_000, SECOND)).await.unwrap(), "50.00");
}

#[tokio::test]
async fn b025_cpu_time_that_no_machine_can_give_is_not_shown() {
    assert_eq!(cpu(busy("t", 1_730_000_000 * SECOND, SECOND)).await, None);
}

#[tokio::test]
async fn b022_b029_what_is_not_known_is_null_and_nowhere_0() {
    let nothing = with(task("t", "web", "n1"), |task| (task.values, task.previous) = (Values::default(), None));
    let shown = shown(vec![nothing]).await;
    for what in ["tasks", "services", "nodes", "stacks"] {
        let json = shown.get(what).await;
        let item = &json[what][0];
        for (name, value) in item["figures"].as_object().unwrap().iter().chain(item["stats"].as_object().unwrap()) {
            assert!(value.is_null(), "{what}: {name} is {value}");
        }
    }
}

#[tokio::test]
async fn b140_b034_a_service_has_figures_that_are_the_sums_of_its_tasks() {
    let used = |id: &str, used: u64| {
        with(busy(id, SECOND / 4, SECOND), |task| {
            task.values.set(stat::MEMORY_USED, used);
            task.values.set(stat::MEMORY_USAGE, used + 500);
        })
    };
    let json = shown(vec![used("t1", 100), used("t2", 20)]).await.get("services").await;
    let figures = &json["services"][0]["figures"];
    assert_eq!((&figures["cpu_percent"], &figures["memory_used_bytes"]), (&50.0.into(), &120.into()));
    assert_eq!(json["services"][0]["tasks"]["fresh"], 2);
}

#[tokio::test]
async fn b089_a_namespace_that_a_sidecar_shares_counts_once() {
    let gluetun = with(task("t1", "web", "n1"), |task| task.values = values([(stat::RX_BYTES, 500)]));
    let sidecar = with(task("t2", "web", "n1"), |task| {
        task.values = values([(stat::RX_BYTES, 500)]);
        Arc::make_mut(&mut task.meta).shares_netns = true;
    });
    let shown = shown(vec![gluetun, sidecar]).await;
    let service = shown.get("services").await;
    assert_eq!(service["services"][0]["figures"]["network_receive_bytes"], 500);
    let tasks = shown.get("tasks").await;
    assert_eq!(tasks["tasks"][1]["figures"]["network_receive_bytes"], 500, "each shows what it can see");
}

#[tokio::test]
async fn b092_a_services_totals_keep_what_ended_tasks_did() {
    // The row counts 50 s; of the two tasks one is over.
    let over = ended(counted("t2", 0, 45 * SECOND, SECOND));
    let json = shown(vec![busy("t1", 0, SECOND), over]).await.get("services").await;
    let service = &json["services"][0];
    assert_eq!(service["totals"]["cpu_seconds_total"], 50.0);
    assert_eq!(service["stats"]["cpu_seconds_total"], 5.0, "of the fresh task alone");
}

#[tokio::test]
async fn b100_p16_of_two_tasks_with_one_name_the_one_that_is_over_is_in_no_sum() {
    let name: Arc<str> = "web.1".into();
    let named = |task: TaskView| with(task, |task| Arc::make_mut(&mut task.meta).task_name = name.clone());
    let old = ended(named(with(busy("t1", SECOND, SECOND), |task| task.values.set(stat::MEMORY_USED, 900))));
    let new = named(with(task("t2", "web", "n2"), |task| task.values = values([(stat::MEMORY_USED, 70)])));
    let rows = vec![row("n1", "web", 0), row("n2", "web", 1)];
    let shown = Shown::of(vec![old, new], rows, vec![node("n1", &["web"]), node("n2", &["web"])]).await;
    let service = shown.get("services").await;
    assert_eq!(service["services"][0]["figures"]["memory_used_bytes"], 70);
    let coverage = &service["services"][0]["tasks"];
    assert_eq!((&coverage["fresh"], &coverage["known"]), (&1.into(), &1.into()));
    let json = shown.get("tasks").await;
    let tasks: Vec<_> = json["tasks"].as_array().unwrap().iter().map(|task| (&task["id"], &task["state"])).collect();
    assert_eq!(tasks, [(&json!("t1"), &json!("ended")), (&json!("t2"), &json!("running"))]);
}

#[tokio::test]
async fn p01_a_task_whose_node_is_silent_is_stale_out_of_the_sums_and_k_of_n_falls() {
    let gone = stale(with(task("t1", "web", "n1"), |task| task.values = values([(stat::MEMORY_USED, 900)])), 30_000);
    let here = with(task("t2", "web", "n2"), |task| task.values = values([(stat::MEMORY_USED, 70)]));
    let silent = with(node("n1", &["web"]), |node| (node.fresh, node.age) = (false, 30_000));
    let rows = vec![with(row("n1", "web", 1), |row| row.fresh = false), row("n2", "web", 1)];
    let shown = Shown::of(vec![gone, here], rows, vec![silent, node("n2", &["web"])]).await;
    let json = shown.get("services").await;
    let service = &json["services"][0];
    assert_eq!(service["figures"]["memory_used_bytes"], 70);
    assert_eq!((&service["tasks"]["fresh"], &service["tasks"]["known"]), (&1.into(), &2.into()));
    let json = shown.get("tasks").await;
    assert_eq!((&json["tasks"][0]["state"], &json["tasks"][0]["age_seconds"]), (&"stale".into(), &30.0.into()));
}

#[tokio::test]
async fn b136_a_node_that_says_nothing_is_named_with_the_reason() {
    let silent = with(node("n1", &["web"]), |node| (node.fresh, node.age) = (false, 30_000));
    let rows = vec![with(row("n1", "web", 1), |row| (row.fresh, row.age) = (false, 30_000))];
    let json = Shown::of(vec![], rows, vec![silent]).await.get("nodes").await;
    assert_eq!(json["complete"], false);
    let missing = json["missing"].as_array().unwrap();
    let node = missing.iter().find(|missing| missing["what"] == "node host-n1").unwrap();
    assert!(node["why"].as_str().unwrap().starts_with("no sample for 30"), "{node}");
}

#[tokio::test]
async fn b137_p05_a_node_is_told_by_its_id_once_however_often_and_by_whatever_name_it_is_described() {
    // Two cloned machines: one host name, one engine id, two ids in the swarm. And one of them started anew.
    let clone = |id: &str, epoch: u64| {
        with(node(id, &["web"]), |node| {
            Arc::make_mut(&mut node.meta).node_name = "vm".into();
            node.version = version(epoch, 10);
        })
    };
    let tasks = vec![task("t1", "web", "n1"), task("t2", "web", "n2")];
    let rows = vec![row("n1", "web", 1), row("n2", "web", 1)];
    let shown = Shown::of(tasks, rows, vec![clone("n1", 1), clone("n2", 1), clone("n1", 1)]).await;
    let json = shown.get("nodes").await;
    let nodes: Vec<_> = json["nodes"].as_array().unwrap().iter().map(|node| (&node["id"], &node["name"])).collect();
    assert_eq!(nodes, [(&json!("n1"), &json!("vm")), (&json!("n2"), &json!("vm"))]);
    assert_eq!(shown.get("services").await["services"][0]["tasks"]["fresh"], 2);
}

#[tokio::test]
async fn a_successor_in_its_slot_and_an_orphan_beside_it_are_tasks_of_their_own() {
    let orphan = with(task("t1", "web", "n1"), |task| task.values = values([(stat::MEMORY_USED, 900)]));
    let next = with(task("t2", "web", "n2"), |task| task.values = values([(stat::MEMORY_USED, 70)]));
    assert_eq!(orphan.meta.slot, next.meta.slot);
    let rows = vec![row("n1", "web", 1), row("n2", "web", 1)];
    let shown = Shown::of(vec![orphan, next], rows, vec![node("n1", &["web"]), node("n2", &["web"])]).await;
    let json = shown.get("nodes").await;
    let used: Vec<_> =
        json["nodes"].as_array().unwrap().iter().map(|node| &node["figures"]["memory_used_bytes"]).collect();
    assert_eq!(used, [&json!(900), &json!(70)], "what it uses is used");
}

#[tokio::test]
async fn p20_what_a_task_has_no_name_for_is_empty_and_a_dotted_service_keeps_its_name() {
    let dotted = with(task("t1", "web", "n1"), |task| {
        let meta = Arc::make_mut(&mut task.meta);
        (meta.service_name, meta.task_name, meta.stack) = ("web.v1.2".into(), "web.v1.2.7.t1".into(), "".into());
    });
    let shown = shown(vec![dotted]).await;
    assert_eq!(shown.get("tasks").await["tasks"][0]["service_name"], "web.v1.2");
    assert!(shown.get("stacks").await["stacks"].as_array().unwrap().iter().all(|stack| stack["name"] != ""));
}

#[tokio::test]
async fn b043_a_task_shows_its_anonymous_memory_beside_what_is_used() {
    let all = values([(stat::MEMORY_USED, 2_000), (stat::MEMORY_ANON, 1_500), (stat::MEMORY_USAGE, 9_000)]);
    let json = shown(vec![with(task("t1", "web", "n1"), |task| task.values = all)]).await.get("tasks").await;
    let stats = &json["tasks"][0]["stats"];
    let of = ["memory_used_bytes", "memory_anon_bytes", "memory_usage_bytes"].map(|name| &stats[name]);
    assert_eq!(of, [&json!(2_000), &json!(1_500), &json!(9_000)]);
}

#[tokio::test]
async fn b125_after_a_gap_the_rate_is_between_the_two_good_readings() {
    // Unreadable for 8 s: what was used meanwhile belongs to 9 s, not to one.
    let task = with(busy("t", 4_500_000_000, 9 * SECOND), |task| {
        task.previous = Previous::of(SECOND, &values([(stat::CPU, 5_000_000_000)]));
    });
    assert_eq!(cpu(task).await.unwrap(), "50.00");
}
