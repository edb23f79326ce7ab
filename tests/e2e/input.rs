//! Bad input: each mistake is told clearly, counted, and touches nothing else.

use crate::peers::{Raw, block, first_batch, hello, intro};
use crate::rig::{Daemon, Folder, free_address, get, member, request, series, until, until_series, value};
use crate::scripted::{Scripted, address, figures};
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use swarmstats::grpc;
use swarmstats::wire::pb;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::{Code, Status};

const MALFORMED: &str = r#"swarmstats_collector_hellos_refused_total{reason="malformed"}"#;

fn run(program: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(program).args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn all_mistakes_of_a_config_are_told_at_once_and_exit_with_64() {
    let folder = Folder::new();
    let bad = folder.write(
        "bad.yaml",
        "member: 'a b'\nquery_deadline: soon\nlimits:\n  max_tusks: 3\nlog: 'a b=info'\nreplicas: 99\n",
    );
    for program in [env!("CARGO_BIN_EXE_collectord"), env!("CARGO_BIN_EXE_shipper")] {
        for arguments in [&["--config", bad.to_str().unwrap()][..], &["--check", "--config", bad.to_str().unwrap()]] {
            let (code, stdout, stderr) = run(program, arguments);
            assert_eq!((code, stdout.as_str()), (Some(64), ""), "{stderr}");
            let places = ["line 1, ", "line 2, ", "line 4, ", "line 5, ", "line 6, "];
            let mistakes: Vec<&str> = stderr.lines().skip(1).collect();
            assert_eq!(mistakes.len(), 5, "{stderr}");
            for (mistake, place) in mistakes.iter().zip(places) {
                // What is wrong, and what to do about it.
                assert!(mistake.starts_with(place) && mistake.contains("; "), "{stderr}");
            }
            assert!(stderr.starts_with(&format!("{}:\n", bad.display())), "{stderr}");
        }
        let good = folder.write("good.yaml", "log: warn\n");
        let (code, stdout, stderr) = run(program, &["--check", "--config", good.to_str().unwrap()]);
        assert_eq!((code, stdout, stderr), (Some(0), format!("{}: good\n", good.display()), String::new()));
        let (code, _, stderr) = run(program, &["--config", "/no/such/file.yaml"]);
        assert_eq!(code, Some(64));
        assert_eq!(stderr, "cannot read /no/such/file.yaml: No such file or directory (os error 2)\n");
        let (code, _, stderr) = run(program, &["--konfig", "x"]);
        assert!(code == Some(64) && stderr.contains("--konfig"), "{code:?} {stderr}");
    }
}

#[tokio::test]
async fn p19_a_port_that_is_taken_is_named_with_a_remedy_and_the_exit_code_is_not_0() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().into_std().unwrap();
    let address = taken.local_addr().unwrap();
    let folder = Folder::new();
    for (program, key) in [
        (env!("CARGO_BIN_EXE_collectord"), "api"),
        (env!("CARGO_BIN_EXE_collectord"), "metrics"),
        (env!("CARGO_BIN_EXE_shipper"), "metrics"),
    ] {
        let other = if key == "api" { "metrics" } else { "api" };
        // A collector without an API is a mistake.
        let elsewhere = if other == "api" { "'127.0.0.1:0'" } else { "none" };
        let text = format!("{key}: {{listen: '{address}'}}\n{other}: {{listen: {elsewhere}}}\nlog: off\n");
        let config = folder.write("taken.yaml", &text);
        let (code, _, stderr) = run(program, &["--config", config.to_str().unwrap()]);
        assert_eq!(code, Some(1), "{stderr}");
        let says = format!("cannot listen on {address} ({key}.listen): Address already in use (os error 98)");
        assert_eq!(stderr, format!("{says}; is another one running? choose another port or `none`\n"));
    }
}

