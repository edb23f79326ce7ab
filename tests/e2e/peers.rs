//! Peers of other versions and settings: raw protobuf, blocks written by hand from the format's description.

use crate::rig::{Daemon, get, series};
use crate::scripted::address;
use std::net::SocketAddr;
use std::time::Duration;
use swarmstats::grpc;
use swarmstats::wire::pb::{self, update_stats_request, update_stats_response};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

/// A stream of raw messages.
pub(crate) struct Raw {
    requests: mpsc::Sender<pb::UpdateStatsRequest>,
    answers: Streaming<pb::UpdateStatsResponse>,
}

pub(crate) fn hello(node: &str, k: u64) -> pb::Hello {
    pb::Hello {
        node_id: node.into(),
        node_name: node.into(),
        epoch: 1_700_000_000_000,
        k,
        lease_ms: 60_000,
        interval_ms: 20_000,
        stats: vec![0, 3, 9],
        ring_id: 0,
        nonce: 1,
        replicas: 1,
        hash_version: 1,
    }
}

pub(crate) fn intro(handle: u32, node: &str, task: &str) -> pb::Intro {
    let meta = pb::TaskMeta {
        task_id: task.into(),
        task_name: format!("web.1.{task}"),
        service_id: "id-of-web".into(),
        service_name: "web".into(),
        node_id: node.into(),
        node_name: node.into(),
        container_id: "made-up".into(),
        ..Default::default()
    };
    pb::Intro { handle, subject: Some(pb::intro::Subject::Task(meta)) }
}

