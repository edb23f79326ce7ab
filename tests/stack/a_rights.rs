//! What was deployed is what config/stack.yml says: rights, mounts, places, and every task is answered.

use crate::env::{Check, items, lab, text};
use crate::tier::{containers, ring};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn the_shipper_has_the_rights_that_are_listed_and_no_others() {
    let (lab, mut check) = (lab(), Check::default());
    let shippers = containers(&lab, "shipper");
    assert_eq!(shippers.len(), lab.nodes().len(), "one a node");
    for shipper in shippers {
        let inspect = shipper.inspect(&lab);
        let mounts: BTreeMap<String, bool> = items(&inspect, "Mounts")
            .iter()
            .map(|mount| (text(mount, "Destination").to_owned(), mount["RW"] == true))
            .collect();
        let listed = ["/var/run/docker.sock", "/host/proc", "/host/sys"].map(|path| (path.to_owned(), false));
        check.that(mounts == BTreeMap::from(listed), || format!("{}: mounts {mounts:?}", shipper.name));
        let host = &inspect["HostConfig"];
        check.that(host["CapDrop"] == serde_json::json!(["ALL"]), || format!("CapDrop {}", host["CapDrop"]));
        let none = host["CapAdd"].as_array().is_none_or(Vec::is_empty);
        check.that(none && host["Privileged"] == false, || format!("CapAdd {}", host["CapAdd"]));
        check.that(host["ReadonlyRootfs"] == true, || "its root can be written".into());
        check.that(host["PidMode"] == "" && host["NetworkMode"] != "host", || format!("{}", host["PidMode"]));
    }
    for collector in containers(&lab, "collectord") {
        let inspect = collector.inspect(&lab);
        check.that(inspect["Config"]["User"] == "65534:65534", || "a collector runs as somebody".into());
        check.that(items(&inspect, "Mounts").is_empty(), || format!("a collector mounts {}", inspect["Mounts"]));
    }
    check.done();
}

#[test]
fn every_published_router_answers_every_task_and_identities_are_slots() {
    let lab = lab();
    let mut running = BTreeSet::new();
    for node in 0..lab.nodes().len() {
        let format = "ps --no-trunc --format {{.Label \"com.docker.swarm.task.id\"}}";
        let mut docker = std::process::Command::new("docker");
        docker.arg("-H").arg(format!("unix://{}", lab.engine(node).display()));
        docker.args(["ps", "--format", format.strip_prefix("ps --no-trunc --format ").unwrap()]);
        running.extend(crate::env::output(docker).lines().filter(|id| !id.is_empty()).map(str::to_owned));
    }
    assert!(running.len() >= 13 + 9, "{} tasks", running.len());
    let rings: BTreeSet<_> = (0..lab.routers().len()).map(|router| ring(&lab, router)).collect();
    println!("{} tasks run; the ring is {rings:?}", running.len());
    assert_eq!(rings.len(), 1, "all routers see one ring");
    assert_eq!(rings.first().unwrap().1, ["collectord-1", "collectord-2", "collectord-3"]);
    for router in 0..lab.routers().len() {
        let document = lab.ask(router, "/v1/tasks");
        assert_eq!(document["complete"], true, "{}", document["missing"]);
        let fresh = items(&document, "tasks").into_iter().filter(|task| task["state"] == "running");
        let fresh: BTreeSet<String> = fresh.map(|task| text(&task, "id").to_owned()).collect();
        assert_eq!(fresh, running, "router {}", router + 1);
    }
}
