//! Routers, members, rings, clocks and ports.

use crate::fixture::{NOWHERE, doctor, fake};
use crate::rig::{Daemon, free_address};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const NO_ENGINE: &str = "--engine unix:///nowhere/docker.sock";

fn members(all: &[(&str, SocketAddr)]) -> String {
    let list: Vec<String> = all.iter().map(|(id, addr)| format!("{{id: {id}, addr: '{addr}'}}")).collect();
    format!("members: {{static: [{}]}}", list.join(", "))
}

/// The doctor on a router, where no shipper and no engine is.
fn ask(router: SocketAddr) -> String {
    format!("{NO_ENGINE} --host http://{router} --shipper {NOWHERE}")
}

#[tokio::test]
async fn no_router() {
    let found = doctor(&format!("{NO_ENGINE} --host {NOWHERE} --shipper {NOWHERE}")).await;
    found.names("router_absent", "fail", &["127.0.0.1:9", "refused"]);
}

#[tokio::test]
async fn another_program_on_the_routers_port_and_on_the_metrics_port() {
    let foreign = fake("200 OK", "", "<html>It works!</html>").await;
    doctor(&ask(foreign)).await.names("router_foreign", "fail", &[&foreign.to_string(), "200 OK"]);
    // A collectord that says it listens where the other program does: as a port forwarded to the wrong place.
    let status = format!(
        r#"{{"version": "0.1.0", "roles": ["router"], "member": "c1",
            "listens": [{{"endpoint": "metrics", "address": "{foreign}"}}]}}"#
    );
    let router = fake("200 OK", "", &status).await;
    doctor(&ask(router)).await.names("port_foreign", "fail", &[&foreign.to_string()]);
}

#[tokio::test]
async fn members_that_are_dead_or_frozen() {
    let all = [("c1", free_address()), ("c2", free_address()), ("c3", free_address())];
    let mut daemons = vec![];
    for (id, address) in all {
        daemons.push(Daemon::collectord_at(id, address, &members(&all)).await);
    }
    let found = doctor(&ask(all[0].1)).await;
    let ring = found.of("ring").unwrap();
    assert!(ring["what"].as_str().unwrap().contains("all 3"), "{ring}");
    found.names("no_nodes", "warn", &["no node has reported"]);

    daemons[1].kill();
    daemons[2].signal(Signal::STOP);
    let found = doctor(&ask(all[0].1)).await;
    found.names("member_dead", "fail", &["c2 at ", "refused"]);
    found.names("member_silent", "fail", &["c3 at "]);
    daemons[2].signal(Signal::CONT);
}

#[tokio::test]
async fn a_frozen_router() {
    let router = Daemon::collectord("c1", "").await;
    router.signal(Signal::STOP);
    doctor(&ask(router.api)).await.names("router_silent", "fail", &["did not answer"]);
    router.signal(Signal::CONT);
}

#[tokio::test]
async fn a_member_that_sees_another_ring() {
    let all = [("c1", free_address()), ("c2", free_address())];
    let _one = Daemon::collectord_at("c1", all[0].1, &members(&all)).await;
    let _two = Daemon::collectord_at("c2", all[1].1, &members(&all[1..])).await;
    doctor(&ask(all[0].1)).await.names("ring_differs", "fail", &["c2 at "]);
}

#[tokio::test]
async fn a_member_under_anothers_name() {
    let all = [("c1", free_address()), ("c2", free_address())];
    let _one = Daemon::collectord_at("c1", all[0].1, &members(&all)).await;
    let _two = Daemon::collectord_at("c3", all[1].1, &members(&[("c1", all[0].1), ("c3", all[1].1)])).await;
    doctor(&ask(all[0].1)).await.names("member_other", "fail", &["c2 at ", "member c3"]);
}

/// No real program of this version can be of another one, or have another R.
#[tokio::test]
async fn a_member_of_another_version_hash_and_replicas_whose_clock_is_wrong() {
    let status = r#"{"version": "9.9.9", "roles": ["collector"], "member": "c2", "process": "2", "replicas": 3,
        "hash_version": 7, "ring_id": "1"}"#;
    let fake = fake("200 OK", "date: Sat, 01 Jan 2000 00:00:00 GMT\r\n", status).await;
    let all = [("c1", free_address()), ("c2", fake)];
    let _one = Daemon::collectord_at("c1", all[0].1, &members(&all)).await;
    let found = doctor(&ask(all[0].1)).await;
    found.names("replicas_differ", "fail", &["replicas: 3", "the router 1"]);
    found.names("hash_differs", "fail", &["hash version 7"]);
    found.names("version_differs", "warn", &["9.9.9"]);
    found.names("clock", "warn", &["c2 at ", "behind"]);
}

#[tokio::test]
async fn listening_beyond_the_machine_without_tls() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], free_address().port()));
    let router = Daemon::collectord_at("c1", everywhere, "").await;
    let found = doctor(&ask(SocketAddr::from(([127, 0, 0, 1], router.api.port())))).await;
    found.names("insecure", "warn", &["0.0.0.0", "without TLS"]);
}

#[tokio::test]
async fn an_unknown_task_where_only_the_router_can_be_asked() {
    let router = Daemon::collectord("c1", "").await;
    let found = doctor(&format!("{} nosuch", ask(router.api))).await;
    found.names("swarm_unasked", "warn", &["nosuch"]);
    found.names("task_unknown", "fail", &["nosuch"]);
}

/// A fake, for no real router can be told to take its time; two answers in a row would take longer than there is.
#[tokio::test]
async fn a_router_that_takes_its_time_costs_less_than_5_seconds() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let n = stream.read(&mut request).await.unwrap_or(0);
                tokio::time::sleep(Duration::from_millis(1900)).await;
                let path = String::from_utf8_lossy(&request[..n]);
                let body = if path.starts_with("GET /v1/tasks") {
                    r#"{"complete": true, "tasks": [{"id": "t1", "name": "web.1", "state": "running"}]}"#
                } else if path.starts_with("GET /v1/nodes") {
                    r#"{"complete": true, "nodes": []}"#
                } else {
                    r#"{"ring_id": "r", "replicas": 1, "members": []}"#
                };
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                let _written = stream.write_all((head + body).as_bytes()).await;
            });
        }
    });
    let begun = Instant::now();
    let found = doctor(&format!("{} web", ask(address))).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    found.names("router_silent", "fail", &["did not answer"]);
    found.names("no_nodes", "warn", &[]);
    found.names("task_unexamined", "warn", &["1 of the tasks of web"]);
}
