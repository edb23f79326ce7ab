//! A real swarm of one node: dockerd of this test's own, real tasks, a real shipper and collectord.

use crate::engine::Engine;
use crate::fixture::{Found, NOWHERE, doctor};
use crate::rig::{Daemon, get, until};
use std::path::Path;

struct Swarm {
    engine: Engine,
    router: Daemon,
}

impl Swarm {
    async fn doctor(&self, shippers: &[&Daemon], name: &str) -> Found {
        let mut line = format!("--engine unix://{} --host http://{}", self.engine.socket(), self.router.api);
        for shipper in shippers {
            line += &format!(" --shipper http://{}", shipper.api);
        }
        if shippers.is_empty() {
            line += &format!(" --shipper {NOWHERE}");
        }
        doctor(&format!("{line} {name}")).await
    }
    async fn shipper(&self) -> Daemon {
        let members = format!("interval: 200ms\nmembers: {{static: [{{id: c1, addr: '{}'}}]}}", self.router.api);
        Daemon::shipper(Path::new(&self.engine.socket()), &members).await
    }
    fn service(&self, name: &str, more: &str) {
        let host = "--detach --no-resolve-image --network host";
        self.engine.docker(&format!("service create {host} --name {name} {more} busybox sleep 1000"));
    }
}

/// One test, for it has one engine.
#[tokio::test]
async fn a_task_is_followed_from_swarm_to_the_screen() {
    let swarm = Swarm { engine: Engine::start_manager(), router: Daemon::collectord("c1", "").await };
    swarm.engine.docker("swarm leave --force");
    swarm.doctor(&[], "").await.names("no_swarm", "warn", &["in no swarm"]);
    swarm.engine.docker("swarm init --advertise-addr 127.0.0.1 --listen-addr 127.0.0.1:2377");

    swarm.service("web", "--replicas 2");
    swarm.service("nowhere", "--constraint node.labels.no==such");
    // Its containers run a moment before Swarm knows.
    let states = "service ps web --format {{.CurrentState}}";
    let running = || swarm.engine.docker(states).lines().filter(|line| line.starts_with("Running")).count() == 2;
    until("both tasks run", async || running()).await;

    let found = swarm.doctor(&[], "web").await;
    found.names("node_never", "fail", &["never reported"]);
    found.names("shipper_absent", "fail", &["no shipper answers on this node"]);
    found.names("task_no_shipper", "fail", &["web.1", "never reported"]);

    let mut shipper = swarm.shipper().await;
    until("the router shows both", async || {
        get(swarm.router.api, "/v1/services/web").await.json()["services"][0]["tasks"]["fresh"] == 2
    })
    .await;
    let found = swarm.doctor(&[&shipper], "web").await;
    for code in ["engine", "swarm", "router", "ring", "nodes", "shipper", "clocks", "metrics", "task"] {
        let finding = found.of(code).unwrap_or_else(|| panic!("no {code} in {:#?}", found.findings));
        assert_eq!(finding["severity"], "ok", "{finding:#}");
    }
    assert_eq!(found.code, 0, "{:#?}", found.findings);
    assert_eq!(found.findings.iter().filter(|finding| finding["code"] == "task").count(), 2);
    let by_slot = swarm.doctor(&[&shipper], "web.2").await;
    let shown = by_slot.of("task").unwrap_or_else(|| panic!("{:#?}", by_slot.findings));
    assert!(shown["what"].as_str().unwrap().contains("web.2"), "{shown:#}");

    swarm.doctor(&[&shipper], "nosuch").await.names("task_unknown", "fail", &["nosuch"]);
    let found = swarm.doctor(&[&shipper], "nowhere").await;
    found.names("task_unscheduled", "fail", &["nowhere.1", "no suitable node"]);
    found.lacks("task_no_shipper");

    // Another shipper of the same node; of the two, one gives up within a minute.
    let second = swarm.shipper().await;
    until("the second knows its node", async || get(second.api, "/readyz").await.status == 200).await;
    swarm.doctor(&[&shipper, &second], "").await.names("two_shippers", "fail", &[&second.api.to_string()]);
    drop(second);

    shipper.kill();
    until("the node is silent", async || {
        // No task is listed where the second shipper was heard last, and had not read them yet.
        let said = get(swarm.router.api, "/v1/services/web").await.json();
        said["missing"][0]["what"].is_string() && said["services"][0]["tasks"]["fresh"].as_u64().unwrap_or(0) == 0
    })
    .await;
    let found = swarm.doctor(&[&shipper], "web").await;
    found.names("node_silent", "fail", &["has sent nothing"]);
    found.names("shipper_absent", "fail", &["refused"]);
    found.names("task_shipper_silent", "fail", &["web.1"]);
}
