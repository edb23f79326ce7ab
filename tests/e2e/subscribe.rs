//! GetStats through a router of three members.

use crate::peers::{Raw, block, first_batch, intro};
use crate::rig::{Daemon, free_address, get, member, series, until};
use crate::scripted::{Scripted, address, figures};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use swarmstats::grpc;
use swarmstats::wire::pb::{self, get_stats_response::Message};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

/// Collectords c1, c2, … of one ring.
pub(crate) async fn ring(n: usize, more: &str) -> (Vec<Daemon>, Vec<(&'static str, SocketAddr)>) {
    let ids = ["c1", "c2", "c3"];
    let members: Vec<_> = ids.iter().take(n).map(|id| (*id, free_address())).collect();
    let list: Vec<String> = members.iter().map(|(id, addr)| format!("{{id: {id}, addr: '{addr}'}}")).collect();
    let more = format!("members: {{static: [{}]}}\n{more}", list.join(", "));
    let mut daemons = Vec::new();
    for (id, api) in &members {
        daemons.push(Daemon::collectord_at(id, *api, &more).await);
    }
    for daemon in &daemons {
        knows_a_ring(daemon).await;
    }
    (daemons, members)
}

/// It answers a moment before it has made its ring.
pub(crate) async fn knows_a_ring(daemon: &Daemon) {
    until("it knows a ring", async || get(daemon.api, "/v1/ring").await.status == 200).await;
}

struct Subscriber {
    requests: mpsc::Sender<pb::GetStatsRequest>,
    answers: Streaming<pb::GetStatsResponse>,
}

fn service(name: &str) -> pb::Selector {
    pb::Selector { service: name.into(), ..Default::default() }
}

impl Subscriber {
    async fn connect(router: SocketAddr) -> Subscriber {
        let (requests, stream) = mpsc::channel(8);
        let mut client = pb::query_client::QueryClient::new(grpc::connect(&address(router)).await.unwrap());
        let answers = client.get_stats(ReceiverStream::new(stream)).await.unwrap().into_inner();
        Subscriber { requests, answers }
    }
    async fn add(&self, id: u64, selectors: Vec<pb::Selector>, interval_ms: u64, scope: pb::Scope) {
        let added = pb::Subscription { id, selectors, interval_ms, scope: scope.into(), ..pb::Subscription::default() };
        self.requests.send(pb::GetStatsRequest { add: vec![added], remove: vec![] }).await.unwrap();
    }
    async fn remove(&self, id: u64) {
        self.requests.send(pb::GetStatsRequest { add: vec![], remove: vec![id] }).await.unwrap();
    }
    async fn next(&mut self) -> pb::GetStatsResponse {
        timeout(Duration::from_secs(10), self.answers.message()).await.unwrap().unwrap().unwrap()
    }
    async fn snapshot(&mut self) -> (u64, pb::Snapshot) {
        let answer = self.next().await;
        match answer.message.unwrap() {
            Message::Snapshot(snapshot) => (answer.id, snapshot),
            Message::Error(error) => panic!("{error}"),
        }
    }
    async fn error(&mut self) -> (String, bool) {
        let answer = self.next().await;
        match answer.message.unwrap() {
            Message::Error(error) => (error, answer.done),
            Message::Snapshot(_) => panic!("an answer where an error was expected"),
        }
    }
}

fn tasks(snapshot: &pb::Snapshot) -> BTreeSet<String> {
    snapshot.tasks.iter().map(|task| task.meta.as_ref().unwrap().task_id.clone()).collect()
}

fn ids(service: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{service}{i:04}")).collect()
}

#[tokio::test]
async fn subscriptions_are_added_pushed_and_removed_through_any_router() {
    let (_daemons, members) = ring(3, "").await;
    let mut shipper = Scripted::new("node-1", &members);
    for id in ids("web", 12) {
        shipper.run("web", &id, figures(1, 1));
    }
    shipper.run("db", "dbdb0", figures(1, 1));
    shipper.settle().await;

    let mut subscriber = Subscriber::connect(members[1].1).await;
    subscriber.add(1, vec![service("web")], 300, pb::Scope::Cluster).await;
    let (id, first) = subscriber.snapshot().await;
    assert_eq!((id, first.complete), (1, true), "{:?}", first.missing);
    assert_eq!(tasks(&first), ids("web", 12).into_iter().collect());

    // Pushes come at the asked interval: 10 intervals, give or take one and a half for a busy machine.
    let begun = Instant::now();
    for _ in 0..10 {
        assert_eq!(subscriber.snapshot().await.0, 1);
    }
    let took = begun.elapsed();
    assert!((Duration::from_millis(2_550)..Duration::from_millis(3_900)).contains(&took), "10 × 300 ms took {took:?}");

    // A new task appears by itself.
    shipper.run("web", "web9999", figures(1, 1));
    shipper.settle().await;
    let begun = Instant::now();
    while !tasks(&subscriber.snapshot().await.1).contains("web9999") {
        assert!(begun.elapsed() < Duration::from_secs(3));
    }

    // A second one beside it, which is a union; then the first is removed and never heard of again.
    subscriber.add(2, vec![service("db"), service("id-of-web")], 200, pb::Scope::Cluster).await;
    let begun = Instant::now();
    let union = loop {
        let (id, snapshot) = subscriber.snapshot().await;
        if id == 2 {
            break snapshot;
        }
        assert!(begun.elapsed() < Duration::from_secs(3));
    };
    assert_eq!(tasks(&union).len(), 14);
    subscriber.remove(1).await;
    subscriber.add(3, vec![service("db")], 0, pb::Scope::Cluster).await;
    while subscriber.snapshot().await.0 != 3 {} // what comes after this was made after the removal
    for _ in 0..5 {
        assert_eq!(subscriber.snapshot().await.0, 2);
    }
    subscriber.remove(2).await;
    subscriber.add(4, vec![service("db")], 0, pb::Scope::Cluster).await;
    let last = loop {
        let answer = subscriber.next().await;
        if answer.id == 4 {
            break answer;
        }
    };
    assert!(last.done, "interval 0 is answered once");
    let silence = timeout(Duration::from_millis(700), subscriber.answers.message()).await;
    assert!(silence.is_err(), "pushed after the removal: {silence:?}");
}

#[tokio::test]
async fn scope_local_is_what_one_process_holds() {
    let (_daemons, members) = ring(3, "").await;
    let mut shipper = Scripted::new("node-1", &members);
    for id in ids("web", 30) {
        shipper.run("web", &id, figures(1, 1));
    }
    shipper.settle().await;
    let mut all = BTreeSet::new();
    for (id, address) in &members {
        let mut subscriber = Subscriber::connect(*address).await;
        subscriber.add(1, vec![service("web")], 0, pb::Scope::Local).await;
        let answer = subscriber.next().await;
        assert!(answer.done);
        let Some(Message::Snapshot(snapshot)) = answer.message else { panic!("no snapshot") };
        assert_eq!(snapshot.member, *id);
        let owned = |task: &String| {
            let key = swarmstats::model::Key::Task(swarmstats::model::TaskId::new(task).unwrap());
            *shipper.ring().primary(&key) == member(id)
        };
        // The ring's owner is the collector that holds it.
        assert!(tasks(&snapshot).iter().all(owned));
        all.extend(tasks(&snapshot));
    }
    assert_eq!(all, ids("web", 30).into_iter().collect());
}

#[tokio::test]
async fn what_is_no_subscription_is_refused_with_a_remedy_and_the_others_go_on() {
    let daemon = Daemon::collectord("c1", "limits: {max_subscriptions: 2}").await;
    let mut shipper = Scripted::new("node-1", &[("c1", daemon.api)]);
    shipper.run("web", "web1", figures(1, 1));
    shipper.settle().await;
    let mut subscriber = Subscriber::connect(daemon.api).await;
    let cluster = pb::Scope::Cluster;
    subscriber.add(1, vec![], 1000, cluster).await;
    assert_eq!(
        subscriber.error().await,
        ("the message has no selector that names something (say `all` to mean everything)".into(), true)
    );
    subscriber.add(1, vec![service("web"), pb::Selector::default()], 1000, cluster).await;
    assert!(subscriber.error().await.0.contains("say `all`"));
    for interval in [1, 99, 86_400_001, u64::MAX] {
        subscriber.add(1, vec![service("web")], interval, cluster).await;
        let refused = format!("an interval of {interval} ms: give 0 to be answered once, or 100 to 86400000");
        assert_eq!(subscriber.error().await, (refused, true));
    }
    subscriber.add(1, vec![service(&"x".repeat(300))], 1000, cluster).await;
    assert_eq!(subscriber.error().await.0, "the service has 300 entries or bytes, 255 are allowed");
    for id in [1, 2, 3] {
        subscriber.add(id, vec![service("web")], 60_000, cluster).await;
    }
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push(subscriber.next().await);
    }
    answers.sort_by_key(|answer| answer.id);
    assert!(answers[..2].iter().all(|answer| matches!(answer.message, Some(Message::Snapshot(_)))));
    let Some(Message::Error(refused)) = &answers[2].message else { panic!("three of two were taken") };
    assert_eq!(refused, "2 subscriptions are open on this stream: remove one first");
    let counter = r#"swarmstats_bound_refusals_total{bound="max_subscriptions"}"#;
    assert_eq!(series(daemon.metrics, counter).await, Some(1.0));
}

