//! The streams between real shippers and collectors when one of the two freezes, is cut off, refuses, dies or grows old.

use crate::engine::{Does, FakeEngine, good, many};
use crate::peers::{Raw, first_batch, hello, intro};
use crate::rig::{Daemon, free_address, get, member, series, until, until_series, value};
use crate::scripted::address;
use rustix::process::Signal;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use swarmstats::config;
use swarmstats::grpc;
use swarmstats::metrics::Registry;
use swarmstats::metrics::own::render;
use swarmstats::shipperd::Shipperd;
use swarmstats::wire::pb::{self, update_stats_response};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Members that are given by hand, for a shipper that is quick.
fn members(collectors: &[(&str, SocketAddr)]) -> String {
    let list: Vec<_> = collectors.iter().map(|(id, addr)| format!("{{id: {id}, addr: '{addr}'}}")).collect();
    format!("interval: 200ms\ntakeover_after: 1500ms\nmembers: {{static: [{}]}}", list.join(", "))
}

fn failed(reason: &str) -> String {
    format!("swarmstats_shipper_streams_failed_total{{reason=\"{reason}\"}}")
}

fn ended(reason: &str) -> String {
    format!("swarmstats_collector_streams_ended_total{{reason=\"{reason}\"}}")
}

fn hello_refused(reason: &str) -> String {
    format!("swarmstats_collector_hellos_refused_total{{reason=\"{reason}\"}}")
}

/// A way between two processes that can be cut: then nothing goes through any more, and neither end is told.
struct Wire {
    address: SocketAddr,
    cut: watch::Sender<bool>,
    _loops: JoinSet<()>,
}

impl Wire {
    async fn to(collector: SocketAddr) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, cut, mut loops) = (listener.local_addr().unwrap(), watch::Sender::new(false), JoinSet::new());
        let is_cut = cut.subscribe();
        loops.spawn(async move {
            let mut through = JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let mut is_cut = is_cut.clone();
                through.spawn(async move {
                    if *is_cut.borrow() {
                        return std::future::pending().await;
                    }
                    let mut far = TcpStream::connect(collector).await.unwrap();
                    let cut = async { drop(is_cut.wait_for(|is_cut| *is_cut).await) };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => return drop((near, far)),
                        () = cut => {}
                    }
                    std::future::pending().await // with both sockets open
                });
            }
        });
        Wire { address, cut, _loops: loops }
    }
}

#[tokio::test]
async fn a_frozen_collector_takes_no_batch_from_the_others_and_no_memory() {
    let engine = FakeEngine::start(many(24));
    let ids = ["c1", "c2", "c3"];
    let addresses: Vec<_> = ids.iter().map(|id| (*id, free_address())).collect();
    let mut collectors = Vec::new();
    for (id, api) in &addresses {
        collectors.push(Daemon::collectord_at(id, *api, "").await);
    }
    let shipper = Daemon::shipper(&engine.socket, &members(&addresses)).await;
    let stored = async |i: usize| {
        let page: &Daemon = &collectors[i];
        series(page.metrics, "swarmstats_collector_batches_stored_total").await.unwrap()
    };
    until("all three are sent batches", async || {
        stored(0).await > 5.0 && stored(1).await > 5.0 && stored(2).await > 5.0
    })
    .await;
    collectors[2].signal(Signal::STOP);
    let own = async |name: &str| series(shipper.metrics, name).await.unwrap();
    let (rounds, memory) = (own("swarmstats_shipper_rounds_total").await, own("process_resident_memory_bytes").await);
    let before = [stored(0).await, stored(1).await];
    // Longer than any deadline of the frozen one's stream.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let after = [stored(0).await, stored(1).await];
    let rounds = own("swarmstats_shipper_rounds_total").await - rounds;
    assert!(rounds > 10.0, "{rounds}");
    for (before, after) in before.iter().zip(after) {
        assert!(after - before >= rounds - 2.0, "{} batches in {rounds} rounds", after - before);
    }
    assert!(own(&failed("batch_late")).await >= 1.0);
    assert!(own("swarmstats_shipper_batches_unacknowledged_total{member=\"c3\"}").await >= 1.0);
    assert_eq!(series(shipper.metrics, "swarmstats_shipper_batches_unacknowledged_total{member=\"c1\"}").await, None);
    assert_eq!(own("swarmstats_shipper_usable_members").await, 2.0);
    assert!(own("swarmstats_shipper_owed_batches{member=\"c3\"}").await <= 2.0, "one batch in flight a stream");
    let grown = own("process_resident_memory_bytes").await - memory;
    assert!(grown < f64::from(8 << 20), "{grown} bytes more while one collector was frozen");
    collectors[2].signal(Signal::CONT);
    until_series(shipper.metrics, "swarmstats_shipper_usable_members", 3.0).await;
}

