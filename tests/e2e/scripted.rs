//! A shipper that a test drives by hand: the real outbox and the real stream, fed with made-up readings.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use swarmstats::clock;
use swarmstats::config::Address;
use swarmstats::grpc::{self, StreamError, UpdateStream};
use swarmstats::message::{Batch, Hi, Refused};
use swarmstats::model::{Labels, MemberId, NodeId, ServiceId, TaskId, TaskMeta, Values};
use swarmstats::outbox::{Ended, Outbox, OutboxConfig, Reading};
use swarmstats::shard::{Member, Ring};
use swarmstats::stat::{self, Level};
use swarmstats::wire::Answer;
use tokio::time::timeout;

const SECOND: u64 = 1_000_000_000;
/// A test on a busy machine takes its time between rounds: figures stay fresh for three of these.
pub(crate) const INTERVAL: u64 = 20 * SECOND;
/// L.
const LEASE: u64 = 60 * SECOND;
const DEADLINE: Duration = Duration::from_secs(10);
pub(crate) const MAX_MESSAGE: usize = 8 << 20;

pub(crate) fn address(socket: SocketAddr) -> Address {
    Address { host: socket.ip().to_string(), port: socket.port() }
}

/// A made-up task of a made-up node.
pub(crate) fn task(node: &str, service: &str, id: &str) -> Arc<TaskMeta> {
    Arc::new(TaskMeta {
        task_id: TaskId::new(id).unwrap(),
        task_name: format!("{service}.1.{id}").into(),
        slot: "1".into(),
        service_id: ServiceId::new(format!("id-of-{service}")).unwrap(),
        service_name: service.into(),
        stack: "shop".into(),
        node_id: NodeId::new(node).unwrap(),
        node_name: format!("name-of-{node}").into(),
        container_id: id.bytes().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        image: "made-up:1".into(),
        started_at: 1_700_000_000_000,
        labels: Labels::new(),
        shares_netns: false,
    })
}

/// Made-up figures: so much CPU time in seconds and memory in bytes, and every other stat of the level standing still.
pub(crate) fn figures(cpu: u64, memory: u64) -> Values {
    let mut values: Values =
        swarmstats::model::bits(Level::Standard.mask()).map(|stat| (stat, 1000 + stat.number() as u64)).collect();
    values.set(stat::CPU, cpu * SECOND);
    values.set(stat::MEMORY_USED, memory);
    values
}

pub(crate) struct Scripted {
    pub(crate) node: String,
    pub(crate) outbox: Outbox,
    ring: Arc<Ring>,
    addresses: BTreeMap<MemberId, SocketAddr>,
    streams: BTreeMap<MemberId, (u64, UpdateStream)>,
    /// The tasks that run, as last told.
    pub(crate) tasks: BTreeMap<String, (Arc<TaskMeta>, Option<Values>)>,
    pub(crate) ended: Vec<Ended>,
    /// The machine's own figures, as last told.
    pub(crate) machine: Values,
    /// Bytes of the batches of the last round, by their messages' lengths.
    pub(crate) sent: usize,
}

impl Scripted {
    pub(crate) fn new(node: &str, members: &[(&str, SocketAddr)]) -> Scripted {
        let cfg = OutboxConfig {
            node_id: NodeId::new(node).unwrap(),
            node_name: format!("name-of-{node}").into(),
            started: clock::wall(),
            // It has waited for the leases of the one before it to end (LEDGER 16).
            started_monotonic: clock::monotonic().saturating_sub(LEASE + 1),
            nonce: 7,
            stats: Level::Standard.mask(),
            interval: INTERVAL,
            lease: LEASE,
            overlap: 0,
            row_keep: 86_400 * SECOND,
            max_catch_up: 3600 * SECOND,
        };
        let mut shipper = Scripted {
            node: node.into(),
            outbox: Outbox::new(cfg, None),
            ring: ring(members),
            addresses: BTreeMap::new(),
            streams: BTreeMap::new(),
            tasks: BTreeMap::new(),
            ended: Vec::new(),
            machine: Values::default(),
            sent: 0,
        };
        shipper.set_members(members);
        shipper
    }

