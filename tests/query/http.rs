//! HTTP over real loopback sockets, members fake: documents, statuses, and errors that say what helps.

use crate::fixtures::*;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use swarmstats::http::routes;
use swarmstats::model::{Key, ServiceId, TaskId};
use swarmstats::router::{Router, RouterConfig, View};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A server on a port of its own; ends with this.
pub(crate) struct Server {
    address: SocketAddr,
    not_ready: Arc<Mutex<Vec<String>>>,
    _serving: JoinSet<()>,
}

pub(crate) async fn serve(router: Router) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let not_ready: Arc<Mutex<Vec<String>>> = Arc::default();
    let reasons = not_ready.clone();
    let who = swarmstats::grpc::Who {
        member: member("c1"),
        gen_: swarmstats::model::Gen(7),
        node: None,
        replicas: 1,
        roles: vec!["collector", "router"],
        standing: Arc::new(Default::default),
    };
    let app = routes(router, Arc::new(move || reasons.lock().unwrap().clone()), who);
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
    Server { address, not_ready, _serving: serving }
}

pub(crate) struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
    fn error(&self) -> (u16, String, String) {
        let json = self.json();
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_string();
        (self.status, text("error"), text("remedy"))
    }
}

impl Server {
    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.send("GET", target).await
    }
    async fn send(&self, method: &str, target: &str) -> Answer {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let answer = Answer { status: head[9..12].parse().unwrap(), head: head.to_lowercase(), body: body.into() };
        if method == "GET" {
            assert!(answer.head.contains("content-type: application/json"), "{target}: {}", answer.head);
            assert!(answer.body.ends_with("}\n"), "{target}: {}", answer.body);
            assert_eq!(answer.body.lines().count(), 1);
        }
        answer
    }
}

async fn tier_of_three() -> (FakeTier, Server) {
    let tier = FakeTier::new(3, 1, forty(), quick());
    let server = serve(tier.router.clone()).await;
    (tier, server)
}

fn names(json: &Value, key: &str) -> Vec<String> {
    json[key].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_string()).collect()
}

#[tokio::test]
async fn lists_have_what_is_there() {
    let (tier, server) = tier_of_three().await;
    let json = server.get("/v1/services").await.json();
    assert_eq!((names(&json, "services"), &json["complete"]), (vec!["burn".into(), "idle".into()], &true.into()));
    assert_eq!(json["services"][0]["tasks"], serde_json::json!({"fresh": 30, "known": 30, "desired": null}));
    assert_eq!(json["services"][0]["totals"]["cpu_seconds_total"], 200.0);
    assert_eq!(json["services"][0]["figures"]["memory_used_bytes"], 3_000);
    assert_eq!(names(&server.get("/v1/nodes").await.json(), "nodes"), ["host-n0", "host-n1", "host-n2", "host-n3"]);
    assert_eq!(names(&server.get("/v1/stacks").await.json(), "stacks"), ["demo"]);
    let json = server.get("/v1/tasks").await.json();
    assert_eq!(json["tasks"].as_array().unwrap().len(), 40);
    for task in json["tasks"].as_array().unwrap() {
        let key = Key::Task(TaskId::new(task["id"].as_str().unwrap()).unwrap());
        assert_eq!(task["owners"], serde_json::json!([tier.ring.primary(&key).as_str()]));
    }
}

#[tokio::test]
async fn one_thing_goes_by_id_or_name() {
    let (_tier, server) = tier_of_three().await;
    for (target, key, name) in [
        ("/v1/services/burn", "services", "burn"),
        ("/v1/services/id-burn", "services", "burn"),
        ("/v1/tasks/task07", "tasks", "burn.1.task07"),
        ("/v1/tasks/burn.1.task07", "tasks", "burn.1.task07"),
        ("/v1/nodes/n2", "nodes", "host-n2"),
        ("/v1/nodes/host-n2", "nodes", "host-n2"),
        ("/v1/stacks/demo", "stacks", "demo"),
    ] {
        let answer = server.get(target).await;
        assert_eq!((answer.status, names(&answer.json(), key)), (200, vec![name.into()]), "{target}");
        assert_eq!(answer.json()["complete"], true, "{target}");
    }
}

