//! Small worlds: tasks, rows, nodes and what fake members hold of them.
//!
//! Service `burn` has id `id-burn` and stack `demo`, node `n1` is named `host-n1`; everything is of version (1, 10), fresh and 200 ms old.

#![allow(dead_code, reason = "not every suite uses every helper")]

use std::sync::{Arc, Mutex};
use std::time::Duration;
use swarmstats::join::{Answers, Bounds, Join};
use swarmstats::model::{
    Counts, Gen, Key, Labels, MemberId, Nanos, NodeId, NodeMeta, RingId, RowMeta, ServiceId, TaskId, TaskMeta, Values,
    Version,
};
use swarmstats::router::{Asking, Peer, Router, RouterConfig, Store, View};
use swarmstats::shard::{Member, Ring};
use swarmstats::stat;
use swarmstats::view::{Ask, Holding, NodeView, Previous, Report, RowView, Selector, TaskView};
use tokio::sync::watch;

pub(crate) const SECOND: Nanos = 1_000_000_000;
/// Some moment of the reader's clock.
pub(crate) const NOW: Nanos = 1_000 * SECOND;

pub(crate) fn member(id: &str) -> MemberId {
    MemberId::new(id).unwrap()
}

pub(crate) fn version(epoch: u64, q: u64) -> Version {
    Version { epoch, q }
}

pub(crate) fn task(id: &str, service: &str, node: &str) -> TaskView {
    let meta = TaskMeta {
        task_id: TaskId::new(id).unwrap(),
        task_name: format!("{service}.1.{id}").into(),
        slot: "1".into(),
        service_id: ServiceId::new(format!("id-{service}")).unwrap(),
        service_name: service.into(),
        stack: "demo".into(),
        node_id: NodeId::new(node).unwrap(),
        node_name: format!("host-{node}").into(),
        container_id: format!("c0ffee{id}").into(),
        image: "busybox:1".into(),
        started_at: 1_700_000_000_000,
        labels: Labels::new(),
        shares_netns: false,
    };
    TaskView {
        meta: Arc::new(meta),
        version: version(1, 10),
        fresh: true,
        ended: false,
        primary: true,
        age: 200,
        values: [(stat::CPU, 5 * SECOND), (stat::MEMORY_USED, 100)].into_iter().collect(),
        monotonic: 10 * SECOND,
        previous: before(9 * SECOND, 4 * SECOND),
        points: Vec::new(),
    }
}

pub(crate) fn row(node: &str, service: &str, running: u64) -> RowView {
    let meta = RowMeta {
        node_id: NodeId::new(node).unwrap(),
        node_name: format!("host-{node}").into(),
        service_id: ServiceId::new(format!("id-{service}")).unwrap(),
        service_name: service.into(),
        stack: "demo".into(),
        since: 1_600_000_000_000,
    };
    RowView {
        meta: Arc::new(meta),
        version: version(1, 10),
        fresh: true,
        age: 200,
        primary: false,
        values: [(stat::CPU, 50 * SECOND)].into_iter().collect::<Values>(),
        counts: Counts { running, fresh: running, ..Counts::default() },
    }
}

pub(crate) fn node(id: &str, services: &[&str]) -> NodeView {
    let meta = NodeMeta {
        node_id: NodeId::new(id).unwrap(),
        node_name: format!("host-{id}").into(),
        services: services.iter().map(|service| ServiceId::new(format!("id-{service}")).unwrap()).collect(),
        since: 1_600_000_000_000,
    };
    NodeView {
        meta: Arc::new(meta),
        version: version(1, 10),
        fresh: true,
        age: 200,
        primary: false,
        values: Values::default(),
        monotonic: 0,
        previous: None,
    }
}

/// A reading of CPU time alone, to be the one before.
pub(crate) fn before(monotonic: Nanos, cpu: u64) -> Option<Previous> {
    Previous::of(monotonic, &[(stat::CPU, cpu)].into_iter().collect())
}

/// The same thing with something else about it.
pub(crate) fn with<T>(mut thing: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut thing);
    thing
}