#[tokio::test]
async fn both_ends_leave_a_peer_that_was_cut_off_without_a_word() {
    let engine = FakeEngine::start(good);
    let collectord = Daemon::collectord("c1", "").await;
    let wire = Wire::to(collectord.api).await;
    let shipper = Daemon::shipper(&engine.socket, &members(&[("c1", wire.address)])).await;
    // One that only listens: nothing but keep-alive can tell it.
    let channel = grpc::connect(&address(wire.address)).await.unwrap();
    let mut health = tonic_health::pb::health_client::HealthClient::new(channel);
    let mut watched = health.watch(tonic_health::pb::HealthCheckRequest::default()).await.unwrap().into_inner();
    watched.message().await.unwrap().unwrap();
    until_series(collectord.metrics, "swarmstats_collector_streams", 1.0).await;
    until_series(collectord.metrics, "swarmstats_collector_batches_stored_total", 3.0).await;

    wire.cut.send_replace(true);
    let begun = Instant::now();
    let listener = tokio::spawn(async move {
        let ended = tokio::time::timeout(Duration::from_secs(25), watched.message()).await;
        (ended.expect("keep-alive ends it").is_err(), begun.elapsed())
    });
    until("the shipper has left", async || series(shipper.metrics, "swarmstats_shipper_streams").await == Some(0.0))
        .await;
    let shipper_left = begun.elapsed();
    assert!(series(shipper.metrics, &failed("batch_late")).await >= Some(1.0));
    // Asked after 10 s of silence, and given 10 s to answer.
    let mut collector_left = begun.elapsed();
    while series(collectord.metrics, "swarmstats_collector_streams").await != Some(0.0) {
        collector_left = begun.elapsed();
        assert!(collector_left < Duration::from_secs(24), "the collector keeps a dead stream");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (broke, listener_left) = listener.await.unwrap();
    println!("left: shipper {shipper_left:?}, listener {listener_left:?}, collector {collector_left:?}");
    assert!(broke);
    // An interval and the deadline of an ack; 5 s of silence and 5 s to answer.
    assert!(shipper_left < Duration::from_secs(5), "{shipper_left:?}");
    assert!(listener_left < Duration::from_secs(13), "{listener_left:?}");
    assert_eq!(series(collectord.metrics, &ended("gone")).await, Some(1.0));
    until_series(shipper.metrics, &failed("hello_late"), 1.0).await;
    assert_eq!(get(shipper.api, "/healthz").await.status, 200);
    let ready = get(shipper.api, "/readyz").await;
    assert_eq!(ready.status, 503, "{}", ready.body);
    assert!(ready.body.contains("no collector has acknowledged a report for"), "{}", ready.body);
}

#[tokio::test]
async fn whatever_a_report_is_refused_for_both_ends_count_it_by_reason_and_say_it_once() {
    let few = FakeEngine::start(many(4));
    let crowd = FakeEngine::start(many(600));
    let cases = [
        ("{}", "replicas: 2", "incompatible", hello_refused("incompatible"), &few),
        ("{max_streams: 1}", "", "full", hello_refused("too_many_streams"), &few),
        ("{max_nodes: 1}", "", "full", hello_refused("full"), &few),
        ("{max_tasks: 2}", "", "full", ended("full"), &few),
        ("{max_message: 64KiB}", "", "malformed", ended("too_long"), &crowd),
    ];
    for (limits, more, ours, theirs, engine) in cases {
        let place = free_address();
        let config = format!("{}\n{more}", members(&[("c1", place)]));
        let start = async || Daemon::shipper(&engine.socket, &config).await;
        // What is too long for one message must be known before there is anybody to tell it, bit by bit.
        let early = if std::ptr::eq(engine, &crowd) {
            let shipper = start().await;
            until_series(shipper.metrics, "swarmstats_shipper_samples_by_engine_total", 600.0).await;
            Some(shipper)
        } else {
            None
        };
        let mut collectord = Daemon::collectord_at("c1", place, &format!("limits: {limits}")).await;
        // Another node has the one place, where there is only one.
        let mut first = Raw::greeted(collectord.api, "node-1", 1).await;
        first.batch(first_batch(1, vec![intro(0, "node-1", "task-of-the-first")], Vec::new())).await;
        assert!(matches!(first.answer().await.unwrap(), update_stats_response::Message::Ack(_)));
        let mut shipper = match early {
            Some(shipper) => shipper,
            None => start().await,
        };
        until_series(shipper.metrics, &failed(ours), 3.0).await;
        until_series(collectord.metrics, &theirs, 3.0).await;
        // Where the hello is answered and the report refused, it is usable for a moment in every attempt.
        until_series(shipper.metrics, "swarmstats_shipper_usable_members", 0.0).await;
        for daemon in [&mut shipper, &mut collectord] {
            daemon.signal(Signal::TERM);
        }
        let (_, said) = shipper.ended(Duration::from_secs(8)).await;
        assert_eq!(said.matches("a collector refuses this node's reports").count(), 1, "{limits}: {said}");
        assert!(said.contains("ERROR"), "{said}");
        drop(first);
        let (_, said) = collectord.ended(Duration::from_secs(9)).await;
        let n_said = said.matches("hello refused").count() + said.matches("stream refused").count();
        // A place that is missing is told by its metric alone: the stream had not said whose it is.
        assert_eq!(n_said, usize::from(limits != "{max_streams: 1}"), "{limits}: {said}");
    }
}

#[tokio::test]
async fn an_older_stream_of_a_node_is_fenced_and_counted() {
    let daemon = Daemon::collectord("c1", "").await;
    let mut old = Raw::greeted(daemon.api, "node-1", 1).await;
    let _new = Raw::greeted(daemon.api, "node-1", 2).await;
    old.batch(first_batch(1, Vec::new(), Vec::new())).await;
    assert_eq!(old.answer().await.unwrap_err().code(), tonic::Code::Aborted);
    until_series(daemon.metrics, &ended("fenced"), 1.0).await;
    assert_eq!(series(daemon.metrics, "swarmstats_collector_batches_fenced_total").await, Some(1.0));
    let mut incompatible = Raw::open(daemon.api).await;
    incompatible.hello(pb::Hello { replicas: 3, ..hello("node-2", 1) }).await;
    incompatible.answer().await.unwrap_err();
    let ends = async |reason: &str| series(daemon.metrics, &ended(reason)).await.unwrap();
    assert_eq!(ends("broken").await + ends("gone").await, 0.0, "a refused hello is no stream that ended");
}

#[tokio::test]
async fn a_shipper_that_reaches_nobody_is_alive_but_not_ready_and_says_why() {
    let (engine, place) = (FakeEngine::start(good), free_address());
    let shipper = Daemon::shipper(&engine.socket, &members(&[("c1", place)])).await;
    let why = async || {
        let ready = get(shipper.api, "/readyz").await;
        (ready.status, ready.body)
    };
    until("the engine has answered, and the collector may come yet", async || why().await.0 == 200).await;
    // takeover_after and three intervals: 2.1 s.
    until("it is not ready", async || why().await.0 == 503).await;
    let (_, body) = why().await;
    assert!(
        body.contains("no collector has acknowledged a report for 2 s: c1: cannot connect: Connection refused"),
        "{body}"
    );
    assert_eq!(get(shipper.api, "/healthz").await.status, 200);
    assert!(series(shipper.metrics, &failed("connect")).await >= Some(1.0));
    let _collectord = Daemon::collectord_at("c1", place, "").await;
    until("it is ready", async || why().await.0 == 200).await;
    assert_eq!(series(shipper.metrics, "swarmstats_shipper_usable_members").await, Some(1.0));
}

/// Shippers of nodes without tasks in this process, each with an engine of its own.
struct Fleet {
    registries: Vec<Registry>,
    stop: CancellationToken,
    loops: JoinSet<()>,
    _engines: Vec<FakeEngine>,
}

impl Fleet {
    fn start(engines: Vec<FakeEngine>, config: &str, stream_age: Option<Duration>) -> Fleet {
        let (stop, mut loops, mut registries) = (CancellationToken::new(), JoinSet::new(), Vec::new());
        for engine in &engines {
            let text = format!("engine: unix://{}\n{config}", engine.socket.display());
            let (cfg, registry) = (config::Shipper::parse(&text, &member("host")).unwrap(), Registry::new());
            let shipperd = Shipperd::new(cfg, &registry).unwrap();
            let shipperd = match stream_age {
                Some(age) => shipperd.with_stream_age(age),
                None => shipperd,
            };
            let stop = stop.clone();
            loops.spawn(async move { shipperd.run(stop).await.unwrap() });
            registries.push(registry);
        }
        Fleet { registries, stop, loops, _engines: engines }
    }
    async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.loops.join_next().await {
            ended.unwrap();
        }
    }
}

