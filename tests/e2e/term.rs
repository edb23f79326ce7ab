//! SIGTERM: not ready, hands over while it goes on answering, Bye on every stream, and gone within 8 s with exit code 0.

use crate::engine::{FakeEngine, many};
use crate::peers::Raw;
use crate::rig::{Daemon, Folder, get, member, series, try_get, until};
use crate::scripted::{Scripted, address, figures};
use crate::subscribe::ring;
use rustix::process::Signal;
use std::time::{Duration, Instant};
use swarmstats::grpc;
use swarmstats::view::MemberState;
use swarmstats::wire::Answer;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;

#[tokio::test]
async fn sigterm_ends_a_collector_in_an_orderly_way() {
    let (mut daemons, members) = ring(2, "query_deadline: 1500ms").await;
    let mut shipper = Scripted::new("node-1", &members);
    for i in 0..10 {
        shipper.run("web", &format!("task{i:04}"), figures(1, 1));
    }
    shipper.settle().await;
    let channel = grpc::connect(&address(members[0].1)).await.unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
    let mut watched = health.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);

    // A query that takes its whole deadline, for the other member is frozen.
    daemons[1].signal(Signal::STOP);
    let api = members[0].1;
    let query = tokio::spawn(async move { get(api, "/v1/tasks").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    daemons[0].signal(Signal::TERM);
    assert!(matches!(shipper.hear(&member("c1")).await.unwrap(), Answer::Bye(_)));
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    // Nobody new is let in, by whatever way: the listener is closed, or the stream refused.
    let refused = tokio::time::timeout(Duration::from_secs(3), Raw::try_open(api)).await.unwrap();
    // Unavailable, or Unknown where the connection broke before an answer.
    let code = refused.err().map(|status| status.code());
    assert!(matches!(code, Some(tonic::Code::Unavailable | tonic::Code::Unknown)), "{code:?}");
    let answer = query.await.unwrap();
    assert_eq!(answer.status, 200);
    assert!(
        answer.json()["missing"].as_array().unwrap().iter().any(|part| part["what"] == "member c2"),
        "{}",
        answer.body
    );
    let (status, said) = daemons[0].ended(Duration::from_secs(8).saturating_sub(begun.elapsed())).await;
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("collectord has left") && !said.contains("panicked"), "{said}");
    println!("gone after {:?}", begun.elapsed());
    assert!(try_get(api, "/healthz").await.is_none());
}

#[tokio::test]
async fn an_open_subscription_and_an_idle_connection_do_not_hold_it_up() {
    let (mut daemons, members) = ring(1, "").await;
    let _idle = tokio::net::TcpStream::connect(members[0].1).await.unwrap();
    let mut client =
        swarmstats::wire::pb::query_client::QueryClient::new(grpc::connect(&address(members[0].1)).await.unwrap());
    let (requests, stream) = tokio::sync::mpsc::channel(1);
    let stream = tokio_stream::wrappers::ReceiverStream::new(stream);
    let _answers = client.get_stats(stream).await.unwrap();
    let begun = Instant::now();
    daemons[0].signal(Signal::TERM);
    let (status, said) = daemons[0].ended(Duration::from_secs(8)).await;
    assert_eq!(status.code(), Some(0), "{said}");
    println!("gone after {:?}", begun.elapsed());
    drop(requests);
}

