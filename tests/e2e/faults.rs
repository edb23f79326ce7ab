//! Public faults of tools like this one, each by its row of `tests/data/faults.txt`, in the real daemons.

use crate::embedding::without_the_moment;
use crate::engine::{Does, FakeEngine, good};
use crate::rig::{Daemon, get, series, until, until_series};
use crate::scripted::{Scripted, figures};
use crate::subscribe::ring;
use serde_json::json;
use std::time::{Duration, Instant};

/// An engine whose every record takes a tick of its own, as releases before 24.0.7 do, and a task that uses half a CPU.
fn slow_engine(took: Duration) -> FakeEngine {
    let begun = Instant::now();
    FakeEngine::start(move |path| {
        if !path.contains("/stats") {
            return good(path);
        }
        Does::Later(
            took,
            std::sync::Arc::new(move || {
                let used = begun.elapsed().as_nanos() as u64 / 2;
                json!({"read": now(), "cpu_stats": {"cpu_usage": {"total_usage": used}}}).to_string()
            }),
        )
    })
}

/// The moment as an engine writes it.
fn now() -> String {
    swarmstats::json::rfc3339(swarmstats::clock::wall())
}

#[tokio::test]
async fn b010_b022_b121_records_that_take_longer_than_a_round_give_the_true_cpu_percent_in_every_round() {
    let engine = slow_engine(Duration::from_millis(1_300));
    let collectord = Daemon::collectord("c1", "").await;
    let members = format!("interval: 1s\nmembers: {{static: [{{id: c1, addr: '{}'}}]}}", collectord.api);
    let shipper = Daemon::shipper(&engine.socket, &members).await;
    for daemon in [&collectord, &shipper] {
        let percent = async || {
            let json = get(daemon.api, "/v1/tasks/task-1").await.json();
            (json["tasks"][0]["figures"]["cpu_percent"].as_f64(), json["tasks"][0]["age_seconds"].as_f64())
        };
        until("two records have come", async || percent().await.0.is_some()).await;
        let mut seen = Vec::new();
        for _ in 0..12 {
            if let (Some(percent), age) = percent().await {
                seen.push((percent, age.unwrap()));
            }
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        assert!(seen.len() > 8, "{seen:?}");
        // Taken for readings of their rounds they would be between 0 and 100.
        assert!(seen.iter().all(|(percent, _)| (40.0..60.0).contains(percent)), "{seen:?}");
        assert!(seen.iter().any(|(_, age)| *age > 0.5), "their age is told: {seen:?}");
    }
}

#[tokio::test]
async fn p02_a_refused_shipper_is_an_error_and_a_counter_on_both_ends() {
    let engine = FakeEngine::start(good);
    let collectord = Daemon::collectord("c1", "limits: {max_nodes: 1}").await;
    let mut first = Scripted::new("node-1", &[("c1", collectord.api)]);
    first.run("web", "task-of-the-first", figures(1, 1));
    first.round().await;
    let members = format!("interval: 200ms\nmembers: {{static: [{{id: c1, addr: '{}'}}]}}", collectord.api);
    let shipper = Daemon::shipper(&engine.socket, &members).await;
    until_series(collectord.metrics, r#"swarmstats_collector_hellos_refused_total{reason="full"}"#, 1.0).await;
    until_series(shipper.metrics, r#"swarmstats_shipper_streams_failed_total{reason="full"}"#, 1.0).await;
    assert_eq!(series(shipper.metrics, "swarmstats_shipper_streams").await, Some(0.0));
}

#[tokio::test]
async fn p07_every_router_answers_the_same_fields_and_values() {
    let (daemons, members) = ring(3, "").await;
    let mut shipper = Scripted::new("node-1", &members);
    for i in 0..12u64 {
        shipper.run("web", &format!("task{i:02}"), figures(i, (i + 1) << 20));
    }
    shipper.settle().await;
    for target in ["/v1/tasks", "/v1/services", "/v1/nodes", "/v1/stacks", "/v1/services/web"] {
        let mut answers = Vec::new();
        for daemon in &daemons {
            for _ in 0..3 {
                answers.push(without_the_moment(get(daemon.api, target).await.json()));
            }
        }
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{target}: {answers:?}");
    }
}

#[tokio::test]
async fn b095_b097_b098_a_container_the_engine_hangs_on_delays_nobody_and_is_told() {
    let engine = FakeEngine::start(|path| match path {
        // Its shim is dead: whoever asks about it waits.
        _ if path.contains("c0ffee02/json") || path.contains("c0ffee02/stats") => Does::Nothing,
        _ => good(path),
    });
    let shipper = Daemon::shipper(&engine.socket, "interval: 200ms").await;
    let begun = Instant::now();
    let state = async |task: &str| {
        let json = get(shipper.api, &format!("/v1/tasks/{task}")).await.json();
        json["tasks"][0]["state"].as_str().unwrap_or_default().to_owned()
    };
    until("the other task has figures", async || state("task-1").await == "running").await;
    assert!(begun.elapsed() < Duration::from_secs(9), "nobody waited for the deadline of 10 s");
    until("the stuck one is shown without figures", async || state("task-2").await == "stale").await;
    assert_eq!(state("task-1").await, "running");
    let json = get(shipper.api, "/v1/services").await.json();
    let coverage = &json["services"][0]["tasks"];
    assert_eq!((&coverage["fresh"], &coverage["known"]), (&1.into(), &2.into()));
    until_series(shipper.metrics, r#"swarmstats_shipper_unread_total{reason="no_answer"}"#, 1.0).await;
}