fn empty_node(n: usize) -> FakeEngine {
    FakeEngine::start(move |path| match path {
        _ if path.contains("/info") => Does::Say(
            json!({
                "ID": "engine-id", "Name": format!("host-{n}"), "NCPU": 2, "MemTotal": 1u64 << 33,
                "Swarm": {"NodeID": format!("node-{n}"), "LocalNodeState": "active"},
            })
            .to_string(),
        ),
        _ if path.contains("/containers/json") => Does::Say("[]".into()),
        _ => good(path),
    })
}

/// The most of these moments within one second.
fn peak(moments: &[Instant]) -> usize {
    let within = |from: Instant| move |at: &&Instant| **at >= from && **at - from < Duration::from_secs(1);
    moments.iter().map(|from| moments.iter().filter(within(*from)).count()).max().unwrap_or(0)
}

#[tokio::test]
async fn twenty_shippers_whose_collector_died_do_not_come_back_in_step() {
    const N: usize = 20;
    let place = free_address();
    let mut collectord = Daemon::collectord_at("c1", place, "").await;
    let config = members(&[("c1", place)]).replace("interval: 200ms", "interval: 1s").replace("1500ms", "3s");
    let fleet = Fleet::start((0..N).map(empty_node).collect(), &config, None);
    until_series(collectord.metrics, "swarmstats_collector_streams", N as f64).await;

    // Killed; who comes in its absence is counted and turned away.
    collectord.kill();
    let died = Instant::now();
    let door = TcpListener::bind(place).await.unwrap();
    let mut tries = Vec::new();
    while died.elapsed() < Duration::from_secs(10) {
        if let Ok(Ok(_)) = tokio::time::timeout(Duration::from_millis(100), door.accept()).await {
            tries.push(Instant::now());
        }
    }
    drop(door);
    let mean = tries.len() as f64 / 10.0;
    println!("while it was away: {} tries, {mean} a second, at most {} within one", tries.len(), peak(&tries));
    assert!(tries.len() > 5 * N, "they try on: {}", tries.len());
    assert!((peak(&tries) as f64) < 3.0 * mean, "{} tries within a second, {mean} on average", peak(&tries));
    let at_once = tries.iter().filter(|at| **at - died < Duration::from_millis(200)).count();
    assert!(at_once < N, "{at_once} of {N} came at once");

    let back = Daemon::collectord_at("c1", place, "").await;
    until_series(back.metrics, "swarmstats_collector_streams", N as f64).await;
    assert_eq!(series(back.metrics, "swarmstats_collector_hellos_total").await, Some(N as f64), "each came once");
    assert_eq!(series(back.metrics, "swarmstats_collector_batches_repeated_total").await, Some(0.0));
    fleet.end().await;
}

