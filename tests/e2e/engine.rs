//! The shipper binary against a fake engine: whatever it says or fails to say, the shipper stays up and says what is wrong.

use crate::rig::{Daemon, Folder, get, series, until, until_series};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

/// What the fake engine does with a request.
#[derive(Clone)]
pub(crate) enum Does {
    Say(String),
    /// Takes the request and never answers.
    Nothing,
    /// Says what is so when this long has passed.
    Later(Duration, Arc<dyn Fn() -> String + Send + Sync>),
    /// An event stream that stays open, or ends after these lines.
    Events {
        lines: String,
        ends: bool,
    },
}

type Behaviour = Arc<dyn Fn(&str) -> Does + Send + Sync>;

/// A fake Docker engine on a unix socket: as much of its API as a shipper asks.
pub(crate) struct FakeEngine {
    pub(crate) socket: PathBuf,
    behaviour: Arc<Mutex<Behaviour>>,
    asked: Arc<Mutex<Vec<String>>>,
    _loops: JoinSet<()>,
    _folder: Folder,
}

impl FakeEngine {
    pub(crate) fn start(behaviour: impl Fn(&str) -> Does + Send + Sync + 'static) -> FakeEngine {
        let folder = Folder::new();
        let socket = folder.0.join("engine.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let behaviour: Arc<Mutex<Behaviour>> = Arc::new(Mutex::new(Arc::new(behaviour)));
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut loops = JoinSet::new();
        let (does, log) = (behaviour.clone(), asked.clone());
        loops.spawn(async move {
            let mut answering = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                answering.spawn(answer(stream, does.lock().unwrap().clone(), log.clone()));
            }
        });
        FakeEngine { socket, behaviour, asked, _loops: loops, _folder: folder }
    }
    pub(crate) fn now(&self, behaviour: impl Fn(&str) -> Does + Send + Sync + 'static) {
        *self.behaviour.lock().unwrap() = Arc::new(behaviour);
    }
    pub(crate) fn times_asked(&self, part: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|path| path.contains(part)).count()
    }
}

async fn answer(stream: UnixStream, does: Behaviour, log: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    let (mut request, mut line) = (String::new(), String::new());
    stream.read_line(&mut request).await.ok();
    while stream.read_line(&mut line).await.is_ok_and(|n| n > 2) {
        line.clear();
    }
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default().to_string(), words.next().unwrap_or_default().to_string());
    log.lock().unwrap().push(path.clone());
    let head = "HTTP/1.1 200 OK\r\nApi-Version: 1.45\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let does = match does(&path) {
        Does::Later(pause, say) => {
            tokio::time::sleep(pause).await;
            Does::Say(say())
        }
        does => does,
    };
    match does {
        Does::Say(body) => {
            let body = if method == "HEAD" { "" } else { &body };
            let text = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(text.as_bytes()).await.ok();
        }
        Does::Events { lines, ends } => {
            stream.write_all(format!("{head}\r\n{lines}").as_bytes()).await.ok();
            if !ends {
                stream.read_line(&mut line).await.ok(); // until the shipper goes
            }
        }
        Does::Nothing | Does::Later(..) => drop(stream.read_line(&mut line).await),
    }
}

fn labels(task: &str) -> Value {
    json!({
        "com.docker.swarm.task.id": task, "com.docker.swarm.task.name": format!("web.1.{task}"),
        "com.docker.swarm.service.id": "id-of-web", "com.docker.swarm.service.name": "web",
        "com.docker.swarm.node.id": "node-of-the-fake",
    })
}

/// Containers with ids of no cgroup on this machine: their figures can only come from the engine's own record.
const CONTAINERS: [&str; 3] = ["c0ffee01", "c0ffee02", "c0ffee03"];