#[tokio::test]
async fn a_members_file_that_hangs_does_not_hold_it_up() {
    // Nobody writes to this pipe: opening it never ends.
    let folder = Folder::new();
    let pipe = folder.0.join("members.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut daemon = Daemon::collectord("c1", &format!("members: {{file: {}}}", pipe.display())).await;
    daemon.signal(Signal::TERM);
    let (status, said) = daemon.ended(Duration::from_secs(8)).await;
    assert_eq!(status.code(), Some(0), "{said}");
}

/// How a leaving collector stands: seconds since the signal, its readiness, what it calls itself, and whether a query and
/// a scrape were answered; `None` once nobody answers.
async fn stands(daemon: &Daemon, begun: Instant) -> Option<(f64, u16, MemberState, u16, u16)> {
    let ready = try_get(daemon.api, "/readyz").await?.status;
    let identity = grpc::identify(address(daemon.api)).await.ok()?;
    let query = try_get(daemon.api, "/v1/tasks?scope=local").await?.status;
    let scrape = try_get(daemon.metrics, "/metrics").await?.status;
    Some((begun.elapsed().as_secs_f64(), ready, identity.standing.state, query, scrape))
}

#[tokio::test]
async fn a_collector_hands_over_before_it_leaves_and_answers_meanwhile() {
    const N: usize = 16;
    let (mut daemons, members) = ring(2, "").await;
    let engine = FakeEngine::start(many(N));
    let list: Vec<_> = members.iter().map(|(id, addr)| format!("{{id: {id}, addr: '{addr}'}}")).collect();
    let config = format!("interval: 200ms\ntakeover_after: 1500ms\nmembers: {{static: [{}]}}", list.join(", "));
    let shipper = Daemon::shipper(&engine.socket, &config).await;
    let emitted = async |i: usize| grpc::identify(address(members[i].1)).await.map_or(0, |who| who.standing.emitted);
    until("both show some", async || {
        let (one, two) = (emitted(0).await, emitted(1).await);
        one > 0 && two > 0 && one + two == N as u64
    })
    .await;

    let begun = Instant::now();
    daemons[0].signal(Signal::TERM);
    until("it is not ready", async || get(members[0].1, "/readyz").await.status == 503).await;
    let mut seen = Vec::new();
    let mut whole = Vec::new();
    while daemons[0].is_running() {
        seen.extend(stands(&daemons[0], begun).await);
        let answer = get(members[1].1, "/v1/services/web").await.json();
        whole.push((answer["complete"].clone(), answer["services"][0]["tasks"]["fresh"].clone()));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(begun.elapsed() < Duration::from_secs(8), "still there: {seen:?}");
    }
    let gone = begun.elapsed();
    assert_eq!(emitted(1).await, N as u64, "the other shows everything when it is gone");
    let (status, said) = daemons[0].ended(Duration::from_secs(1)).await;
    println!("gone after {gone:?}, looked {} times", seen.len());
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("collectord has left") && !said.contains("in time"), "{said}");
    // Two seconds without a role, and less than the six that handing over may take.
    assert!((Duration::from_secs(2)..Duration::from_millis(5500)).contains(&gone), "{gone:?}");
    assert!(seen.len() >= 5, "{seen:?}");
    let (until_bye, after) = seen.split_at(seen.iter().take_while(|seen| seen.4 == 200).count());
    assert!(until_bye.last().is_some_and(|seen| seen.0 > 1.5), "{seen:?}");
    for (_, ready, state, query, _) in until_bye {
        assert_eq!((*ready, *state, *query), (503, MemberState::Draining, 200), "{seen:?}");
    }
    assert!(after.iter().all(|seen| seen.4 == 503), "no scrape once Bye is near: {seen:?}");
    let lacking = whole.iter().filter(|(complete, fresh)| *complete != true || *fresh != N).count();
    assert_eq!(lacking, 0, "a query lacked something while the other left: {whole:?}");
    let late = "swarmstats_shipper_batches_unacknowledged_total{member=\"c1\"}";
    assert_eq!(series(shipper.metrics, late).await, None);
}

