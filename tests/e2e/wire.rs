//! What goes over the wire from a shipper to a collector, as a proxy in between sees it.

use crate::rig::{Daemon, member, series};
use crate::scripted::{Scripted, figures};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use swarmstats::stat;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Passes connections on to a server and records what clients send.
struct Proxy {
    address: SocketAddr,
    recorded: Arc<Mutex<Vec<u8>>>,
    _loops: JoinSet<()>,
}

impl Proxy {
    async fn to(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, recorded) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
        let mut loops = JoinSet::new();
        let record = recorded.clone();
        loops.spawn(async move {
            let mut passing = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                passing.spawn(pass(client, TcpStream::connect(server).await.unwrap(), record.clone()));
            }
        });
        Proxy { address, recorded, _loops: loops }
    }
    fn n_bytes(&self) -> usize {
        self.recorded.lock().unwrap().len()
    }
    fn places(&self, text: &str) -> Vec<usize> {
        let recorded = self.recorded.lock().unwrap();
        let windows = recorded.windows(text.len()).enumerate();
        windows.filter(|(_, window)| *window == text.as_bytes()).map(|(place, _)| place).collect()
    }
}

async fn pass(client: TcpStream, server: TcpStream, record: Arc<Mutex<Vec<u8>>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let forth = async {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(n @ 1..) = from_client.read(&mut buffer).await {
            record.lock().unwrap().extend_from_slice(&buffer[..n]);
            if to_server.write_all(&buffer[..n]).await.is_err() {
                break;
            }
        }
    };
    let back = async { drop(tokio::io::copy(&mut from_server, &mut to_client).await) };
    tokio::select! { () = forth => {}, () = back => {} }
}

#[tokio::test]
async fn a_task_id_is_on_the_wire_once_a_stream() {
    let daemon = Daemon::collectord("c1", "").await;
    let proxy = Proxy::to(daemon.api).await;
    let mut shipper = Scripted::new("node-1", &[("c1", proxy.address)]);
    let ids: Vec<String> = (0..20).map(|i| format!("made0up0id0of0task0{i:05}")).collect();
    for (i, id) in ids.iter().enumerate() {
        shipper.run("web", id, figures(i as u64, 1 << 20));
    }
    shipper.round().await;
    let after_first = proxy.n_bytes();
    for round in 1..30 {
        for (i, id) in ids.iter().enumerate() {
            shipper.run("web", id, figures(i as u64 + round, (1 << 20) + round * 4096));
        }
        shipper.round().await;
    }
    for id in &ids {
        // Its introduction has it twice: as itself, and at the end of the task's name.
        let places = proxy.places(id);
        assert!(places.len() == 2 && places.iter().all(|place| *place < after_first), "{id}: {places:?}");
    }
    let n_bytes = proxy.n_bytes();
    shipper.close(&member("c1"));
    shipper.round().await;
    assert!(ids.iter().all(|id| proxy.places(id).len() == 4), "a second stream introduces each once more");
    // Both ends count the same bytes, and the proxy sees the little that HTTP/2 adds.
    let received = series(daemon.metrics, "swarmstats_collector_received_bytes_total").await.unwrap() as usize;
    assert!(received < proxy.n_bytes() && received > n_bytes / 2, "{received} of {}", proxy.n_bytes());
}

/// The mean size of a batch with so many tasks, `changing` of which change 4 of their 40 stats from batch to batch.
async fn batch_size(n_tasks: usize, changing: bool) -> f64 {
    const ROUNDS: u64 = 20;
    let daemon = Daemon::collectord("c1", "").await;
    let proxy = Proxy::to(daemon.api).await;
    let mut shipper = Scripted::new("node-1", &[("c1", proxy.address)]);
    for i in 0..n_tasks {
        shipper.run("web", &format!("task{i:04}"), figures(i as u64, 1 << 20));
    }
    shipper.settle().await;
    let before = proxy.n_bytes();
    for round in 1..=ROUNDS {
        if changing {
            for i in 0..n_tasks as u64 {
                let mut values = figures(i, (1 << 20) + 4096 * (round * i % 7));
                values.set(stat::CPU, 1_000_000_000 * i + round * 3_141_593);
                values.set(stat::CPU_USER, round * 2_000_000 + i);
                values.set(stat::PAGE_FAULTS, 5000 + round * (i % 50));
                shipper.run("web", &format!("task{i:04}"), values);
            }
        }
        shipper.round().await;
    }
    (proxy.n_bytes() - before) as f64 / ROUNDS as f64
}

#[tokio::test]
async fn an_idle_task_costs_under_three_bytes_a_batch() {
    let (few, many) = (batch_size(10, false).await, batch_size(110, false).await);
    let per_task = (many - few) / 100.0;
    println!("a batch with 10 idle tasks: {few:.1} B, with 110: {many:.1} B, an idle task: {per_task:.2} B");
    assert!(per_task < 3.0, "{per_task}");
    assert!(few < 200.0, "{few}");
    let busy = (batch_size(110, true).await - batch_size(10, true).await) / 100.0;
    println!("a task of which 4 of 40 stats change: {busy:.1} B a batch, {:.2} B a stat", busy / 40.0);
    assert!(busy / 40.0 <= 0.45, "DESIGN §9: {busy} B a task");
}