    pub(crate) fn set_members(&mut self, members: &[(&str, SocketAddr)]) {
        self.ring = ring(members);
        self.outbox.set_ring(self.ring.clone());
        self.addresses.extend(members.iter().map(|(id, address)| (MemberId::new(id).unwrap(), *address)));
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(crate) fn run(&mut self, service: &str, id: &str, values: Values) {
        self.tasks.insert(id.into(), (task(&self.node, service, id), Some(values)));
    }

    /// A task's end, with its last figures.
    pub(crate) fn end(&mut self, id: &str, last: Values) {
        let (meta, _) = self.tasks.remove(id).unwrap();
        self.ended.push(Ended { meta, values: Some(last) });
    }

    /// Opens a stream to a member: its greeting.
    pub(crate) async fn open(&mut self, member: &MemberId) -> Result<Result<Hi, Refused>, StreamError> {
        let hello = self.outbox.hello(member);
        let channel = grpc::connect(&address(self.addresses[member])).await.unwrap();
        let mut stream = UpdateStream::open(channel, &hello, MAX_MESSAGE).await?;
        let Answer::Greeting(greeting) = timeout(DEADLINE, stream.next()).await.unwrap()? else {
            panic!("no greeting")
        };
        self.outbox.greeted(member, hello.k, &greeting, clock::monotonic(), clock::wall());
        if greeting.is_ok() {
            self.streams.insert(member.clone(), (hello.k, stream));
        }
        Ok(greeting)
    }

    /// One sample round of the tasks as they are.
    pub(crate) fn observe(&mut self) {
        let readings =
            self.tasks.values().map(|(meta, values)| Reading { meta: meta.clone(), values: values.clone(), age: 0 });
        let (readings, ended) = (readings.collect::<Vec<_>>(), std::mem::take(&mut self.ended));
        self.outbox.observe(clock::monotonic(), self.machine.clone(), readings, ended);
        self.sent = 0;
    }

    /// Tells a member what is due there; opens a stream where there is none.
    pub(crate) async fn tell(&mut self, member: &MemberId) -> Result<(), StreamError> {
        if !self.streams.contains_key(member) {
            self.open(member).await?.expect("accepted");
        }
        while let Some(batch) = self.outbox.next_batch(member, clock::monotonic()) {
            self.send(member, &batch).await?;
        }
        Ok(())
    }

    /// Sends a batch and takes its answer; after an error the stream is closed.
    pub(crate) async fn send(&mut self, member: &MemberId, batch: &Batch) -> Result<(), StreamError> {
        let (k, stream) = self.streams.get_mut(member).unwrap();
        let exchange = async {
            self.sent += stream.send(batch).await?;
            stream.next().await
        };
        match timeout(DEADLINE, exchange).await.unwrap() {
            Ok(Answer::Ack(ack)) => self.outbox.acked(member, *k, &ack, clock::monotonic()),
            Ok(Answer::Bye(bye)) => {
                self.outbox.bye(member, *k, &bye);
                self.streams.remove(member);
            }
            Ok(Answer::Greeting(_)) => panic!("a second greeting"),
            Err(error) => {
                self.close(member);
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn close(&mut self, member: &MemberId) {
        if let Some((k, _)) = self.streams.remove(member) {
            self.outbox.closed(member, k);
        }
    }

    /// What the member says next on its stream; a bye is taken.
    pub(crate) async fn hear(&mut self, member: &MemberId) -> Result<Answer, StreamError> {
        let (k, stream) = self.streams.get_mut(member).unwrap();
        let answer = timeout(DEADLINE, stream.next()).await.unwrap();
        if let Ok(Answer::Bye(bye)) = &answer {
            self.outbox.bye(member, *k, bye);
            self.streams.remove(member);
        }
        answer
    }

    /// A sample round, told to everybody who owns some of it; and once more, so that what they echoed proves it fresh.
    pub(crate) async fn round(&mut self) {
        self.observe();
        for member in self.outbox.destinations() {
            self.tell(&member).await.unwrap();
        }
    }

    /// Two rounds: the first echo of a token proves the second fresh.
    pub(crate) async fn settle(&mut self) {
        self.round().await;
        self.round().await;
    }
}

fn ring(members: &[(&str, SocketAddr)]) -> Arc<Ring> {
    let members = members.iter().map(|(id, _)| Member { id: MemberId::new(id).unwrap(), node: None });
    Arc::new(Ring::new(members, 1).unwrap())
}