/// The oldest and newest point of each task that one member has itself, in seconds before now, and how many there are.
async fn points(member: &Daemon) -> Vec<(String, f64, usize)> {
    let json = get(member.api, "/v1/tasks?points=100&scope=local&stats=docker").await.json();
    let of = |task: &serde_json::Value| {
        let points = task["points"].as_array().unwrap();
        let oldest = points.iter().map(|point| point["seconds_before"].as_f64().unwrap()).fold(0.0, f64::max);
        (task["id"].as_str().unwrap().to_owned(), oldest + task["age_seconds"].as_f64().unwrap(), points.len())
    };
    json["tasks"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn where_the_only_copy_leaves_the_next_one_has_the_older_points() {
    const N: usize = 16;
    let (mut daemons, members) = ring(2, "points: 100\n").await;
    let engine = FakeEngine::start(many(N));
    let list: Vec<_> = members.iter().map(|(id, addr)| format!("{{id: {id}, addr: '{addr}'}}")).collect();
    let config = format!("interval: 200ms\ntakeover_after: 1500ms\nmembers: {{static: [{}]}}", list.join(", "));
    let _shipper = Daemon::shipper(&engine.socket, &config).await;
    until("all have points of three seconds", async || {
        let (one, two) = (points(&daemons[0]).await, points(&daemons[1]).await);
        !two.is_empty() && one.len() + two.len() == N && one.iter().chain(&two).all(|(_, oldest, _)| *oldest > 3.0)
    })
    .await;
    let moved: Vec<_> = points(&daemons[0]).await.into_iter().map(|(id, ..)| id).collect();
    assert!(!moved.is_empty());
    let told = Instant::now();
    daemons[0].signal(Signal::TERM);
    let (status, said) = daemons[0].ended(Duration::from_secs(8)).await;
    assert_eq!(status.code(), Some(0), "{said}");
    let since = told.elapsed().as_secs_f64();
    let (there, taken) = (points(&daemons[1]).await, "swarmstats_collector_tasks_inherited_total");
    assert_eq!(there.len(), N);
    let most = there.iter().map(|(.., n)| *n).max().unwrap();
    for (id, oldest, n) in &there {
        assert!(*oldest > since + 2.5, "{id} is known for {oldest} s only: {said}");
        // Of rounds that one of them was not told of there is none.
        assert!(n + 3 >= most, "{id} has {n} points, another {most}");
    }
    assert_eq!(series(daemons[1].metrics, taken).await, Some(moved.len() as f64), "{said}");
}

#[tokio::test]
async fn bye_says_what_was_scraped_to_every_stream_and_no_scrape_follows() {
    let (mut daemons, members) = ring(2, "").await;
    let (c1, c2) = (member("c1"), member("c2"));
    let mut shippers = ["node-1", "node-2"].map(|node| Scripted::new(node, &members));
    for shipper in &mut shippers {
        for i in 0..10 {
            shipper.run("web", &format!("task{i:04}-of-{}", shipper.node), figures(1, 1));
        }
        shipper.settle().await;
    }
    let begun = Instant::now();
    daemons[0].signal(Signal::TERM);
    until("it is not ready", async || get(members[0].1, "/readyz").await.status == 503).await;
    // An ack says that it drains; then role 0 is told; then the other is granted, and the old one may drop.
    for shipper in &mut shippers {
        for _ in 0..4 {
            shipper.round().await;
        }
        let draining = shipper.outbox.peers(swarmstats::clock::monotonic()).into_iter().find(|peer| peer.member == c1);
        assert!(draining.is_some_and(|peer| peer.draining));
    }
    // A shipper that comes now settles what it owes on a stream of its own.
    let late = Raw::greeted(members[0].1, "node-3", 1).await;
    assert_eq!(get(daemons[0].metrics, "/metrics").await.status, 200);
    for shipper in &mut shippers {
        shipper.observe();
        shipper.tell(&c1).await.unwrap();
    }
    for shipper in &mut shippers {
        let Answer::Bye(bye) = shipper.hear(&c1).await.unwrap() else { panic!("no bye") };
        assert!(bye.exposed > 0, "{bye:?}");
    }
    let page = try_get(daemons[0].metrics, "/metrics").await;
    assert!(page.is_none_or(|page| page.status != 200), "shown after Bye");
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    for shipper in &mut shippers {
        shipper.observe();
        shipper.tell(&c2).await.unwrap();
    }
    drop(late);
    let (status, said) = daemons[0].ended(Duration::from_secs(8).saturating_sub(begun.elapsed())).await;
    assert_eq!(status.code(), Some(0), "{said}");
}

#[tokio::test]
async fn the_only_member_does_not_wait_for_anybody_to_take_over() {
    let (mut daemons, members) = ring(1, "").await;
    let mut shipper = Scripted::new("node-1", &members);
    shipper.run("web", "task0001", figures(1, 1));
    shipper.settle().await;
    let begun = Instant::now();
    daemons[0].signal(Signal::TERM);
    assert!(matches!(shipper.hear(&member("c1")).await.unwrap(), Answer::Bye(_)));
    daemons[0].ended(Duration::from_secs(8)).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (mut daemons, members) = ring(2, "").await;
    let mut shipper = Scripted::new("node-1", &members);
    for i in 0..10 {
        shipper.run("web", &format!("task{i:04}"), figures(1, 1));
    }
    shipper.settle().await; // and never hands over
    daemons[0].signal(Signal::TERM);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(daemons[0].is_running(), "it waits for its roles to be taken over");
    let begun = Instant::now();
    daemons[0].signal(Signal::INT);
    let (status, said) = daemons[0].ended(Duration::from_secs(2)).await;
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("a second signal") && begun.elapsed() < Duration::from_secs(1), "{said}");
}

#[tokio::test]
async fn after_a_bye_that_no_ack_announced_the_others_have_its_keys() {
    let (daemons, members) = ring(2, "").await;
    let (c1, c2) = (member("c1"), member("c2"));
    let mut shipper = Scripted::new("node-1", &members);
    for i in 0..10 {
        shipper.run("web", &format!("task{i:04}"), figures(1, 1));
    }
    shipper.settle().await;
    let held = async || {
        let json = get(members[1].1, "/v1/tasks?scope=local").await.json();
        json["tasks"].as_array().unwrap().len()
    };
    assert!(held().await < 10);
    // It says nothing until the collector has given up waiting: no ack could say that it drains.
    daemons[0].signal(Signal::TERM);
    assert!(matches!(shipper.hear(&c1).await.unwrap(), Answer::Bye(_)));
    for _ in 0..2 {
        shipper.observe();
        shipper.tell(&c2).await.unwrap();
    }
    assert_eq!(held().await, 10, "with one copy too, whatever the ring says of the one that left");
}

#[tokio::test]
async fn a_frozen_shipper_does_not_hold_it_up_longer_than_its_roles_last() {
    let (mut daemons, members) = ring(2, "replicas: 2").await;
    let engine = FakeEngine::start(many(16));
    let list: Vec<_> = members.iter().map(|(id, addr)| format!("{{id: {id}, addr: '{addr}'}}")).collect();
    let config =
        format!("replicas: 2\ninterval: 200ms\ntakeover_after: 1500ms\nmembers: {{static: [{}]}}", list.join(", "));
    let shipper = Daemon::shipper(&engine.socket, &config).await;
    let roles = async || series(daemons[0].metrics, "swarmstats_collector_roles").await;
    until("it shows something", async || roles().await >= Some(1.0)).await;
    shipper.signal(Signal::STOP);
    let begun = Instant::now();
    daemons[0].signal(Signal::TERM);
    let (status, said) = daemons[0].ended(Duration::from_secs(8)).await;
    println!("gone after {:?}", begun.elapsed());
    assert_eq!(status.code(), Some(0), "{said}");
    // Its leases end 1.5 s after its last word; then two seconds without a role, and the servers' end.
    assert!((2.0..6.0).contains(&begun.elapsed().as_secs_f64()) && !said.contains("could not hand over"), "{said}");
    shipper.signal(Signal::CONT);
    // The other copy is granted what the dead one had: by its Bye, or by its silence where that was lost with the socket.
    let other = daemons[1].metrics;
    until("the other shows all", async || {
        let page = get(other, "/metrics").await.body;
        page.matches("\nswarmstats_task_info{").count() == 16
    })
    .await;
}