/// A good engine of node `node-of-the-fake`, with one task of a state nobody has heard of, and one container without
/// any label.
pub(crate) fn good(path: &str) -> Does {
    let say = |json: Value| Does::Say(json.to_string());
    let container = CONTAINERS.into_iter().position(|id| path.contains(id));
    match path {
        "/_ping" => Does::Say("OK".into()),
        _ if path.contains("/info") => say(json!({
            "ID": "engine-id", "Name": "fake-host", "NCPU": 2, "MemTotal": 1u64 << 33,
            "Swarm": {"NodeID": "node-of-the-fake", "LocalNodeState": "active"},
        })),
        _ if path.contains("/events") => Does::Events { lines: String::new(), ends: false },
        _ if path.contains("/stats") => say(json!({
            "read": "2026-11-30T19:00:00.5Z",
            "cpu_stats": {"cpu_usage": {"total_usage": 7_500_000_000u64}},
            "memory_stats": {"usage": 5000, "limit": 1u64 << 33, "stats": {"inactive_file": 1000}},
            "pids_stats": {"current": 4},
        })),
        _ if path.contains("/containers/json") => say(json!([
            {"Id": CONTAINERS[0], "State": "running", "Labels": labels("task-1")},
            {"Id": CONTAINERS[1], "State": "levitating", "Labels": labels("task-2"), "Aura": {"colour": "green"}},
            {"Id": CONTAINERS[2], "State": "running", "Labels": null},
        ])),
        _ if container.is_some() => {
            let n = container.unwrap() + 1;
            let status = if n == 2 { "levitating" } else { "running" };
            let labels = if n == 3 { Value::Null } else { labels(&format!("task-{n}")) };
            say(json!({
                "Id": CONTAINERS[n - 1], "Name": format!("/web.{n}"),
                "State": {"Status": status, "Running": true, "Pid": 4_194_303, "StartedAt": "2026-11-30T18:00:00Z"},
                "HostConfig": {"NetworkMode": "lab"}, "Config": {"Image": "made-up:1", "Labels": labels},
            }))
        }
        _ => Does::Say("{}".into()),
    }
}

/// A good engine with so many tasks `task-000`, … of one service.
pub(crate) fn many(n: usize) -> impl Fn(&str) -> Does + Send + Sync + 'static {
    move |path| {
        let id = |i: usize| format!("c0ffee{i:03}");
        if path.contains("/containers/json") {
            let list =
                (0..n).map(|i| json!({"Id": id(i), "State": "running", "Labels": labels(&format!("task-{i:03}"))}));
            return Does::Say(Value::from_iter(list).to_string());
        }
        match (0..n).find(|i| path.ends_with(&format!("/containers/{}/json", id(*i)))) {
            None => good(path),
            Some(i) => Does::Say(
                json!({
                    "Id": id(i), "Name": format!("/web.{i}"),
                    "State": {"Running": true, "Pid": 4_194_303, "StartedAt": "2026-11-30T18:00:00Z"},
                    "HostConfig": {"NetworkMode": "lab"},
                    "Config": {"Image": "made-up:1", "Labels": labels(&format!("task-{i:03}"))},
                })
                .to_string(),
            ),
        }
    }
}

fn faults(reason: &str) -> String {
    format!("swarmstats_shipper_faults_total{{reason=\"{reason}\"}}")
}