/// The first batch of a stream: its chain of checks begins with `k`.
pub(crate) fn first_batch(k: u64, intros: Vec<pb::Intro>, block: Vec<u8>) -> pb::Batch {
    pb::Batch { k, n: k, q: 1, monotonic_ns: 1_000_000_000, base: k, intros, block, ..Default::default() }
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// One entry for handle 0, new on its stream: every position present, each with its value, primary.
pub(crate) fn block(values: &[u64]) -> Vec<u8> {
    let mask = (1 << values.len()) - 1;
    let mut block = vec![1, 0b0100_0101]; // gap 0 with flags; values, presence, primary
    varint(mask, &mut block);
    varint(mask, &mut block);
    values.iter().for_each(|value| varint(value * 2, &mut block));
    block
}

impl Raw {
    pub(crate) async fn open(collector: SocketAddr) -> Raw {
        Raw::try_open(collector).await.unwrap()
    }
    pub(crate) async fn try_open(collector: SocketAddr) -> Result<Raw, Status> {
        let (requests, stream) = mpsc::channel(8);
        let channel = grpc::connect(&address(collector)).await.map_err(Status::unavailable)?;
        let mut client = pb::ingest_client::IngestClient::new(channel);
        let answers = client.update_stats(ReceiverStream::new(stream)).await?.into_inner();
        Ok(Raw { requests, answers })
    }
    pub(crate) async fn hello(&self, hello: pb::Hello) {
        let message = Some(update_stats_request::Message::Hello(hello));
        self.requests.send(pb::UpdateStatsRequest { message }).await.unwrap();
    }
    pub(crate) async fn batch(&self, batch: pb::Batch) {
        let message = Some(update_stats_request::Message::Batch(batch));
        self.requests.send(pb::UpdateStatsRequest { message }).await.unwrap();
    }
    pub(crate) async fn answer(&mut self) -> Result<update_stats_response::Message, Status> {
        let answer = timeout(Duration::from_secs(10), self.answers.message()).await.unwrap()?;
        Ok(answer.expect("the stream goes on").message.unwrap())
    }
    /// Says hello, and is greeted.
    pub(crate) async fn greeted(collector: SocketAddr, node: &str, k: u64) -> Raw {
        let mut raw = Raw::open(collector).await;
        raw.hello(hello(node, k)).await;
        assert!(matches!(raw.answer().await.unwrap(), update_stats_response::Message::Hi(_)));
        raw
    }
}

async fn stored(raw: &mut Raw) {
    assert!(matches!(raw.answer().await.unwrap(), update_stats_response::Message::Ack(_)));
}

/// What a collector makes of a peer with these stat numbers, whose values are (number, value).
async fn stats_of(daemon: &Daemon, node: &str, values: &[(u32, u64)]) -> serde_json::Value {
    let mut raw = Raw::open(daemon.api).await;
    raw.hello(pb::Hello { stats: values.iter().map(|(number, _)| *number).collect(), ..hello(node, 1) }).await;
    assert!(matches!(raw.answer().await.unwrap(), update_stats_response::Message::Hi(_)));
    let task = format!("task-of-{node}");
    let numbers: Vec<u64> = values.iter().map(|(_, value)| *value).collect();
    raw.batch(first_batch(1, vec![intro(0, node, &task)], block(&numbers))).await;
    stored(&mut raw).await;
    get(daemon.api, &format!("/v1/tasks/{task}?scope=local")).await.json()["tasks"][0]["stats"].clone()
}

#[tokio::test]
async fn a_peer_that_knows_more_or_fewer_stats_shifts_no_field() {
    let daemon = Daemon::collectord("c1", "").await;
    // 0 CPU time in ns, 3 memory used, 9 pids, 10 bytes read; 57 and 200 are of a version to come.
    for (node, values) in [
        ("same", &[(0, 2_500_000_000), (3, 4096), (9, 17), (10, 8192)][..]),
        ("one-more", &[(0, 2_500_000_000), (3, 4096), (57, 999_999), (9, 17), (10, 8192), (200, 1)]),
        ("other-order", &[(10, 8192), (9, 17), (200, 5), (3, 4096), (0, 2_500_000_000)]),
    ] {
        let stats = stats_of(&daemon, node, values).await;
        let shown =
            ["cpu_seconds_total", "memory_used_bytes", "pids", "block_read_bytes_total"].map(|name| &stats[name]);
        assert_eq!(shown, [&2.5.into(), &4096.into(), &17.into(), &serde_json::Value::from(8192)], "{node}: {stats}");
        let present = stats.as_object().unwrap().values().filter(|value| !value.is_null()).count();
        assert_eq!(present, 4, "{node}: {stats}");
    }
    let stats = stats_of(&daemon, "one-fewer", &[(0, 2_500_000_000), (9, 17), (10, 8192)]).await;
    assert!(stats["memory_used_bytes"].is_null() && stats["pids"] == 17 && stats["block_read_bytes_total"] == 8192);
}

#[tokio::test]
async fn other_replicas_or_another_hash_version_are_refused_loudly() {
    let daemon = Daemon::collectord("c1", "").await;
    let twice = vec![0, 3, 0];
    for (wrong, n_refused) in [
        (pb::Hello { replicas: 2, ..hello("node-1", 1) }, 1.0),
        (pb::Hello { hash_version: 9, ..hello("node-1", 1) }, 2.0),
        (pb::Hello { stats: twice, ..hello("node-1", 1) }, 3.0),
        (pb::Hello { stats: (0..80).collect(), ..hello("node-1", 1) }, 4.0),
    ] {
        let mut raw = Raw::open(daemon.api).await;
        raw.hello(wrong.clone()).await;
        let refused = raw.answer().await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused:?}");
        assert!(refused.message().contains("node-1"), "{refused:?}");
        let counter = r#"swarmstats_collector_hellos_refused_total{reason="incompatible"}"#;
        assert_eq!(series(daemon.metrics, counter).await, Some(n_refused));
    }
    let mut raw = Raw::open(daemon.api).await;
    raw.hello(pb::Hello { replicas: 2, ..hello("node-1", 1) }).await;
    let text = raw.answer().await.unwrap_err().message().to_string();
    for part in ["replicas 2", "member c1 has 1", "give all processes the same `replicas`"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
