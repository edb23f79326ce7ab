//! The shipper binary and its collectors: what each does when the others freeze, die, come and go.

use crate::engine::{FakeEngine, many};
use crate::rig::{Daemon, Folder, free_address, get, series, until};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

const N_TASKS: usize = 16;

struct Swarm {
    folder: Folder,
    collectors: Vec<Daemon>,
    shipper: Daemon,
    _engine: FakeEngine,
}

impl Swarm {
    /// Two collectors, and a shipper of a fake engine; all watch one file, which lists so many of the two.
    async fn start(listed: usize) -> Swarm {
        let (folder, engine) = (Folder::new(), FakeEngine::start(many(N_TASKS)));
        let addresses = [free_address(), free_address()];
        let path = folder.write("members.yaml", &list(&addresses[..listed]));
        let members = format!("members: {{file: '{}'}}", path.display());
        let mut collectors = Vec::new();
        for (id, address) in ["c1", "c2"].into_iter().zip(addresses) {
            collectors.push(Daemon::collectord_at(id, address, &members).await);
        }
        let shipper = Daemon::shipper(&engine.socket, &format!("interval: 200ms\n{members}")).await;
        Swarm { folder, collectors, shipper, _engine: engine }
    }
    fn set_members(&self, listed: usize) {
        let addresses: Vec<SocketAddr> = self.collectors[..listed].iter().map(|daemon| daemon.api).collect();
        self.folder.write("members.yaml", &list(&addresses));
    }
    /// The fresh tasks that a collector holds itself.
    async fn fresh(&self, collector: usize) -> BTreeSet<String> {
        let json = get(self.collectors[collector].api, "/v1/tasks?scope=local").await.json();
        let tasks = json["tasks"].as_array().unwrap().iter().filter(|task| task["tasks"]["fresh"] == 1);
        tasks.map(|task| task["id"].as_str().unwrap().into()).collect()
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    ["c1", "c2"].iter().zip(addresses).map(|(id, address)| format!("- {{id: {id}, addr: '{address}'}}\n")).collect()
}

#[tokio::test]
async fn a_shipper_follows_the_members_file() {
    let swarm = Swarm::start(1).await;
    until("the one collector has all tasks", async || swarm.fresh(0).await.len() == N_TASKS).await;
    swarm.set_members(2);
    until("both have some, together all", async || {
        let (one, two) = (swarm.fresh(0).await, swarm.fresh(1).await);
        !one.is_empty() && !two.is_empty() && one.is_disjoint(&two) && one.len() + two.len() == N_TASKS
    })
    .await;
    until("both routers answer for all", async || {
        let mut all = true;
        for collector in &swarm.collectors {
            let json = get(collector.api, "/v1/services/web").await.json();
            all &= json["complete"] == true && json["services"][0]["tasks"]["fresh"] == N_TASKS;
        }
        all
    })
    .await;
    swarm.set_members(1);
    until("the one has all again", async || swarm.fresh(0).await.len() == N_TASKS && swarm.fresh(1).await.is_empty())
        .await;
    let own = swarm.shipper.metrics;
    assert!(series(own, "swarmstats_shipper_moves_total").await >= Some(1.0));
    // Nobody scrapes the one that left: it is owed to for a while, and then gone with all that was told of it.
    get(swarm.collectors[1].metrics, "/metrics").await;
    until("the other has no series any more", async || !get(own, "/metrics").await.body.contains("member=\"c2\""))
        .await;
    assert_eq!(series(own, "swarmstats_shipper_streams").await, Some(1.0));
    assert!(series(own, "swarmstats_shipper_batches_acked_total{member=\"c1\"}").await > Some(0.0));
}

#[tokio::test]
async fn a_frozen_collector_delays_no_other_and_a_dead_shipper_leaves_stale_tasks() {
    let mut swarm = Swarm::start(2).await;
    until("all tasks are fresh", async || swarm.fresh(0).await.len() + swarm.fresh(1).await.len() == N_TASKS).await;
    let (one, two) = (swarm.fresh(0).await, swarm.fresh(1).await);
    swarm.collectors[1].signal(Signal::STOP);
    // Ten intervals: what had waited for the frozen one would be stale by now (3 intervals + 1 s).
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(swarm.fresh(0).await, one);
    swarm.collectors[1].signal(Signal::CONT);
    until("the thawed one is fresh again", async || swarm.fresh(1).await == two).await;

    swarm.shipper.kill();
    until("no task is fresh", async || swarm.fresh(0).await.is_empty() && swarm.fresh(1).await.is_empty()).await;
    let json = get(swarm.collectors[0].api, "/v1/services/web").await.json();
    assert_eq!(
        json["services"][0]["tasks"],
        serde_json::json!({"fresh": 0, "known": N_TASKS, "desired": null}),
        "{json}"
    );
    assert_eq!(json["complete"], false, "{json}");
}
