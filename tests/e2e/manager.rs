//! Collectords with a manager's engine, which is a fake that says what a real one was recorded to say.

use crate::engine::{Does, FakeEngine};
use crate::rig::{Daemon, free_address, get, series, until, until_series};
use serde_json::Value;
use std::time::{Duration, Instant};

fn recorded(path: &str) -> Does {
    let json = |text: &str| Does::Say(text.into());
    match path {
        _ if path.contains("/services?") => json(include_str!("../data/swarm/services.json")),
        _ if path.contains("/tasks?") && path.contains("shutdown") => json("[]"),
        _ if path.contains("/tasks?") => json(include_str!("../data/swarm/tasks.json")),
        _ if path.contains("/nodes") => json(include_str!("../data/swarm/nodes.json")),
        _ if path.contains("/events") => Does::Events { lines: String::new(), ends: false },
        _ => json("OK"),
    }
}

fn of_engine(engine: &FakeEngine) -> String {
    format!("swarm: {{engine: 'unix://{}'}}\n", engine.socket.display())
}

/// A document, its ages aside.
async fn document(daemon: &Daemon, path: &str) -> Value {
    let mut json = get(daemon.api, path).await.json();
    if let Some(age) = json.pointer_mut("/swarm/age_seconds") {
        *age = Value::Null;
    }
    json
}

#[tokio::test]
async fn p07_any_member_tells_what_one_of_them_has_from_swarm() {
    let engine = FakeEngine::start(recorded);
    let (a, b) = (free_address(), free_address());
    let members = format!("members: {{static: [{{id: c1, addr: '{a}'}}, {{id: c2, addr: '{b}'}}]}}\n");
    let one = Daemon::collectord_at("c1", a, &(members.clone() + &of_engine(&engine))).await;
    let other = Daemon::collectord_at("c2", b, &members).await;
    for path in ["/v1/services", "/v1/nodes", "/v1/stacks", "/v1/services/huge", "/v1/services/nobody"] {
        until("both say the same of Swarm", async || {
            let (one, other) = (document(&one, path).await, document(&other, path).await);
            one == other && (!one["swarm"].is_null() || path.ends_with("nobody"))
        })
        .await;
    }
    let services = get(other.api, "/v1/services").await.json();
    let names = services["services"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap());
    assert_eq!(
        names.collect::<Vec<_>>(),
        ["agent", "batch", "huge", "image", "none", "nowhere", "once", "paused", "web"]
    );
    assert_eq!(get(other.api, "/v1/services/huge").await.json()["services"][0]["tasks"]["desired"], 2);
}

#[tokio::test]
async fn queries_ask_the_engine_nothing_and_an_event_does() {
    let engine = FakeEngine::start(|path: &str| match recorded(path) {
        // One event as soon as anybody listens.
        Does::Events { .. } => {
            Does::Events { lines: "{\"Type\":\"service\",\"Action\":\"update\"}\n".into(), ends: false }
        }
        other => other,
    });
    let begun = Instant::now();
    let daemon = Daemon::collectord("c1", &of_engine(&engine)).await;
    until_series(daemon.metrics, "swarmstats_swarm_lists_total", 2.0).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "no list is due for 5 s: {:?}", begun.elapsed());
    let before = engine.times_asked("/nodes");
    for _ in 0..20 {
        get(daemon.api, "/v1/services").await;
    }
    assert!(engine.times_asked("/nodes") <= before + 1);
    assert_eq!(engine.times_asked("/events"), 1);
}

#[tokio::test]
async fn many_events_at_once_are_one_reason_to_list() {
    let engine = FakeEngine::start(|path: &str| match recorded(path) {
        Does::Events { .. } => {
            Does::Events { lines: "{\"Type\":\"node\",\"Action\":\"update\"}\n".repeat(50), ends: false }
        }
        other => other,
    });
    let daemon = Daemon::collectord("c1", &of_engine(&engine)).await;
    until_series(daemon.metrics, "swarmstats_swarm_lists_total", 2.0).await;
    // The next is due after 4.5 s; one an event would be three more by now.
    tokio::time::sleep(Duration::from_millis(3_200)).await;
    assert_eq!(engine.times_asked("/services?"), 2);
}

#[tokio::test]
async fn a_list_is_good_without_what_became_of_past_tasks() {
    let engine = FakeEngine::start(|path: &str| {
        let is_past = path.contains("/tasks?") && path.contains("shutdown");
        if is_past { Does::Say("{\"message\":\"no list\"}".into()) } else { recorded(path) }
    });
    let daemon = Daemon::collectord("c1", &of_engine(&engine)).await;
    until_series(daemon.metrics, "swarmstats_swarm_lists_total", 1.0).await;
    until("it was asked", async || engine.times_asked("shutdown") > 0).await;
    assert_eq!(get(daemon.api, "/v1/services").await.json()["services"].as_array().unwrap().len(), 9);
    assert_eq!(series(daemon.metrics, "swarmstats_swarm_list_failures_total").await, Some(0.0));
    // Nor does one that never answers hold it up.
    engine.now(|path| if path.contains("shutdown") { Does::Nothing } else { recorded(path) });
    let later = Daemon::collectord("c2", &of_engine(&engine)).await;
    until_series(later.metrics, "swarmstats_swarm_lists_total", 1.0).await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read_leaves_the_one_before_to_grow_old() {
    let engine = FakeEngine::start(recorded);
    let daemon = Daemon::collectord("c1", &of_engine(&engine)).await;
    until("it has listed", async || !get(daemon.api, "/v1/services").await.json()["swarm"].is_null()).await;
    engine.now(|path| if path.contains("/services?") { Does::Say("{}".into()) } else { recorded(path) });
    until_series(daemon.metrics, "swarmstats_swarm_list_failures_total", 1.0).await;
    let services = get(daemon.api, "/v1/services").await.json();
    assert_eq!(services["services"].as_array().unwrap().len(), 9);
    let age = services["swarm"]["age_seconds"].as_f64().unwrap();
    assert!((4.0..15.0).contains(&age), "{age}");
    assert!((series(daemon.metrics, "swarmstats_swarm_list_age_seconds").await.unwrap() - age).abs() < 2.0);
}