pub(crate) fn stale(task: TaskView, age: u64) -> TaskView {
    with(task, |task| (task.fresh, task.age) = (false, age))
}

pub(crate) fn ended(task: TaskView) -> TaskView {
    with(task, |task| (task.fresh, task.ended) = (false, true))
}

pub(crate) fn holding(of: &str, tasks: Vec<TaskView>, rows: Vec<RowView>, nodes: Vec<NodeView>) -> Holding {
    Holding {
        member: member(of),
        gen_: Gen(1),
        ring_id: RingId(7),
        young: false,
        forgot: false,
        tasks,
        rows,
        nodes,
        swarm: None,
    }
}

pub(crate) fn says(holding: Holding) -> (MemberId, Result<Holding, String>) {
    (holding.member.clone(), Ok(holding))
}

pub(crate) fn silent(of: &str) -> (MemberId, Result<Holding, String>) {
    (member(of), Err("deadline 1 s".into()))
}

/// What a fake member answers: of all it holds, what the question takes.
pub(crate) fn answer_of(holding: &Holding, ask: &Ask) -> Holding {
    let takes = |take: &dyn Fn(&Selector) -> bool| ask.selectors.iter().any(take);
    let mut answer = holding.clone();
    answer.tasks.retain(|task| takes(&|selector| selector.takes_task(&task.meta)));
    answer.rows.retain(|row| takes(&|selector| selector.takes_row(&row.meta)));
    for task in &mut answer.tasks {
        let skip = task.points.len().saturating_sub(ask.points);
        task.points.drain(..skip);
    }
    answer
}

pub(crate) fn everything() -> Ask {
    ask(Selector::everything())
}

pub(crate) fn ask(selector: Selector) -> Ask {
    Ask::of(vec![selector])
}

pub(crate) fn service(text: &str) -> Ask {
    ask(Selector { service: Some(text.into()), ..Selector::default() })
}

pub(crate) fn single(task: &str) -> Ask {
    ask(Selector { task: Some(task.into()), ..Selector::default() })
}

pub(crate) fn of_node(text: &str) -> Ask {
    ask(Selector { node: Some(text.into()), ..Selector::default() })
}

/// One read of a router that has just started.
pub(crate) fn read_once(answers: Answers, ask: &Ask) -> Report {
    Join::new(Bounds::default()).read(narrowed(answers, ask), ask, NOW)
}

/// Answers as members give them: of what they hold, what was asked.
pub(crate) fn narrowed(answers: Answers, ask: &Ask) -> Answers {
    answers.into_iter().map(|(member, answer)| (member, answer.map(|holding| answer_of(&holding, ask)))).collect()
}

pub(crate) fn missing(report: &Report) -> Vec<(&str, &str)> {
    report.missing.iter().map(|missing| (missing.what.as_str(), missing.why.as_str())).collect()
}

pub(crate) fn ids(report: &Report) -> Vec<&str> {
    report.tasks.iter().map(|task| task.meta.task_id.as_str()).collect()
}