fn tasks(json: &Value) -> Vec<&str> {
    json["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_the_kernel_does_not_show_the_engine_is_asked_for_and_it_reaches_the_collector() {
    let engine = FakeEngine::start(good);
    let collectord = Daemon::collectord("c1", "").await;
    let members = format!("interval: 200ms\nmembers: {{static: [{{id: c1, addr: '{}'}}]}}", collectord.api);
    let shipper = Daemon::shipper(&engine.socket, &members).await;
    let answered = async || {
        let json = get(collectord.api, "/v1/tasks").await.json();
        json["tasks"].as_array().is_some_and(|tasks| tasks.len() == 2 && tasks[0]["stats"]["pids"] == 4)
    };
    until("the collector has both tasks", answered).await;
    let json = get(collectord.api, "/v1/tasks").await.json();
    // A state that nobody has heard of is no reason to leave a running task out; a container without labels is no task.
    assert_eq!(tasks(&json), ["task-1", "task-2"]);
    let stats = &json["tasks"][0]["stats"];
    assert_eq!((&stats["cpu_seconds_total"], &stats["memory_used_bytes"]), (&7.5.into(), &4000.into()));
    assert!(stats["network_receive_bytes_total"].is_null(), "what the engine does not say is absent, not 0: {stats}");
    assert_eq!(get(shipper.api, "/readyz").await.status, 200, "{}", get(shipper.api, "/readyz").await.body);
    assert_eq!(tasks(&get(shipper.api, "/v1/tasks").await.json()), ["task-1", "task-2"]);
    until_series(shipper.metrics, "swarmstats_shipper_samples_by_engine_total", 4.0).await;
    assert!(series(shipper.metrics, &faults("unseen")).await.unwrap() >= 2.0);
    let received = series(collectord.metrics, "swarmstats_collector_received_bytes_total").await.unwrap();
    assert!(received > 100.0);
}

#[tokio::test]
async fn an_engine_that_misbehaves_is_told_and_counted_and_comes_back() {
    let engine = FakeEngine::start(|path| if path.contains("/info") { Does::Say("<html>".into()) } else { good(path) });
    let mut shipper = Daemon::shipper(&engine.socket, "interval: 200ms\nrelist: 1s").await;
    let ready = async |part: &str| {
        let answer = get(shipper.api, "/readyz").await;
        answer.status == 503 && answer.body.contains(part)
    };
    // Garbage from the start: no node, and so no tasks.
    until("readyz tells of the garbage", async || ready("the engine has not answered yet: ").await).await;
    assert!(ready("/info is not understood").await, "{}", get(shipper.api, "/readyz").await.body);
    until_series(shipper.metrics, &faults("engine"), 2.0).await;
    assert_eq!(tasks(&get(shipper.api, "/v1/tasks").await.json()), [""; 0]);

    // It comes to its senses.
    engine.now(good);
    until("it is ready", async || get(shipper.api, "/readyz").await.status == 200).await;
    until("its tasks are known", async || tasks(&get(shipper.api, "/v1/tasks").await.json()).len() == 2).await;

    // Garbage in the list: known tasks stay.
    let before = series(shipper.metrics, &faults("engine")).await.unwrap();
    engine.now(|path| if path.contains("/containers/json") { Does::Say("[{]".into()) } else { good(path) });
    until("readyz tells of the list", async || ready("cannot list containers").await).await;
    until_series(shipper.metrics, &faults("engine"), before + 1.0).await;
    assert_eq!(tasks(&get(shipper.api, "/v1/tasks").await.json()), ["task-1", "task-2"]);
    assert!(shipper.is_running());
}

#[tokio::test]
async fn an_event_stream_that_ends_is_taken_up_again_and_its_nonsense_counted() {
    let engine = FakeEngine::start(|path| match path.contains("/events") {
        true => Does::Events { lines: "not json\n{\"Type\":\"planet\"}\n".into(), ends: true },
        false => good(path),
    });
    let mut shipper = Daemon::shipper(&engine.socket, "interval: 200ms").await;
    until("the stream was asked for again and again", async || engine.times_asked("/events") >= 3).await;
    until_series(shipper.metrics, &faults("event"), 4.0).await;
    until("its tasks are known", async || tasks(&get(shipper.api, "/v1/tasks").await.json()).len() == 2).await;
    assert!(shipper.is_running());
}

#[tokio::test]
async fn an_engine_that_never_answers_or_is_not_there_is_named() {
    let engine = FakeEngine::start(|_| Does::Nothing);
    let mut frozen = Daemon::shipper(&engine.socket, "").await;
    let mut absent = Daemon::shipper(&engine.socket.with_file_name("nobody.sock"), "").await;
    until("the missing socket is named", async || {
        get(absent.api, "/readyz").await.body.contains("nobody.sock is missing")
    })
    .await;
    assert_eq!(get(absent.api, "/readyz").await.status, 503);
    until_series(absent.metrics, &faults("engine"), 2.0).await;
    assert_eq!(get(frozen.api, "/readyz").await.status, 503);
    // The engine's deadline is 10 s.
    until("the frozen engine is named", async || {
        get(frozen.api, "/readyz").await.body.contains("it may be frozen or overloaded")
    })
    .await;
    until_series(frozen.metrics, &faults("engine"), 1.0).await;
    for shipper in [&mut frozen, &mut absent] {
        shipper.signal(rustix::process::Signal::TERM);
        let (status, said) = shipper.ended(Duration::from_secs(8)).await;
        assert_eq!(status.code(), Some(0), "{said}");
    }
}

#[tokio::test]
async fn of_two_shippers_that_claim_one_node_the_loser_exits_and_says_why() {
    let engine = FakeEngine::start(good);
    let collectord = Daemon::collectord("c1", "").await;
    let members = format!("interval: 200ms\nmembers: {{static: [{{id: c1, addr: '{}'}}]}}", collectord.api);
    let mut one = Daemon::shipper(&engine.socket, &members).await;
    let mut two = Daemon::shipper(&engine.socket, &members).await;
    until("one has lost", async || !(one.is_running() && two.is_running())).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (loser, winner) = if one.is_running() { (&mut two, &mut one) } else { (&mut one, &mut two) };
    assert!(winner.is_running(), "both gave up");
    let (status, said) = loser.ended(Duration::from_secs(2)).await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(
        said.contains("another shipper speaks for node node-of-the-fake: collectors refused this one 2 times"),
        "{said}"
    );
    assert!(said.contains("Run one shipper a node"), "{said}");
    assert!(
        series(collectord.metrics, r#"swarmstats_collector_hellos_refused_total{reason="old"}"#).await >= Some(2.0)
    );
    until_series(winner.metrics, "swarmstats_shipper_streams", 1.0).await;
    until("the node is answered", async || get(collectord.api, "/v1/tasks").await.json()["complete"] == true).await;
}
