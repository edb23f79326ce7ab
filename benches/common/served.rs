//! Collectords of this very code on loopback, each on a thread and runtime of its own, so that its CPU time can be told.

use super::thread_cpu;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use swarmstats::collector::Collector;
use swarmstats::collectord::Collectord;
use swarmstats::config::{self, Address};
use swarmstats::metrics::Registry;
use swarmstats::model::MemberId;
use swarmstats::serve::serve;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::sync::CancellationToken;

/// One collectord; it ends with the process.
pub struct Served {
    pub at: SocketAddr,
    pub member: MemberId,
    pub collector: Collector,
    runtime: Handle,
}

/// A runtime whose whole work is done by the thread that waits on it.
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// `c1` to `cn`, who know each other.
pub fn start(n: usize) -> Vec<Served> {
    let listeners: Vec<_> = (0..n).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    let place = |listener: &TcpListener| listener.local_addr().expect("a bound listener");
    let listed =
        listeners.iter().zip(1..).map(|(listener, number)| format!("{{id: c{number}, addr: '{}'}}", place(listener)));
    let listed = listed.collect::<Vec<_>>().join(", ");
    let config = |number: usize| format!("member: c{number}\nmembers: {{static: [{listed}]}}\n");
    listeners.into_iter().zip(1..).map(|(listener, number)| Served::start(&config(number), listener)).collect()
}

impl Served {
    fn start(text: &str, listener: TcpListener) -> Served {
        let at = listener.local_addr().expect("a bound listener");
        let config = config::Collectord::parse(text, &MemberId::new("host").expect("a word")).expect("a good config");
        let (member, (said, hear)) = (config.member.clone(), mpsc::channel());
        thread::spawn(move || {
            let runtime = runtime();
            let handle = runtime.handle().clone();
            runtime.block_on(async move {
                let collectord = Collectord::new(config, &Registry::new()).expect("a fresh registry");
                listener.set_nonblocking(true).expect("a socket");
                let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
                let never = CancellationToken::new();
                let common = collectord.process_metrics().common.clone();
                tokio::spawn(serve(listener, collectord.routes(), never.clone(), Duration::ZERO, common));
                let collector = collectord.collector().expect("the role is on by default").clone();
                said.send((collector, handle)).expect("the other end waits");
                collectord.run(never).await;
            });
        });
        let (collector, runtime) = hear.recv().expect("it starts");
        Served { at, member, collector, runtime }
    }

    pub fn address(&self) -> Address {
        Address { host: self.at.ip().to_string(), port: self.at.port() }
    }

    /// CPU time of its thread, which does all its work.
    pub fn cpu(&self) -> Duration {
        let (said, hear) = mpsc::channel();
        self.runtime.spawn(async move { said.send(thread_cpu()) });
        hear.recv().expect("it runs")
    }
}