#[tokio::test]
async fn what_a_dead_collector_was_owed_is_told_and_handed_on() {
    let begun = Instant::now();
    let engine = FakeEngine::start(move |path| {
        if !path.contains("/stats") {
            return many(8)(path);
        }
        let (now, used) = (swarmstats::json::rfc3339(swarmstats::clock::wall()), begun.elapsed().as_nanos() as u64 / 2);
        Does::Say(json!({"read": now, "cpu_stats": {"cpu_usage": {"total_usage": used}}}).to_string())
    });
    let places = [("c1", free_address()), ("c2", free_address())];
    let ring = format!("replicas: 2\n{}", members(&places).lines().last().unwrap());
    let mut daemons = Vec::new();
    for (id, place) in &places {
        daemons.push(Daemon::collectord_at(id, *place, &ring).await);
    }
    let shipper = Daemon::shipper(&engine.socket, &format!("replicas: 2\n{}", members(&places))).await;
    let own = async |name: &str| series(shipper.metrics, &format!("swarmstats_shipper_{name}")).await.unwrap_or(0.0);
    // One service, so one row: it is with one of the two.
    let mut holder = None;
    until("one of them is owed some batches", async || {
        for (i, id) in ["c1", "c2"].iter().enumerate() {
            if own(&format!("owed_batches{{member=\"{id}\"}}")).await >= 4.0 {
                holder = Some(i);
            }
        }
        holder.is_some()
    })
    .await;
    let (holder, id) = (holder.unwrap(), ["c1", "c2"][holder.unwrap()]);
    let lag = async || own(&format!("owed_seconds{{member=\"{id}\"}}")).await;
    assert!(lag().await > 0.3, "four rounds old at least");
    // A shipper that begins grants nothing for its first takeover_after.
    until("leases are granted", async || {
        grpc::identify(address(daemons[holder].api)).await.is_ok_and(|who| who.standing.emitted > 0)
    })
    .await;
    let takeovers = own("takeovers_total").await;
    daemons[holder].kill();
    until_series(shipper.metrics, "swarmstats_shipper_usable_members", 1.0).await;
    until("its keys are granted to the other", async || own("takeovers_total").await > takeovers).await;
    assert_eq!((own("returned_batches_total").await, own("returned_cpu_seconds_total").await), (0.0, 0.0));
    daemons[holder] = Daemon::collectord_at(id, places[holder].1, &ring).await;
    until("another process says that it is dead", async || own("returned_batches_total").await >= 4.0).await;
    assert!(own("returned_cpu_seconds_total").await > 0.1);
    // Scrapes settle what is owed; a counter is born with 0, before it is given anything.
    until("little is owed to anybody", async || {
        for daemon in &daemons {
            get(daemon.metrics, "/metrics").await;
        }
        own("owed_batches{member=\"c1\"}").await + own("owed_batches{member=\"c2\"}").await <= 3.0
    })
    .await;
    assert!(lag().await < 2.0);
    assert_eq!(own("dropped_cpu_seconds_total").await, 0.0);
}