#[tokio::test]
async fn an_answer_under_way_is_not_sent_after_its_removal() {
    let (daemons, members) = ring(2, "query_deadline: 1s").await;
    // Every question to the whole cluster takes its full deadline.
    daemons[1].signal(rustix::process::Signal::STOP);
    let mut subscriber = Subscriber::connect(members[0].1).await;
    subscriber.add(1, vec![service("web")], 300, pb::Scope::Cluster).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    subscriber.remove(1).await;
    subscriber.add(2, vec![service("web")], 0, pb::Scope::Local).await;
    assert_eq!(subscriber.next().await.id, 2);
    assert!(timeout(Duration::from_millis(1500), subscriber.answers.message()).await.is_err());
}

#[tokio::test]
async fn the_health_api_and_the_other_calls_answer() {
    let daemon = Daemon::collectord("c1", "").await;
    let channel = grpc::connect(&address(daemon.api)).await.unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
    let answer = health.check(tonic_health::pb::HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(answer.status(), tonic_health::pb::health_check_response::ServingStatus::Serving);
    let mut client = pb::query_client::QueryClient::new(channel);
    assert_eq!(client.get_metrics(pb::GetMetricsRequest::default()).await.unwrap_err().code(), Code::InvalidArgument);
    let all = pb::GetMetricsRequest { selectors: vec![pb::Selector { all: true, ..pb::Selector::default() }] };
    let nothing = client.get_metrics(all).await.unwrap().into_inner();
    assert_eq!((nothing.families.len(), nothing.complete), (0, true));
    let who = client.identify(pb::IdentifyRequest {}).await.unwrap().into_inner();
    assert_eq!((who.member.as_str(), who.replicas, who.hash_version), ("c1", 1, 1));
    assert_eq!(who.roles, ["collector", "router"]);
}

#[tokio::test]
async fn a_label_finds_tasks_of_other_members_though_labels_are_left_out_of_the_answer() {
    let (_daemons, members) = ring(2, "").await;
    let mut shipper = Raw::greeted(members[1].1, "n1", 1).await;
    let mut intro = intro(0, "n1", "labelled0001");
    if let Some(pb::intro::Subject::Task(meta)) = &mut intro.subject {
        meta.labels = [("tier".to_string(), "front".to_string())].into();
    }
    shipper.batch(first_batch(1, vec![intro], block(&[1, 2, 3]))).await;
    shipper.answer().await.unwrap();
    let mut subscriber = Subscriber::connect(members[0].1).await;
    let labels = [("tier".to_string(), "front".to_string())].into();
    let added = pb::Subscription {
        id: 1,
        selectors: vec![pb::Selector { labels, ..pb::Selector::default() }],
        interval_ms: 300,
        texts: pb::Texts::Groups.into(),
        ..pb::Subscription::default()
    };
    subscriber.requests.send(pb::GetStatsRequest { add: vec![added], remove: vec![] }).await.unwrap();
    let (_, snapshot) = subscriber.snapshot().await;
    assert_eq!(tasks(&snapshot), ["labelled0001".to_string()].into());
    assert!(snapshot.tasks[0].meta.as_ref().unwrap().labels.is_empty());
}
