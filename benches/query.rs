//! What a question about a service of 1000 tasks costs through a router over three members, on loopback.
//!
//! `cargo bench --bench query`. CPU time is that of all three collectords (the asking side's is not theirs); latency is
//! that of one question at a time, beside a bare `/healthz` asked in turns with it. Budgets: DESIGN §9.

mod common;

use common::served::{Served, runtime, start};
use common::{Budget, SyntheticNode, line};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};
use swarmstats::model::Values;
use swarmstats::wire::pb;

const NODES: usize = 20;
const QUERIES: usize = 400;
const PAUSE: Duration = Duration::from_millis(3);
/// Long enough for samples to be fresh as long as the bench runs.
const INTERVAL: u64 = 60 * common::SECOND;

fn main() {
    let members = start(3);
    feed(&members);
    let name = "shop_service0";
    let mut http = Http::connect(&members[0]);
    wait_until_complete(&mut http, name);
    println!("a service of 1000 tasks on {NODES} nodes, through one router over 3 members, {QUERIES} questions each");
    let ways = [
        ("HTTP /v1/services/NAME?stats=none", format!("/v1/services/{name}?stats=none"), true),
        ("HTTP /v1/services/NAME", format!("/v1/services/{name}"), true),
        ("HTTP /v1/tasks?service=NAME&stats=none", format!("/v1/tasks?service={name}&stats=none"), false),
        ("HTTP /v1/tasks?service=NAME", format!("/v1/tasks?service={name}"), false),
    ];
    for (what, path, budgeted) in ways {
        let mut size = 0;
        measure(what, &members, budgeted, || size = http.get(&path).len());
        println!("  {size} bytes of JSON");
    }
    let runtime = runtime();
    let channel = runtime.block_on(swarmstats::grpc::connect(&members[0].address())).expect("it listens");
    let client = pb::query_client::QueryClient::new(channel).max_decoding_message_size(64 << 20);
    let figures = pb::Subscription { stats: vec![0], texts: pb::Texts::Groups.into(), ..pb::Subscription::default() };
    let shared = pb::Subscription { texts: pb::Texts::Shared.into(), ..pb::Subscription::default() };
    let ways = [
        ("gRPC GetStats, what figures need", figures, true),
        ("gRPC GetStats, all stats, shared texts", shared, false),
        ("gRPC GetStats, all stats, whole texts", pb::Subscription::default(), false),
    ];
    for (what, how, budgeted) in ways {
        let mut n_tasks = 0;
        measure(what, &members, budgeted, || n_tasks = runtime.block_on(ask(client.clone(), name, how.clone())));
        assert_eq!(n_tasks, 1000);
    }
}

/// Every node's tasks, straight into the collectors that own them.
fn feed(members: &[Served]) {
    let ring = common::ring(members.len());
    for number in 0..NODES {
        let mut node = SyntheticNode::new(number, 1000 / NODES, 1, common::USUAL);
        let mut outbox = common::outbox(&node, &ring, INTERVAL);
        let mut streams = Vec::new();
        for Served { member, collector, .. } in members {
            let hello = outbox.hello(member);
            let hi = collector.hello(&hello).expect("a good hello");
            outbox.greeted(member, hello.k, &Ok(hi), 0, common::WALL);
            streams.push((member, collector, swarmstats::aggregate::StreamId::of(&hello)));
        }
        for _ in 0..2 {
            outbox.observe(node.clock(), Values::default(), node.tick(), None);
            for (member, collector, stream) in &streams {
                let batch = outbox.next_batch(member, node.clock()).expect("a round is due");
                let stored = collector.batch(stream, &batch).expect("a good batch");
                let swarmstats::aggregate::Stored::Acked { ack, .. } = stored else { panic!("{stored:?}") };
                outbox.acked(member, batch.k, &ack, node.clock());
            }
        }
    }
}

/// The routers have to learn of each other first.
fn wait_until_complete(http: &mut Http, name: &str) {
    let begun = Instant::now();
    loop {
        let answer = http.get(&format!("/v1/services/{name}"));
        if answer.contains("\"complete\":true") && answer.contains("1000") {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", &answer[..answer.len().min(600)]);
        sleep(Duration::from_millis(50));
    }
}

fn measure(what: &str, members: &[Served], budgeted: bool, mut ask: impl FnMut()) {
    let mut floor = Http::connect(&members[0]);
    let cpu = || members.iter().map(Served::cpu).sum::<Duration>();
    let (mut ours, mut bare, mut used) = (Vec::new(), Vec::new(), Duration::ZERO);
    for _ in 0..QUERIES {
        sleep(PAUSE);
        let before = cpu();
        let begun = Instant::now();
        ask();
        ours.push(begun.elapsed());
        used += cpu() - before;
        let begun = Instant::now();
        floor.get("/healthz");
        bare.push(begun.elapsed());
    }
    ours.sort_unstable();
    bare.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let at = |all: &[Duration], of_100: usize| ms(all[(all.len() - 1) * of_100 / 100]);
    let budget = |most: f64| budgeted.then_some(Budget::AtMost(most));
    let floor = |of_100| ("/healthz", at(&bare, of_100));
    line(&format!("{what}, CPU of all members"), ms(used) / QUERIES as f64, "ms", floor(50), budget(3.0));
    line(&format!("{what}, p50"), at(&ours, 50), "ms", floor(50), None);
    line(&format!("{what}, p99"), at(&ours, 99), "ms", floor(99), budget(5.0));
}

/// How many tasks the answer has.
async fn ask(
    mut client: pb::query_client::QueryClient<tonic::transport::Channel>,
    service: &str,
    how: pb::Subscription,
) -> usize {
    let selector = pb::Selector { service: service.into(), ..Default::default() };
    let subscription = pb::Subscription { id: 1, selectors: vec![selector], ..how };
    let request = pb::GetStatsRequest { add: vec![subscription], remove: Vec::new() };
    let answers = client.get_stats(tokio_stream::once(request)).await.expect("an answer");
    match answers.into_inner().message().await.expect("an answer").and_then(|answer| answer.message) {
        Some(pb::get_stats_response::Message::Snapshot(snapshot)) => snapshot.tasks.len(),
        other => panic!("{other:?}"),
    }
}

/// One kept-alive connection.
struct Http(TcpStream);

impl Http {
    fn connect(member: &Served) -> Http {
        let stream = TcpStream::connect(member.at).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        Http(stream)
    }

    /// The body of an answer.
    fn get(&mut self, path: &str) -> String {
        write!(self.0, "GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n").expect("it reads");
        let (mut answer, mut part) = (Vec::new(), [0; 65_536]);
        loop {
            let n = self.0.read(&mut part).expect("it answers");
            assert!(n > 0, "it closed the connection");
            answer.extend_from_slice(&part[..n]);
            let Some(head) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            if answer.len() == head + 4 + length.parse::<usize>().expect("a number") {
                return String::from_utf8(answer.split_off(head + 4)).expect("JSON");
            }
        }
    }
}
