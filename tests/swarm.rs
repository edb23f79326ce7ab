//! What Swarm says, asked of a real manager: a swarm of one node, its services in every mode, beside what the docker
//! command prints of them.
//!
//! Needs root, and the packages that `tests/engine` names.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "engine/mod.rs"]
#[allow(dead_code, reason = "other suites use the rest")]
mod engine;

#[path = "e2e/rig.rs"]
#[allow(dead_code, reason = "other suites use the rest")]
mod rig;

use engine::Engine;
use rig::{Daemon, get, series, until};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Service names and what `docker service ls` prints as MODE and REPLICAS.
fn ls(engine: &Engine) -> Vec<(String, String, String)> {
    let text = engine.docker("service ls --format {{.Name}}|{{.Mode}}|{{.Replicas}}");
    let line = |line: &str| {
        let mut words = line.split('|').map(str::to_string);
        (words.next().unwrap(), words.next().unwrap(), words.next().unwrap())
    };
    text.lines().map(line).collect()
}

/// MODE, and REPLICAS without what runs, as an item of the document says them.
fn as_ls(item: &Value) -> (String, String) {
    let desired = &item["tasks"]["desired"];
    let replicas = match item["completed"].as_u64() {
        Some(completed) => format!("{desired} ({completed}/{} completed)", item["total_completions"]),
        None => desired.to_string(),
    };
    (item["mode"].as_str().unwrap_or_default().replace('-', " "), replicas)
}

fn find<'a>(document: &'a Value, what: &str, name: &str) -> Option<&'a Value> {
    document[what].as_array()?.iter().find(|item| item["name"] == name)
}

fn warns(document: &Value, words: &str) -> bool {
    document["warnings"].as_array().unwrap().iter().any(|warning| warning.as_str().unwrap().contains(words))
}

