//! SIGTERM: no new streams, the query under way is finished, Bye on every stream, and gone within 8 s with exit code 0.

use crate::peers::Raw;
use crate::rig::{Daemon, Folder, get, member, try_get};
use crate::scripted::{Scripted, address, figures};
use crate::subscribe::ring;
use rustix::process::Signal;
use std::time::{Duration, Instant};
use swarmstats::grpc;
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