#[tokio::test]
async fn the_id_of_a_compose_service_has_slashes() {
    let compose = ServiceId::new("compose/shop/web").unwrap();
    let mut held = holding("c1", vec![task("t1", "web", "n1")], vec![row("n1", "web", 1)], vec![node("n1", &[])]);
    Arc::make_mut(&mut held.tasks[0].meta).service_id = compose.clone();
    Arc::make_mut(&mut held.rows[0].meta).service_id = compose.clone();
    Arc::make_mut(&mut held.nodes[0].meta).services = vec![compose];
    let tier = FakeTier::new(1, 1, held, quick());
    let server = serve(tier.router.clone()).await;
    for target in ["/v1/services/compose/shop/web", "/v1/services/compose%2Fshop%2Fweb"] {
        assert_eq!(server.get(target).await.json()["services"][0]["id"], "compose/shop/web");
    }
}

#[tokio::test]
async fn tasks_are_filtered_and_bring_points_when_asked() {
    let mut all = forty();
    for (i, task) in all.tasks.iter_mut().enumerate() {
        let meta = Arc::make_mut(&mut task.meta);
        meta.labels.insert("tier".into(), if i % 2 == 0 { "even" } else { "odd=1" }.into());
        task.points =
            (0..3).map(|p| swarmstats::view::Point { monotonic: p * SECOND, values: task.values.clone() }).collect();
    }
    let tier = FakeTier::new(3, 1, all, quick());
    let server = serve(tier.router.clone()).await;
    let count =
        async |query: &str| server.get(&format!("/v1/tasks?{query}")).await.json()["tasks"].as_array().unwrap().len();
    assert_eq!(count("service=idle").await, 10);
    assert_eq!(count("node=host-n1").await, 10);
    assert_eq!(count("service=burn&node=n1").await, 8);
    assert_eq!(count("stack=demo").await, 40);
    assert_eq!(count("stack=nosuch").await, 0);
    assert_eq!(count("label=tier=even").await, 20);
    assert_eq!(count("label=tier%3Dodd%3D1&service=idle").await, 5);
    assert_eq!(count("scope=local").await, tier.members[0].holding.lock().unwrap().tasks.len());
    let json = server.get("/v1/tasks/task07?points=2").await.json();
    let before: Vec<_> =
        json["tasks"][0]["points"].as_array().unwrap().iter().map(|p| p["seconds_before"].clone()).collect();
    assert_eq!(before, [9.0, 8.0]);
    assert!(server.get("/v1/tasks/task07").await.json()["tasks"][0].get("points").is_none());
}