/// How a fake peer behaves at the moment.
#[derive(Clone)]
pub(crate) enum Mood {
    Answers,
    /// As a process stopped by SIGSTOP: the question is taken and never answered.
    Frozen,
    /// Answers after this long.
    Slow(Duration),
    /// As a port nobody listens on.
    Refuses(&'static str),
    Panics,
}

/// A member in memory; serves as this process's own store as well.
pub(crate) struct FakeMember {
    pub(crate) holding: Mutex<Holding>,
    pub(crate) mood: Mutex<Mood>,
    pub(crate) asked: Mutex<Vec<Ask>>,
}

impl FakeMember {
    pub(crate) fn new(holding: Holding) -> Arc<FakeMember> {
        Arc::new(FakeMember { holding: Mutex::new(holding), mood: Mutex::new(Mood::Answers), asked: Mutex::default() })
    }
    pub(crate) fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }
    pub(crate) fn n_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Store for FakeMember {
    fn hold(&self, ask: &Ask) -> Holding {
        answer_of(&self.holding.lock().unwrap(), ask)
    }
}

impl Peer for FakeMember {
    fn ask(&self, ask: Arc<Ask>) -> Asking {
        self.asked.lock().unwrap().push((*ask).clone());
        let (mood, answer) = (self.mood.lock().unwrap().clone(), self.hold(&ask));
        Box::pin(async move {
            match mood {
                Mood::Answers => Ok(answer),
                Mood::Frozen => std::future::pending().await,
                Mood::Slow(time) => {
                    tokio::time::sleep(time).await;
                    Ok(answer)
                }
                Mood::Refuses(why) => Err(why.into()),
                Mood::Panics => panic!("a fake peer's fault"),
            }
        })
    }
}

/// A tier in memory, seen by the router of its first member.
pub(crate) struct FakeTier {
    pub(crate) members: Vec<Arc<FakeMember>>,
    pub(crate) ring: Arc<Ring>,
    pub(crate) router: Router,
    /// Kept open: the membership may change.
    pub(crate) view: watch::Sender<Arc<View>>,
}

impl FakeTier {
    /// `n` members `c1`, `c2` … with `replicas` copies; keys are where the ring puts them.
    pub(crate) fn new(n: usize, replicas: u8, everything: Holding, config: RouterConfig) -> FakeTier {
        let names: Vec<String> = (1..=n).map(|i| format!("c{i}")).collect();
        let members = names.iter().map(|id| Member { id: member(id), node: None });
        let ring = Arc::new(Ring::new(members, replicas).unwrap());
        let members: Vec<_> = names.iter().map(|id| FakeMember::new(share_of(&ring, id, &everything))).collect();
        let others = names.iter().zip(&members).skip(1);
        let peers = others.map(|(id, peer)| (member(id), peer.clone() as Arc<dyn Peer>)).collect();
        let addresses = names.iter().map(|id| (member(id), format!("{id}:7770"))).collect();
        let (view, seen) = watch::channel(Arc::new(View {
            ring: Some(ring.clone()),
            awaited: false,
            trouble: None,
            addresses,
            peers,
        }));
        let router = Router::new(config, Some((member("c1"), members[0].clone())), seen);
        FakeTier { members, ring, router, view }
    }
    pub(crate) fn owner_of(&self, task: &str) -> &FakeMember {
        let owner = self.ring.primary(&Key::Task(TaskId::new(task).unwrap())).as_str()[1..].parse::<usize>().unwrap();
        &self.members[owner - 1]
    }
}

/// What of everything a member owns.
fn share_of(ring: &Ring, id: &str, everything: &Holding) -> Holding {
    let owns = |key: Key| ring.owners(&key).any(|owner| owner.as_str() == id);
    let mut share = everything.clone();
    (share.member, share.ring_id) = (member(id), ring.id());
    share.tasks.retain(|task| owns(Key::Task(task.meta.task_id.clone())));
    share.rows.retain(|row| owns(Key::Row(row.meta.node_id.clone(), row.meta.service_id.clone())));
    share.nodes.retain(|node| owns(Key::Node(node.meta.node_id.clone())));
    share
}

/// Forty tasks of two services on four nodes.
pub(crate) fn forty() -> Holding {
    let place = |i: usize| (if i < 30 { "burn" } else { "idle" }, format!("n{}", i % 4));
    let tasks: Vec<_> = (0..40)
        .map(|i| {
            let (service, node) = place(i);
            task(&format!("task{i:02}"), service, &node)
        })
        .collect();
    let count = |service: &str, node: &str| (0..40).filter(|i| place(*i) == (service, node.to_string())).count() as u64;
    let nodes = || (0..4).map(|i| format!("n{i}"));
    let rows = ["burn", "idle"].into_iter().flat_map(|s| nodes().map(move |n| (s, n)));
    let rows = rows.map(|(service, node)| row(&node, service, count(service, &node))).collect();
    holding("all", tasks, rows, nodes().map(|id| node(&id, &["burn", "idle"])).collect())
}

/// The usual bounds with a deadline that tests can wait for.
pub(crate) fn quick() -> RouterConfig {
    RouterConfig { query_deadline: Duration::from_millis(400), ..RouterConfig::default() }
}
