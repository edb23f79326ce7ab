//! Small worlds: tasks, rows, nodes and what fake members hold of them.
//!
//! Service `burn` has id `id-burn` and stack `demo`, node `n1` is named `host-n1`; everything is of version (1, 10), fresh and 200 ms old.

#![allow(dead_code, reason = "not every suite uses every helper")]

use std::sync::Arc;
use swarmstats::join::{Answers, Bounds, Join};
use swarmstats::model::{
    Counts, Gen, Labels, MemberId, Nanos, NodeId, NodeMeta, RingId, RowMeta, ServiceId, TaskId, TaskMeta, Values,
    Version,
};
use swarmstats::stat;
use swarmstats::view::{Ask, Holding, NodeView, Report, RowView, Selector, TaskView};

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
        previous: Some((9 * SECOND, 4 * SECOND)),
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
    NodeView { meta: Arc::new(meta), version: version(1, 10), fresh: true, age: 200 }
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
    Holding { member: member(of), gen_: Gen(1), ring_id: RingId(7), tasks, rows, nodes }
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
    Ask { selectors: vec![selector], points: 0 }
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
