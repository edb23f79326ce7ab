//! DESIGN §11, Embedding: the same script against a collectord of its own and against one inside a host's own server.

use crate::rig::{Daemon, free_address, get, member, until, value};
use crate::scripted::{Scripted, figures};
use serde_json::Value;
use std::net::SocketAddr;
use swarmstats::collectord::Collectord;
use swarmstats::config;
use swarmstats::metrics::Registry;
use swarmstats::model::ServiceId;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// What takes time or is of the process, and so differs.
const OF_THE_MOMENT: [&str; 3] = ["age_seconds", "cpu_percent", "since"];

pub(crate) fn without_the_moment(mut json: Value) -> Value {
    match &mut json {
        Value::Object(object) => {
            OF_THE_MOMENT.iter().for_each(|key| drop(object.remove(*key)));
            object.values_mut().for_each(|value| *value = without_the_moment(value.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| *value = without_the_moment(value.take())),
        _ => {}
    }
    json
}

/// Two services of one node, one task over, one figure absent; then everything is asked. Statuses and bodies.
async fn script(api: SocketAddr, metrics: SocketAddr) -> Vec<(String, u16, Value)> {
    let mut shipper = Scripted::new("node-1", &[("c1", api)]);
    shipper.run("web", "aaaa1", figures(10, 1 << 20));
    shipper.run("web", "aaaa2", figures(20, 2 << 20));
    let mut limitless = figures(30, 3 << 20);
    limitless.clear(swarmstats::stat::MEMORY_LIMIT);
    shipper.run("db", "bbbb1", limitless);
    shipper.settle().await;
    shipper.end("aaaa2", figures(21, 0));
    shipper.round().await;
    let mut answers = Vec::new();
    for target in [
        "/v1/services",
        "/v1/services/web",
        "/v1/tasks",
        "/v1/tasks?service=db&scope=local",
        "/v1/tasks/bbbb1",
        "/v1/tasks/aaaa2",
        "/v1/nodes",
        "/v1/stacks/shop",
        "/v1/services/nobody",
        "/v1/tasks?scope=galaxy",
        "/healthz",
        "/readyz",
    ] {
        let answer = get(api, target).await;
        answers.push((target.into(), answer.status, without_the_moment(answer.json())));
    }
    get(metrics, "/metrics").await; // service counters are born with it
    let page = get(metrics, "/metrics").await;
    let figures = |line: &&str| {
        (line.starts_with("swarmstats_task_") || line.starts_with("swarmstats_service_"))
            && !line.contains("sample_age")
    };
    let lines: Vec<&str> = page.body.lines().filter(figures).collect();
    assert!(lines.len() > 100, "{}", page.body);
    answers.push(("/metrics".into(), page.status, Value::from(lines)));
    answers
}

#[tokio::test]
async fn embedded_and_alone_a_collectord_answers_the_same() {
    let alone = Daemon::collectord("c1", "").await;
    let expected = script(alone.api, alone.metrics).await;
    let status = |target: &str| expected.iter().find(|(of, ..)| of == target).unwrap().1;
    assert_eq!(
        ["/v1/services", "/v1/services/nobody", "/v1/tasks?scope=galaxy", "/readyz"].map(status),
        [200, 404, 400, 200]
    );

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = listener.local_addr().unwrap();
    let text = format!("member: c1\nmembers: {{static: [{{id: c1, addr: '{api}'}}]}}\n");
    let registry = Registry::new();
    let collectord = Collectord::new(config::Collectord::parse(&text, &member("host")).unwrap(), &registry).unwrap();
    let own_page = axum::routing::get(async || "the host's own page");
    let app = axum::Router::new()
        .route("/host", own_page)
        .merge(collectord.routes())
        .nest_service("/of-the-collector", collectord.metrics_routes());
    let collector = collectord.collector().unwrap().clone();
    let stop = CancellationToken::new();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let running = tokio::spawn(collectord.run(stop.clone()));
    until("it is ready", async || get(api, "/readyz").await.status == 200).await;

    // `/metrics` is where the host mounts it; the script asks a port of its own, which leads there.
    let metrics = TcpListener::bind(free_address()).await.unwrap();
    let metrics_address = metrics.local_addr().unwrap();
    let page = move || async move { get(api, "/of-the-collector/metrics").await.body };
    let front = axum::Router::new().route("/metrics", axum::routing::get(page));
    let front = tokio::spawn(async move { axum::serve(metrics, front).await });

    let embedded = script(api, metrics_address).await;
    for (alone, embedded) in expected.iter().zip(&embedded) {
        assert_eq!(alone, embedded);
    }
    assert_eq!(expected.len(), embedded.len());
    assert_eq!(get(api, "/host").await.body, "the host's own page");
    // The registry is the host's: what it renders has the collector's metrics too.
    let own = String::from_utf8(swarmstats::metrics::own::render(&registry).unwrap()).unwrap();
    assert_eq!(value(&own, "swarmstats_collector_hellos_total"), Some(1.0));
    let ledger = swarmstats::router::Store::hold(&collector, &all());
    assert!(ledger.rows.iter().any(|row| row.meta.service_id == ServiceId::new("id-of-db").unwrap()));

    stop.cancel();
    tokio::time::timeout(std::time::Duration::from_secs(8), running).await.unwrap().unwrap();
    server.abort();
    front.abort();
}

fn all() -> swarmstats::view::Ask {
    swarmstats::view::Ask::of(vec![swarmstats::view::Selector::everything()])
}