#[tokio::test]
async fn stats_are_chosen_by_level_and_by_name() {
    let (_tier, server) = tier_of_three().await;
    let keys = async |query: &str| {
        let json = server.get(&format!("/v1/services/burn?{query}")).await.json();
        assert_eq!(json["services"][0]["figures"]["memory_used_bytes"], 3_000, "figures are always whole");
        let stats = json["services"][0]["stats"].as_object().unwrap();
        stats.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(keys("stats=none").await.len(), 0);
    assert_eq!(keys("stats=docker").await.len(), 8, "as many as docker stats has columns for");
    assert_eq!(keys("stats=pids,cpu_seconds_total").await, ["cpu_seconds_total", "pids"]);
    assert_eq!(keys("stats=docker,restarts").await.len(), 9);
    assert_eq!(keys("stats=all").await, keys("scope=cluster").await);
}

#[tokio::test]
async fn what_is_not_there_is_404_unless_somebody_is_silent() {
    let (tier, server) = tier_of_three().await;
    for (target, error, remedy) in [
        ("/v1/services/nosuch", r#"no service "nosuch" is known"#, "GET /v1/services lists what is there"),
        ("/v1/tasks/nosuch", r#"no task "nosuch" is known"#, "GET /v1/tasks lists what is there"),
        ("/v1/nodes/nosuch", r#"no node "nosuch" is known"#, "GET /v1/nodes lists what is there"),
        ("/v1/stacks/nosuch", r#"no stack "nosuch" is known"#, "GET /v1/stacks lists what is there"),
    ] {
        assert_eq!(server.get(target).await.error(), (404, error.into(), remedy.into()));
    }
    let error = server.get("/v1/nodes/nosuch?scope=local").await.error();
    assert_eq!((error.0, error.1.as_str()), (404, r#"no node "nosuch" is in this process"#));
    tier.members[2].set(Mood::Frozen);
    for (kind, what) in [("services", "service"), ("tasks", "task"), ("nodes", "node"), ("stacks", "stack")] {
        let answer = server.get(&format!("/v1/{kind}/nosuch")).await;
        let json = answer.json();
        assert_eq!((answer.status, &json["complete"]), (200, &false.into()), "{kind}");
        assert!(json[kind].as_array().unwrap().is_empty());
        let lacks = json["missing"].as_array().unwrap().iter().find(|m| m["what"] == format!("{what} nosuch")).unwrap();
        assert!(lacks["why"].as_str().unwrap().contains("member c3 did not answer"), "{lacks}");
    }
}

#[tokio::test]
async fn a_frozen_member_delays_an_answer_to_the_deadline_and_is_named() {
    let (tier, server) = tier_of_three().await;
    server.get("/v1/services").await;
    tier.members[1].set(Mood::Frozen);
    let begun = Instant::now();
    let answer = server.get("/v1/services/burn").await;
    assert!(begun.elapsed() < Duration::from_millis(900));
    let json = answer.json();
    assert_eq!((answer.status, &json["complete"]), (200, &false.into()));
    assert!(json["missing"].as_array().unwrap().iter().any(|m| m["what"] == "member c2"));
    assert_eq!(json["services"][0]["tasks"]["known"], 30, "the rows seen before say how many there are");
    assert_eq!(json["services"][0]["totals"]["cpu_seconds_total"], 200.0, "and totals do not go back");
}

#[tokio::test]
async fn bad_parameters_are_named() {
    let (_tier, server) = tier_of_three().await;
    for (target, error, remedy) in [
        (
            "/v1/tasks?sevice=x",
            r#"parameter "sevice" is not known here"#,
            "there is service, node, stack, label, scope, stats, points",
        ),
        ("/v1/services?service=x", r#"parameter "service" is not known here"#, "there is scope, stats"),
        ("/v1/tasks?service=", "parameter service is empty", "give it a value or leave it out"),
        ("/v1/tasks?scope=global", r#"parameter scope: "global" is none"#, "write local or cluster"),
        ("/v1/tasks?points=-1", r#"parameter points: "-1" is no number"#, "write points=N"),
        ("/v1/tasks?points=10001", "10001 points, 10000 are allowed", ""),
        ("/v1/tasks?label=x", r#"parameter label: "x" is no name=value"#, "write label=NAME=VALUE"),
        ("/v1/ring?key=x", r#"parameter key: "x" is no key"#, "write task:ID, node:ID or row:NODE:SERVICE"),
        (
            "/v1/ring?key=task:a%20b",
            r#"parameter key: the task id "a b" has a control character or white space"#,
            "write task:ID, node:ID or row:NODE:SERVICE",
        ),
        ("/v1/ring?scope=local", r#"parameter "scope" is not known here"#, "there is key, live, plan, of"),
        ("/v1/ring?live=2", r#"parameter live: "2" is neither"#, "write true or false"),
        ("/v1/ring?plan=4", r#"parameter plan: "4" is no change"#, "write +1, -1, +NAME or -NAME"),
        ("/v1/ring?plan=-0", "parameter plan: 0 members; from 1 to 100 can be planned", "write +1, -1, +NAME or -NAME"),
        ("/v1/ring?plan=-3", "parameter plan: 3 of 3 members: none would stay", "write +1, -1, +NAME or -NAME"),
        ("/v1/ring?plan=%2Bc2", "parameter plan: c2 is a member already", "write +1, -1, +NAME or -NAME"),
    ] {
        assert_eq!(server.get(target).await.error(), (400, error.into(), remedy.into()), "{target}");
    }
    let bad = server.get("/v1/services?stats=docker,memory_ussage_bytes").await;
    let remedy = "write none, docker, standard, all or names of stats, with commas between them";
    let error = r#"parameter stats: "memory_ussage_bytes" is no stat"#;
    assert_eq!(bad.error(), (400, error.into(), remedy.into()));
    assert!(bad.json()["candidates"].as_array().unwrap().contains(&"memory_usage_bytes".into()));
    assert_eq!(server.get("/v1/services?stats=").await.status, 400);
    let long = server.get(&format!("/v1/tasks?service={}", "x".repeat(4090))).await.error();
    assert_eq!((long.0, long.1.as_str()), (400, "the query string is 4098 bytes long, 4096 are allowed"));
    let long = server.get(&format!("/v1/services/{}", "x".repeat(300))).await.error();
    assert_eq!((long.0, long.1.as_str()), (400, "a selector's text is 300 bytes long, 255 are allowed"));
    let ambiguous = server.get("/v1/tasks/task").await;
    assert_eq!(
        ambiguous.error(),
        (409, r#""task" is the beginning of 40 task ids"#.into(), "give more of the id".into())
    );
    let candidates: Vec<String> = (0..8).map(|n| format!("task0{n}")).collect();
    assert_eq!(ambiguous.json()["candidates"], serde_json::json!(candidates));
    assert_eq!(server.get("/v2/x").await.error(), (404, "no /v2/x here".into(), "".into()));
    assert_eq!(server.send("POST", "/v1/tasks").await.status, 405);
}

#[tokio::test]
async fn too_many_queries_are_503() {
    let tier = FakeTier::new(2, 1, forty(), RouterConfig { max_queries: 1, ..quick() });
    tier.members[1].set(Mood::Frozen);
    let server = serve(tier.router.clone()).await;
    let (first, second) = tokio::join!(server.get("/v1/services"), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.get("/v1/services").await
    });
    assert_eq!((first.status, second.status), (200, 503));
    assert_eq!(second.error().1, "1 queries are under way, more are refused (max_queries): try again");
}

#[tokio::test]
async fn the_ring_is_told_with_shares_and_the_owners_of_a_key() {
    let (tier, server) = tier_of_three().await;
    let json = server.get("/v1/ring").await.json();
    assert_eq!(
        (&json["ring_id"], &json["replicas"], &json["shards"]),
        (&tier.ring.id().to_string().into(), &1.into(), &16384.into())
    );
    let members = json["members"].as_array().unwrap();
    assert_eq!((&members[1]["id"], &members[1]["address"]), (&"c2".into(), &"c2:7770".into()));
    let sum = |key: &str| members.iter().map(|member| member[key].as_f64().unwrap()).sum::<f64>();
    assert_eq!((sum("primary_shards"), sum("shards")), (16384.0, 16384.0));
    assert!(
        (sum("share") - 1.0).abs() < 1e-5 && members.iter().all(|m| m["share"].as_f64().unwrap() < 1.05 / 3.0 + 1e-5)
    );
    assert!(json.get("key").is_none());
    for (text, key) in [
        ("task:task07", Key::Task(TaskId::new("task07").unwrap())),
        ("node:n1", Key::Node(swarmstats::model::NodeId::new("n1").unwrap())),
        (
            "row:n1:compose/a/b",
            Key::Row(swarmstats::model::NodeId::new("n1").unwrap(), ServiceId::new("compose/a/b").unwrap()),
        ),
    ] {
        let json = server.get(&format!("/v1/ring?key={text}")).await.json();
        assert_eq!(json["key"]["shard"], u64::from(tier.ring.shard(&key)));
        assert_eq!(json["key"]["owners"], serde_json::json!([tier.ring.primary(&key).as_str()]));
        assert_ne!(json["key"]["reserve"], json["key"]["owners"][0]);
    }
    let (_view, seen) = watch::channel(Arc::new(View::default()));
    let server = serve(Router::new(quick(), None, seen)).await;
    let none = server.get("/v1/ring").await.error();
    assert_eq!((none.0, none.1.as_str()), (503, "no ring is known yet"));
    assert_eq!(server.get("/v1/tasks?scope=local").await.status, 400);
}

#[tokio::test]
async fn probes_tell_alive_from_ready() {
    let (_tier, server) = tier_of_three().await;
    assert_eq!(server.get("/readyz").await.json(), serde_json::json!({"ready": true, "reasons": []}));
    *server.not_ready.lock().unwrap() = vec!["draining".into()];
    let answer = server.get("/readyz").await;
    assert_eq!((answer.status, answer.json()), (503, serde_json::json!({"ready": false, "reasons": ["draining"]})));
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn garbage_on_the_socket_hurts_nobody() {
    let (_tier, server) = tier_of_three().await;
    for garbage in [
        &b"\x00\xff\x13 nonsense\r\n\r\n"[..],
        b"GET /v1/tasks?%zz=%ff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ] {
        let mut socket = TcpStream::connect(server.address).await.unwrap();
        socket.write_all(garbage).await.unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&answer));
        assert_eq!(server.get("/v1/services").await.status, 200);
    }
}