#[tokio::test]
async fn listening_beyond_this_machine_is_said_in_a_warning_and_a_metric() {
    let port = free_address().port();
    let api = SocketAddr::from(([0, 0, 0, 0], port));
    let mut daemon = Daemon::collectord_at("c1", api, "").await;
    assert_eq!(series(daemon.metrics, r#"swarmstats_insecure_listen{endpoint="api"}"#).await, Some(1.0));
    assert_eq!(series(daemon.metrics, r#"swarmstats_insecure_listen{endpoint="metrics"}"#).await, Some(0.0));
    daemon.signal(rustix::process::Signal::TERM);
    let (status, said) = daemon.ended(Duration::from_secs(8)).await;
    assert!(status.success());
    let warnings: Vec<&str> = said.lines().filter(|line| line.contains(" WARN ")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("without authentication or encryption"), "{said}");
    assert!(warnings[0].contains(&api.to_string()), "{said}");
}

/// Opens an UpdateStats stream and sends messages of another type on it: bytes that are no request.
async fn send_bytes(collector: SocketAddr, text: String) -> Status {
    let channel = grpc::connect(&address(collector)).await.unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = axum::http::uri::PathAndQuery::from_static("/swarmstats.v1.Ingest/UpdateStats");
    let codec = tonic_prost::ProstCodec::<pb::Missing, pb::UpdateStatsResponse>::default();
    // Kept open, so that it is the collector who ends it.
    let messages = tokio_stream::StreamExt::chain(
        tokio_stream::once(pb::Missing { what: text, why: String::new() }),
        tokio_stream::pending(),
    );
    match client.streaming(tonic::Request::new(messages), path, codec).await {
        Ok(answers) => answers.into_inner().message().await.unwrap_err(),
        Err(status) => status,
    }
}

#[tokio::test]
async fn bad_messages_end_their_own_stream_and_nothing_else() {
    let daemon = Daemon::collectord("c1", "limits: {max_message: 64KiB}").await;
    let c1 = member("c1");
    // Somebody good, before, meanwhile and after.
    let mut good = Scripted::new("good-node", &[("c1", daemon.api)]);
    good.run("web", "good-task", figures(1, 1));
    good.settle().await;

    // A batch before the hello.
    let mut raw = Raw::open(daemon.api).await;
    raw.batch(first_batch(1, vec![], vec![])).await;
    let ended = raw.answer().await.unwrap_err();
    assert_eq!((ended.code(), ended.message()), (Code::InvalidArgument, "a stream starts with a hello"));
    until_series(daemon.metrics, MALFORMED, 1.0).await;

    // A second hello.
    let mut raw = Raw::greeted(daemon.api, "node-a", 1).await;
    raw.hello(hello("node-a", 2)).await;
    let ended = raw.answer().await.unwrap_err();
    let says = "a stream has one hello: open another stream";
    assert_eq!((ended.code(), ended.message()), (Code::InvalidArgument, says));
    // A batch with an id that is none.
    let mut raw = Raw::greeted(daemon.api, "node-a", 3).await;
    raw.batch(first_batch(3, vec![intro(0, "", "task-a")], vec![])).await;
    assert_eq!(raw.answer().await.unwrap_err().code(), Code::InvalidArgument);
    until_series(daemon.metrics, "swarmstats_collector_batches_malformed_total", 2.0).await;

    // Absurd intervals, and an id that is none.
    for (bad, says) in [
        (pb::Hello { interval_ms: 0, ..hello("node-a", 9) }, "the interval is out of range"),
        (pb::Hello { interval_ms: u64::MAX, ..hello("node-a", 9) }, "the interval is out of range"),
        (pb::Hello { lease_ms: 1 << 60, ..hello("node-a", 9) }, "the lease is out of range"),
        (hello("", 9), "the node id is empty"),
    ] {
        let mut raw = Raw::open(daemon.api).await;
        raw.hello(bad).await;
        let ended = raw.answer().await.unwrap_err();
        assert_eq!((ended.code(), ended.message()), (Code::InvalidArgument, says));
    }
    until_series(daemon.metrics, MALFORMED, 5.0).await;

    // Bytes that are no message, and a message that is too long.
    assert_eq!(send_bytes(daemon.api, "zzzz".into()).await.code(), Code::Internal);
    until_series(daemon.metrics, MALFORMED, 6.0).await;
    let ended = send_bytes(daemon.api, "x".repeat(70_000)).await;
    assert_eq!(ended.code(), Code::OutOfRange);
    assert!(ended.message().contains("65536"), "{ended:?}");
    until_series(daemon.metrics, r#"swarmstats_bound_refusals_total{bound="max_message"}"#, 1.0).await;
    assert_eq!(series(daemon.metrics, MALFORMED).await, Some(6.0));

    // Another node's task.
    let mut raw = Raw::greeted(daemon.api, "node-b", 1).await;
    raw.batch(first_batch(1, vec![intro(0, "good-node", "good-task")], block(&[1, 2, 3]))).await;
    let ended = raw.answer().await.unwrap_err();
    let says = "the stream of node node-b speaks about node good-node";
    assert_eq!((ended.code(), ended.message()), (Code::PermissionDenied, says));
    until_series(daemon.metrics, "swarmstats_collector_foreign_reports_total", 1.0).await;

    // Wrong baselines, a handle never introduced (in the block and beside it), a block cut off.
    let task = || vec![intro(0, "node-c", "task-c")];
    let whole = block(&[1, 2, 3]);
    for (n, (batch, says)) in [
        (pb::Batch { base: 77, ..first_batch(1, task(), whole.clone()) }, "builds on baselines"),
        (first_batch(2, vec![], whole.clone()), "names handle 0, which this stream has not introduced"),
        (pb::Batch { ended: vec![5], ..first_batch(3, task(), whole.clone()) }, "names handle 5"),
        (first_batch(4, task(), whole[..whole.len() - 1].to_vec()), "ends in the middle of an entry"),
        (first_batch(5, vec![intro(4_000_000_000, "node-c", "task-c")], vec![]), "far beyond them"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut raw = Raw::greeted(daemon.api, "node-c", 1 + n as u64).await;
        raw.batch(batch).await;
        let ended = raw.answer().await.unwrap_err();
        assert!(ended.code() == Code::DataLoss && ended.message().contains(says), "{ended:?}");
    }
    until_series(daemon.metrics, "swarmstats_collector_data_losses_total", 5.0).await;
    // Reconnecting heals.
    let mut raw = Raw::greeted(daemon.api, "node-c", 9).await;
    raw.batch(first_batch(9, task(), whole)).await;
    raw.answer().await.unwrap();
    assert_eq!(get(daemon.api, "/v1/tasks/task-c").await.json()["tasks"][0]["stats"]["pids"], 3);

    // Bytes that are no HTTP at all.
    for garbage in
        [&b"\0\x01\xff\xfegarbage\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
    {
        let mut socket = TcpStream::connect(daemon.api).await.unwrap();
        socket.write_all(garbage).await.unwrap();
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(5), socket.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "the collector waits for more of {garbage:?}");
    }
    until_series(daemon.metrics, "swarmstats_connections_failed_total", 2.0).await;

    // The good one never noticed.
    good.run("web", "good-task", figures(2, 1));
    good.tell(&c1).await.unwrap();
    good.settle().await;
    assert_eq!(
        series(daemon.metrics, "swarmstats_collector_hellos_total").await,
        Some(10.0),
        "one of them the good one's"
    );
    let task = get(daemon.api, "/v1/tasks/good-task").await.json();
    assert_eq!((&task["complete"], &task["tasks"][0]["stats"]["cpu_seconds_total"]), (&true.into(), &2.0.into()));
}

#[tokio::test]
async fn a_shipper_whose_baselines_went_astray_is_right_again_after_reconnecting() {
    let daemon = Daemon::collectord("c1", "").await;
    let c1 = member("c1");
    let mut shipper = Scripted::new("node-1", &[("c1", daemon.api)]);
    shipper.run("web", "task1", figures(5, 1));
    shipper.settle().await;
    // A batch is lost between its making and its sending: what follows builds on something the collector never saw.
    shipper.run("web", "task1", figures(6, 1));
    shipper.observe();
    let mut lost = shipper.outbox.next_batch(&c1, swarmstats::clock::monotonic()).unwrap();
    lost.base ^= 1;
    let ended = shipper.send(&c1, &lost).await.unwrap_err();
    assert!(matches!(ended, grpc::StreamError::Status(Code::DataLoss, _)), "{ended}");
    shipper.settle().await;
    let task = get(daemon.api, "/v1/tasks/task1").await.json();
    assert_eq!(task["tasks"][0]["stats"]["cpu_seconds_total"], 6.0);
    get(daemon.metrics, "/metrics").await;
    let page = get(daemon.metrics, "/metrics").await.body;
    let service = r#"swarmstats_service_cpu_seconds_total{service_id="id-of-web",service_name="web",stack="shop"}"#;
    assert_eq!(value(&page, service), Some(1.0), "the second that the lost batch had is counted, and once");
}

#[tokio::test]
async fn a_stream_that_says_nothing_is_ended_after_five_seconds() {
    let daemon = Daemon::collectord("c1", "").await;
    let mut raw = Raw::open(daemon.api).await;
    let begun = Instant::now();
    let ended = raw.answer().await.unwrap_err();
    assert_eq!((ended.code(), ended.message()), (Code::DeadlineExceeded, "no hello came within 5 s"));
    assert!((4500..7000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    let silent = r#"swarmstats_collector_hellos_refused_total{reason="silent"}"#;
    assert_eq!(series(daemon.metrics, silent).await, Some(1.0));
}

#[tokio::test]
async fn a_thousand_connections_that_say_nothing_disturb_nobody_and_are_closed() {
    let daemon = Daemon::collectord("c1", "").await;
    let begun = Instant::now();
    let mut silent = Vec::new();
    for i in 0..1000 {
        let mut socket = TcpStream::connect(daemon.api).await.unwrap();
        // Some say nothing at all, some begin HTTP/1, some HTTP/2.
        let beginning =
            [&b""[..], b"GET /v1/ta", b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"][i % 4];
        socket.write_all(beginning).await.unwrap();
        silent.push(socket);
    }
    let asked = Instant::now();
    assert_eq!(get(daemon.api, "/v1/tasks").await.status, 200);
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    let mut shipper = Scripted::new("node-1", &[("c1", daemon.api)]);
    shipper.run("web", "task1", figures(5, 1));
    shipper.settle().await;
    for mut socket in silent {
        let mut rest = Vec::new();
        let left = Duration::from_secs(16).saturating_sub(begun.elapsed());
        let closed = tokio::time::timeout(left, socket.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "a silent connection is still open after 16 s");
    }
    until_series(daemon.metrics, "swarmstats_connections_failed_total", 1000.0).await;
    let open = series(daemon.metrics, "process_open_fds").await.unwrap();
    assert!(open < 50.0, "{open} descriptors are still open");
    shipper.round().await;
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused_until_one_ends() {
    let daemon = Daemon::collectord("c1", "limits: {max_streams: 2, max_nodes: 3}").await;
    let first = Raw::greeted(daemon.api, "node-1", 1).await;
    let _second = Raw::greeted(daemon.api, "node-2", 1).await;
    let refused = match Raw::try_open(daemon.api).await {
        Err(status) => status,
        Ok(mut raw) => raw.answer().await.unwrap_err(),
    };
    let says = "2 streams are open already: raise limits.max_streams";
    assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, says));
    assert_eq!(series(daemon.metrics, r#"swarmstats_bound_refusals_total{bound="max_streams"}"#).await, Some(1.0));
    drop(first);
    until_series_is(&daemon, "swarmstats_collector_streams", 1.0).await;
    drop(Raw::greeted(daemon.api, "node-3", 1).await);
    until_series_is(&daemon, "swarmstats_collector_streams", 1.0).await;
    // A fourth node is one too many, whoever has a stream.
    let mut raw = Raw::open(daemon.api).await;
    raw.hello(hello("node-4", 1)).await;
    let refused = raw.answer().await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("raise limits.max_nodes"), "{refused:?}");
    assert_eq!(series(daemon.metrics, r#"swarmstats_bound_refusals_total{bound="max_nodes"}"#).await, Some(1.0));
}

async fn until_series_is(daemon: &Daemon, name: &str, wanted: f64) {
    until(name, async || series(daemon.metrics, name).await == Some(wanted)).await;
}

#[tokio::test]
async fn wrong_requests_are_refused_in_json_and_counted() {
    let daemon = Daemon::collectord("c1", "").await;
    let mut shipper = Scripted::new("node-1", &[("c1", daemon.api)]);
    shipper.run("web", "9mnpa", figures(1, 1));
    shipper.run("web", "9mnpb", figures(1, 1));
    shipper.settle().await;
    let long = format!("/v1/tasks?service={}", "x".repeat(5000));
    for (target, status, error) in [
        ("/v1/tasks?colour=red", 400, "parameter \"colour\" is not known here"),
        ("/v1/tasks?scope=galaxy", 400, "parameter scope: \"galaxy\" is none"),
        ("/v1/tasks?points=many", 400, "parameter points: \"many\" is no number"),
        ("/v1/tasks?points=99999999", 400, "99999999 points, 10000 are allowed"),
        ("/v1/tasks?label=x", 400, "parameter label: \"x\" is no name=value"),
        ("/v1/ring?key=planet:x", 400, "parameter key: \"planet:x\" is no key"),
        (&long, 400, "the query string is 5008 bytes long, 4096 are allowed"),
        ("/v1/tasks/nobody", 404, "no task \"nobody\" is known"),
        ("/v1", 404, "no /v1 here"),
        ("/v1/tasks/9mnp", 409, "\"9mnp\" is the beginning of 2 task ids"),
    ] {
        let answer = get(daemon.api, target).await;
        assert_eq!((answer.status, answer.json()["error"].as_str()), (status, Some(error)), "{target}");
    }
    let ambiguous = get(daemon.api, "/v1/tasks/9mnp").await.json();
    assert_eq!(ambiguous["candidates"], serde_json::json!(["9mnpa", "9mnpb"]));
    for method in ["POST", "DELETE", "PUT"] {
        let answer = request(daemon.api, &format!("{method} /v1/tasks HTTP/1.0\r\n\r\n")).await.unwrap();
        assert_eq!(answer.status, 405);
        assert_eq!(answer.json()["error"], "only GET is answered here");
    }
    assert_eq!(series(daemon.metrics, "swarmstats_requests_refused_total").await, Some(14.0));
    // A head beyond all bounds: refused by the server itself, which goes on.
    let head = format!("GET /v1/tasks HTTP/1.1\r\nHost: it\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    assert!(request(daemon.api, &head).await.is_none_or(|answer| answer.status == 431));
    assert_eq!(get(daemon.api, "/v1/tasks").await.status, 200);
}

#[tokio::test]
async fn a_name_without_an_address_keeps_the_process_up_and_readyz_says_why() {
    let mut daemon = Daemon::collectord("c1", "members: {dns: {name: tasks.nobody.invalid, every: 1s}}").await;
    until("readyz names the name", async || get(daemon.api, "/readyz").await.body.contains("tasks.nobody.invalid"))
        .await;
    let ready = get(daemon.api, "/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(
        ready
            .body
            .contains("no member of the ring is known yet: no address of the collectors at tasks.nobody.invalid: "),
        "{}",
        ready.body
    );
    until_series(daemon.metrics, "swarmstats_discovery_failures_total", 2.0).await;
    assert_eq!(get(daemon.api, "/v1/ring").await.status, 503);
    assert_eq!(get(daemon.api, "/v1/tasks").await.status, 200);
    assert!(daemon.is_running());
}

#[tokio::test]
async fn a_members_file_with_mistakes_is_told_and_the_last_good_ring_stays() {
    let (folder, api) = (Folder::new(), free_address());
    let path = folder.write("members.yaml", "- {id: c1}\n");
    let daemon = Daemon::collectord_at("c1", api, &format!("members: {{file: '{}'}}", path.display())).await;
    until("readyz has the mistake", async || get(api, "/readyz").await.body.contains("no `addr`")).await;
    folder.write("members.yaml", &format!("- {{id: c1, addr: '{api}'}}\n"));
    until("it is ready", async || get(api, "/readyz").await.status == 200).await;
    let failures = series(daemon.metrics, "swarmstats_discovery_failures_total").await.unwrap();
    folder.write("members.yaml", "- {id: c1, addr: nowhere}\n");
    until_series(daemon.metrics, "swarmstats_discovery_failures_total", failures + 1.0).await;
    assert_eq!(get(api, "/readyz").await.status, 200);
    assert_eq!(get(api, "/v1/ring").await.json()["members"][0]["id"], "c1");
}

#[tokio::test]
async fn a_health_check_asks_the_daemon_that_runs_by_the_same_config() {
    let folder = crate::rig::Folder::new();
    let mut daemon = Daemon::collectord("c1", "").await;
    // Everywhere is this machine, too.
    let everywhere = format!("member: c1\napi: {{listen: '0.0.0.0:{}'}}\n", daemon.api.port());
    let config = folder.write("same.yaml", &everywhere).display().to_string();
    let arguments = ["--config", config.as_str(), "--healthy"];
    assert_eq!(run(env!("CARGO_BIN_EXE_collectord"), &arguments), (Some(0), String::new(), String::new()));
    daemon.kill();
    let (code, _, error) = run(env!("CARGO_BIN_EXE_collectord"), &arguments);
    assert!(code == Some(1) && error.contains("Connection refused"), "{code:?} {error}");
    let off = folder.write("off.yaml", "api: {listen: none}\n").display().to_string();
    let (code, _, error) = run(env!("CARGO_BIN_EXE_shipper"), &["--config", &off, "--healthy"]);
    assert!(code == Some(1) && error.contains("api.listen is none"), "{code:?} {error}");
}
