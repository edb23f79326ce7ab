//! Every task is answered by every router, and the ring's owner is the collector that holds it.

use crate::env::{Check, items, lab, stat, text};
use crate::http;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What the engines say runs: task id → the service's name.
pub(crate) fn running() -> BTreeMap<String, String> {
    let lab = lab();
    let all: String =
        (0..lab.nodes().len()).map(|node| lab.docker(node, "ps --no-trunc --format {{.Labels}}")).collect();
    let label = |line: &str, name: &str| {
        line.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    let task =
        |line: &str| Some((label(line, "com.docker.swarm.task.id")?, label(line, "com.docker.swarm.service.name")?));
    all.lines().filter_map(task).collect()
}

#[test]
fn each_task_by_each_router_by_its_id_and_within_its_service() {
    let (lab, mut check) = (lab(), Check::default());
    let running = running();
    let services: BTreeSet<&String> = running.values().collect();
    println!("{} tasks of {} services run by the engines' own lists", running.len(), services.len());
    assert!(running.len() >= 13, "the lab has 13 tasks");
    for router in 0..lab.routers().len() {
        let mut answered = 0;
        for id in running.keys() {
            let document = lab.ask(router, &format!("/v1/tasks/{id}"));
            let tasks = items(&document, "tasks");
            let good = document["complete"] == true && tasks.len() == 1 && tasks[0]["id"] == **id;
            check.that(good, || format!("router {}: task {id}: {document}", router + 1));
            answered += usize::from(good);
        }
        let mut within = 0;
        for service in &services {
            let tasks = items(&lab.ask(router, &format!("/v1/tasks?service={service}")), "tasks");
            let tasks = tasks.iter().filter(|task| task["state"] == "running");
            let found: BTreeSet<&str> = tasks.map(|task| text(task, "id")).collect();
            let wanted: BTreeSet<&str> =
                running.iter().filter(|(_, of)| of == service).map(|(id, _)| id.as_str()).collect();
            check.that(found == wanted, || format!("router {}: {service}: {found:?}, not {wanted:?}", router + 1));
            within += found.len();
            let row = &items(&lab.ask(router, &format!("/v1/services/{service}")), "services")[0];
            let (fresh, known) = (&row["tasks"]["fresh"], &row["tasks"]["known"]);
            let all = fresh == wanted.len() && known == wanted.len();
            check.that(all, || format!("router {}: {service}: {fresh}/{known} of {}", router + 1, wanted.len()));
        }
        println!("router {}: {answered} of {} by id, {within} within their services", router + 1, running.len());
    }
    check.done();
}

#[test]
fn the_rings_owner_holds_the_task_and_nobody_else() {
    let (lab, mut check) = (lab(), Check::default());
    let mut held: BTreeMap<String, usize> = BTreeMap::new();
    let tasks = lab.tasks(0);
    for task in &tasks {
        let id = text(task, "id");
        let owners = lab.ask(1, &format!("/v1/ring?key=task:{id}"))["key"]["owners"].clone();
        check.that(owners == task["owners"], || format!("{id}: {owners} by the ring, {} by the task", task["owners"]));
        let holds = |router: &String| {
            let answer = http::get(&format!("{router}/v1/tasks/{id}?scope=local")).unwrap();
            answer.code == 200 && items(&answer.json(), "tasks")[0]["state"] == "running"
        };
        let holders: Vec<Value> = (lab.routers().iter().zip(1..))
            .filter(|(router, _)| holds(router))
            .map(|(_, i)| format!("c{i}").into())
            .collect();
        check.that(owners == Value::Array(holders.clone()), || format!("{id}: owners {owners}, held by {holders:?}"));
        *held.entry(owners.to_string()).or_default() += 1;
    }
    println!("{} tasks held by their ring's owners alone: {held:?}", tasks.len());
    check.done();
}

/// A service's sums against those of its tasks, from readings of the same moment.
#[test]
fn a_services_row_is_the_sum_of_its_tasks() {
    const SUMS: [&str; 12] = [
        "cpu_seconds_total",
        "memory_used_bytes",
        "memory_usage_bytes",
        "memory_anon_bytes",
        "memory_shmem_bytes",
        "network_receive_bytes_total",
        "network_transmit_bytes_total",
        "block_read_bytes_total",
        "block_written_bytes_total",
        "pids",
        "memory_page_faults_total",
        "cpu_limit_cores",
    ];
    let (lab, mut check) = (lab(), Check::default());
    let cpu = |tasks: &[Value]| tasks.iter().map(|task| stat(task, SUMS[0]).unwrap()).collect::<Vec<_>>();
    // The answers of one moment: no task was read anew between them.
    let (tasks, services) = (0..50)
        .find_map(|_| {
            let before = lab.tasks(0);
            let services = items(&lab.ask(0, "/v1/services"), "services");
            (cpu(&before) == cpu(&lab.tasks(0))).then_some((before, services))
        })
        .expect("two equal readings of the tasks around one of the services");
    let mut compared = 0;
    // What an earlier test removed is known for a day, with nothing running.
    for service in services.iter().filter(|service| service["tasks"]["known"] != 0) {
        let of_service: Vec<&Value> = tasks.iter().filter(|task| task["service_id"] == service["id"]).collect();
        for name in SUMS {
            let parts: Vec<Option<f64>> = of_service.iter().map(|task| stat(task, name)).collect();
            let limit = name == "cpu_limit_cores";
            // A limit that one lacks is none of the service; anything else is summed over those that have it.
            let absent = parts.iter().all(Option::is_none) || limit && parts.iter().any(Option::is_none);
            let sum = (!absent).then(|| parts.iter().flatten().sum::<f64>());
            let ours = stat(service, name);
            let equal = match (sum, ours) {
                (Some(sum), Some(ours)) => (sum - ours).abs() < 1e-6 * sum.max(1.0),
                (sum, ours) => sum == ours,
            };
            check.that(equal, || format!("{} {name}: {ours:?}, its tasks' sum {sum:?}", service["name"]));
            compared += 1;
        }
        let memory = stat(service, "memory_used_bytes").unwrap() / 1048576.0;
        println!("{}: {} tasks, memory {memory:.1} MiB", text(service, "name"), of_service.len());
    }
    println!("{compared} sums equal their tasks'");
    check.done();
}