/// Waits for longer than [`until`] does.
async fn at_last(what: &str, daemon: &Daemon, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let document = get(daemon.api, path).await.json();
        if is_so(&document) {
            return document;
        }
        assert!(begun.elapsed() < Duration::from_secs(45), "waited in vain until {what}: {document:#}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn create_services(engine: &Engine) {
    let create = |words: &str| {
        engine.docker(&format!("service create --detach --network host --no-resolve-image --stop-signal KILL {words}"));
    };
    create(
        "--name paused --replicas 2 --update-failure-action pause --update-monitor 2s --update-order start-first busybox sleep 600",
    );
    create(
        "--name web --replicas 2 --label com.docker.stack.namespace=shop --reserve-cpu 0.25 --reserve-memory 64m busybox sleep 600",
    );
    create("--name none --replicas 0 busybox sleep 600");
    create("--name agent --mode global busybox sleep 600");
    create("--name batch --mode replicated-job --replicas 3 --max-concurrent 2 busybox true");
    create("--name once --mode global-job busybox true");
    create("--name crash busybox cat /nosuch");
    create("--name huge --replicas 2 --reserve-memory 900g busybox sleep 600");
}

#[tokio::test]
async fn b118_b133_b134_p10_p11_swarms_numbers_are_those_of_the_docker_command() {
    let engine = Engine::start_manager();
    let socket = engine.socket();
    create_services(&engine);
    // P10 as far as one can be made: a container with a task's labels, running, that Swarm does not know.
    let zombie = "--network host --label com.docker.swarm.task.id=aaaaaaaaaaaaaaaaaaaaaaaaa \
        --label com.docker.swarm.task.name=web.1.aaaaaaaaaaaaaaaaaaaaaaaaa --label com.docker.swarm.service.name=web";
    let web = engine.docker("service inspect web --format {{.ID}}");
    engine.run("zombie", &format!("{zombie} --label com.docker.swarm.service.id={}", web.trim()), "sleep 600");
    let swarm = format!("swarm: {{engine: 'unix://{socket}'}}\n");
    let collectord = Daemon::collectord("c1", &swarm).await;
    let host = engine.docker("info --format {{.Name}}").trim().to_string();

    // The commonest complaint: a node that nothing is heard of.
    let missing = at_last("Swarm was listed", &collectord, "/v1/services", |json| !json["swarm"].is_null()).await;
    let never = "its shipper has never reported: is one running there, with these members?";
    assert_eq!(missing["missing"][0], json!({"what": format!("node {host}"), "why": never}));
    let members = format!("members: {{static: [{{id: c1, addr: '{}'}}]}}\n", collectord.api);
    let _shipper = Daemon::shipper(Path::new(&socket), &members).await;

    let scheduled = |json: &Value| find(json, "services", "paused").is_some_and(|item| item["tasks"]["fresh"] == 2);
    at_last("both tasks of paused are read", &collectord, "/v1/services", scheduled).await;
    engine.docker("service update --detach --args /nosuch paused");
    let as_the_command = |json: &Value| {
        let agrees = |(name, mode, replicas): &(String, String, String)| {
            let item = find(json, "services", name).unwrap();
            let (_, replicas) = replicas.split_once('/').unwrap();
            as_ls(item) == (mode.clone(), replicas.to_string())
        };
        let fresh = |name: &str| find(json, "services", name).map(|item| item["tasks"]["fresh"].as_u64());
        let all = json["services"].as_array().unwrap().len() == 8 && ls(&engine).iter().all(agrees);
        all && fresh("web") == Some(Some(2)) && fresh("agent") == Some(Some(1)) && fresh("none") == Some(Some(0))
    };
    let services = at_last("all counts are those of service ls", &collectord, "/v1/services", |json| {
        as_the_command(json) && find(json, "services", "paused").unwrap()["update"] == "paused"
    })
    .await;
    let batch = find(&services, "services", "batch").unwrap();
    assert_eq!((&batch["completed"], &batch["total_completions"]), (&3.into(), &3.into()));
    assert!(warns(&services, "service paused: update paused, 2 running of 2 wanted: update paused due to failure"));
    let huge = "2 tasks of service huge have not been scheduled: no suitable node (insufficient resources on 1 node)";
    assert!(warns(&services, huge), "{services:#}");
    let crash = "task crash.1 is not running yet (ready): the one before failed: task: non-zero exit (1)";
    at_last("a failing task says why", &collectord, "/v1/services/crash", |json| warns(json, crash)).await;
    assert_eq!(services["complete"], true, "{services:#}");
    assert!(services["swarm"]["age_seconds"].as_f64().unwrap() < 7.0);

    // Within half a minute it could be a task that Swarm is about to list.
    let services =
        at_last("the orphan is flagged", &collectord, "/v1/services", |json| warns(json, "(an orphan)")).await;
    assert_eq!(find(&services, "services", "web").unwrap()["tasks"], json!({"fresh": 2, "known": 2, "desired": 2}));
    let nodes = get(collectord.api, "/v1/nodes").await.json();
    let node = find(&nodes, "nodes", &host).unwrap();
    assert_eq!(node["reserved"], json!({"cpu_cores": 0.5, "memory_bytes": 128 << 20}));
    assert_eq!(
        (&node["role"], &node["availability"], &node["status"]),
        (&"manager".into(), &"active".into(), &"ready".into())
    );
    let capacity = engine.docker("info --format {{.NCPU}}|{{.MemTotal}}");
    let (cpus, memory) = capacity.trim().split_once('|').unwrap();
    let expected = json!({"cpu_cores": cpus.parse::<f64>().unwrap(), "memory_bytes": memory.parse::<u64>().unwrap()});
    assert_eq!(node["capacity"], expected);

    drained(&engine, &collectord, &host).await;
    left(&engine, &swarm, &collectord).await;
}

/// A drained node: said so, nothing reserved, and counts still as the command's.
async fn drained(engine: &Engine, collectord: &Daemon, host: &str) {
    engine.docker(&format!("node update --availability drain {host}"));
    let why = "2 tasks of service web have not been scheduled: no suitable node (1 node not available for new tasks)";
    let services = at_last("web waits for a node", collectord, "/v1/services", |json| warns(json, why)).await;
    // The command's first number counts tasks that are still being stopped.
    let (.., agent) = ls(engine).into_iter().find(|(name, ..)| name == "agent").unwrap();
    assert!(agent.ends_with("/0"), "{agent}");
    assert_eq!(find(&services, "services", "agent").unwrap()["tasks"]["desired"], 0);
    let nodes = get(collectord.api, "/v1/nodes").await.json();
    let node = find(&nodes, "nodes", host).unwrap();
    assert_eq!((&node["availability"], &node["reserved"]["memory_bytes"]), (&"drain".into(), &0.into()));
}

/// An engine without manager role: said with the remedy, counted, and no number is made up.
async fn left(engine: &Engine, swarm: &str, collectord: &Daemon) {
    assert!(series(collectord.metrics, "swarmstats_swarm_lists_total").await.unwrap() >= 2.0);
    assert!(series(collectord.metrics, "swarmstats_swarm_list_age_seconds").await.unwrap() < 7.0);
    engine.docker("swarm leave --force");
    let later = Daemon::collectord("c2", swarm).await;
    until("it says why", async || {
        let services = get(later.api, "/v1/services").await.json();
        services["swarm"].is_null()
            && warns(&services, "This node is not a swarm manager")
            && warns(&services, "give swarm.engine the socket of a manager's engine, or leave it out")
    })
    .await;
    assert!(series(later.metrics, "swarmstats_swarm_list_failures_total").await.unwrap() >= 1.0);
    assert_eq!(series(later.metrics, "swarmstats_swarm_lists_total").await, Some(0.0));
}