#[tokio::test]
async fn a_stream_that_grows_old_is_opened_anew_and_loses_nothing() {
    // What the engine told of each container's CPU time: first and last, in nanoseconds.
    let told: Arc<Mutex<BTreeMap<String, (u64, u64)>>> = Arc::default();
    let (begun, telling) = (Instant::now(), told.clone());
    let engine = FakeEngine::start(move |path| {
        if !path.contains("/stats") {
            return many(4)(path);
        }
        // Half a CPU each for six seconds, then nothing more.
        let used = begun.elapsed().min(Duration::from_secs(6)).as_nanos() as u64 / 2;
        telling.lock().unwrap().entry(path.into()).or_insert((used, used)).1 = used;
        let now = swarmstats::json::rfc3339(swarmstats::clock::wall());
        Does::Say(json!({"read": now, "cpu_stats": {"cpu_usage": {"total_usage": used}}}).to_string())
    });
    let collectord = Daemon::collectord("c1", "").await;
    let fleet = Fleet::start(vec![engine], &members(&[("c1", collectord.api)]), Some(Duration::from_millis(600)));
    let own = |name: &str| {
        let page = String::from_utf8(render(&fleet.registries[0]).unwrap()).unwrap();
        value(&page, name)
    };
    until("the collector has all tasks", async || {
        get(collectord.api, "/v1/services/web").await.json()["services"][0]["tasks"]["fresh"] == 4
    })
    .await;
    let mut scraped = 0.0;
    until("six seconds and some ages have gone by", async || {
        let now = series(
            collectord.metrics,
            "swarmstats_service_cpu_seconds_total{service_id=\"id-of-web\",service_name=\"web\",stack=\"\"}",
        )
        .await;
        assert!(now.unwrap_or(scraped) >= scraped, "{now:?} after {scraped}");
        scraped = now.unwrap_or(scraped);
        own("swarmstats_shipper_streams_renewed_total") >= Some(5.0) && begun.elapsed() > Duration::from_secs(8)
    })
    .await;
    let due: u64 = told.lock().unwrap().values().map(|(first, last)| last - first).sum();
    assert!(due > 4_000_000_000, "{told:?}");
    assert!((scraped - due as f64 / 1e9).abs() < 1e-6, "{scraped} s in the ledger, {due} ns were told");
    for name in ["returned_batches_total", "dropped_cpu_seconds_total"] {
        assert_eq!(own(&format!("swarmstats_shipper_{name}")), Some(0.0), "{name}");
    }
    assert_eq!(own("swarmstats_shipper_batches_unacknowledged_total{member=\"c1\"}"), None);
    let page = String::from_utf8(render(&fleet.registries[0]).unwrap()).unwrap();
    let failures = page.lines().filter(|line| line.starts_with("swarmstats_shipper_streams_failed_total{"));
    assert!(failures.clone().count() > 10 && failures.clone().all(|line| line.ends_with(" 0")), "{page}");
    let collector = get(collectord.metrics, "/metrics").await.body;
    for name in ["data_losses_total", "batches_repeated_total", "batches_fenced_total"] {
        assert_eq!(value(&collector, &format!("swarmstats_collector_{name}")), Some(0.0), "{name}");
    }
    assert!(value(&collector, &ended("gone")) >= Some(4.0));
    assert_eq!(value(&collector, "swarmstats_collector_streams"), Some(1.0));
    fleet.end().await;
}

/// A fake collector: stores nothing, acknowledges everything, and advises an interval.
struct Advising(Arc<Mutex<u64>>);

#[tonic::async_trait]
impl pb::ingest_server::Ingest for Advising {
    type UpdateStatsStream = tokio_stream::wrappers::ReceiverStream<Result<pb::UpdateStatsResponse, tonic::Status>>;

    async fn update_stats(
        &self,
        request: tonic::Request<tonic::Streaming<pb::UpdateStatsRequest>>,
    ) -> Result<tonic::Response<Self::UpdateStatsStream>, tonic::Status> {
        use pb::update_stats_request::Message;
        let (answers, stream) = tokio::sync::mpsc::channel(4);
        let (mut inbound, advised) = (request.into_inner(), self.0.clone());
        tokio::spawn(async move {
            while let Ok(Some(message)) = inbound.message().await {
                let answer = match message.message.unwrap() {
                    Message::Hello(_) => {
                        update_stats_response::Message::Hi(pb::Hi { r#gen: 1, token: 1, ..Default::default() })
                    }
                    Message::Batch(batch) => {
                        let advised_interval_ms = *advised.lock().unwrap();
                        let ack = pb::Ack { n: batch.n, token: 1, advised_interval_ms, ..Default::default() };
                        update_stats_response::Message::Ack(ack)
                    }
                };
                if answers.send(Ok(pb::UpdateStatsResponse { message: Some(answer) })).await.is_err() {
                    return;
                }
            }
        });
        Ok(tonic::Response::new(tokio_stream::wrappers::ReceiverStream::new(stream)))
    }

    async fn bequeath(
        &self,
        _: tonic::Request<tonic::Streaming<pb::Bequest>>,
    ) -> Result<tonic::Response<pb::BequeathResponse>, tonic::Status> {
        Err(tonic::Status::unimplemented("not here"))
    }
}

#[tokio::test]
async fn a_shipper_reads_less_often_where_a_collector_advises_so_and_no_longer_than_that() {
    let advised = Arc::new(Mutex::new(1_000));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    let fake = pb::ingest_server::IngestServer::new(Advising(advised.clone()));
    let app = tonic::service::Routes::new(fake).into_axum_router();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    let engine = FakeEngine::start(good);
    let shipper = Daemon::shipper(&engine.socket, &members(&[("c1", place)])).await;
    let effective = async || series(shipper.metrics, "swarmstats_shipper_effective_interval_seconds").await.unwrap();
    until("it reads once a second", async || (0.9..1.3).contains(&effective().await)).await;
    // Batches go on meanwhile: they keep what it holds there.
    let acked =
        async || series(shipper.metrics, "swarmstats_shipper_batches_acked_total{member=\"c1\"}").await.unwrap();
    let (before, rounds) = (acked().await, series(shipper.metrics, "swarmstats_shipper_rounds_total").await.unwrap());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let rounds = series(shipper.metrics, "swarmstats_shipper_rounds_total").await.unwrap() - rounds;
    assert!((1.0..=5.0).contains(&rounds) && acked().await - before > 2.0 * rounds, "{rounds}");
    *advised.lock().unwrap() = 0;
    until("it reads every interval again", async || (0.1..0.5).contains(&effective().await)).await;
    *advised.lock().unwrap() = 3_600_000;
    until("at most ten intervals", async || (1.9..2.6).contains(&effective().await)).await;
    server.abort();
}
