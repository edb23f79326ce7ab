//! The answering half of the wire: selectors, holdings and reports.

use super::texts::{Alike, meta_of, shared, texts_of};
use super::{WireError, labels, pb, text};
use crate::figures::NEEDED;
use crate::model::{Counts, Gen, MemberId, N_COUNTS, RingId, Values, Version, bits};
use crate::stat::{self, Stat};
use crate::view::{
    Ask, Holding, MAX_SELECTORS, Missing, NodeView, Point, Previous, Report, RowView, Selector, TaskView, Texts,
};
use std::sync::Arc;

impl From<&Values> for pb::Values {
    fn from(values: &Values) -> Self {
        pb::Values { present: values.present(), values: values.iter().map(|(_, value)| value).collect() }
    }
}

impl TryFrom<pb::Values> for Values {
    type Error = WireError;
    fn try_from(given: pb::Values) -> Result<Self, WireError> {
        if given.present.count_ones() as usize != given.values.len() {
            return Err(WireError::Lacks("value of each present stat"));
        }
        let mut values = Values::default();
        let mut mask = given.present;
        for value in given.values {
            let number = mask.trailing_zeros();
            mask &= mask - 1;
            // A number of a later version: passed over, nothing shifts.
            if let Some(stat) = Stat::from_number(number) {
                values.set(stat, value);
            }
        }
        Ok(values)
    }
}

fn version(version: Version) -> Option<pb::Version> {
    Some(pb::Version { epoch: version.epoch, q: version.q })
}

fn version_of(version: Option<pb::Version>) -> Result<Version, WireError> {
    let version = version.ok_or(WireError::Lacks("version"))?;
    Ok(Version { epoch: version.epoch, q: version.q })
}

fn values_of(values: Option<pb::Values>) -> Result<Values, WireError> {
    values.unwrap_or_default().try_into()
}

/// CPU time has a field of its own, which older peers read.
fn others_than_cpu(previous: &Previous) -> pb::Values {
    let others = previous.iter().filter(|(stat, _)| *stat != stat::CPU);
    (&others.collect::<Values>()).into()
}

/// A task's sample but for its texts.
fn sample(task: &TaskView) -> pb::TaskSample {
    let previous = task.previous.as_ref();
    let point = |point: &Point| pb::Point { monotonic_ns: point.monotonic, values: Some((&point.values).into()) };
    pb::TaskSample {
        meta: None,
        alike: 0,
        version: version(task.version),
        fresh: task.fresh,
        age_ms: task.age,
        values: Some((&task.values).into()),
        monotonic_ns: task.monotonic,
        previous_monotonic_ns: previous.map_or(0, |previous| previous.monotonic),
        previous_cpu_ns: previous.and_then(|previous| previous.get(stat::CPU)),
        previous: previous.map(others_than_cpu),
        ended: task.ended,
        points: task.points.iter().map(point).collect(),
        primary: task.primary,
    }
}

/// The samples of tasks, and the texts that they have in common.
fn samples(tasks: &[TaskView], texts: Texts) -> (Vec<pb::TaskSample>, Vec<pb::TaskMeta>) {
    if texts == Texts::Whole {
        let whole = |task: &TaskView| pb::TaskSample { meta: Some(task.meta.as_ref().into()), ..sample(task) };
        return (tasks.iter().map(whole).collect(), Vec::new());
    }
    let (metas, alike) = shared(tasks, texts);
    let with_meta = |(task, (meta, alike)): (&TaskView, _)| pb::TaskSample { meta: Some(meta), alike, ..sample(task) };
    (tasks.iter().zip(metas).map(with_meta).collect(), alike)
}

fn task_of(task: pb::TaskSample, alike: &[Alike]) -> Result<TaskView, WireError> {
    let point = |point: pb::Point| Ok(Point { monotonic: point.monotonic_ns, values: values_of(point.values)? });
    let mut counters = values_of(task.previous)?;
    counters.put(stat::CPU, task.previous_cpu_ns);
    let clock = task.previous_monotonic_ns;
    Ok(TaskView {
        meta: Arc::new(meta_of(task.meta.ok_or(WireError::Lacks("task"))?, task.alike, alike)?),
        version: version_of(task.version)?,
        fresh: task.fresh,
        ended: task.ended,
        primary: task.primary,
        age: task.age_ms,
        values: values_of(task.values)?,
        monotonic: task.monotonic_ns,
        previous: Previous::of(clock, &counters).filter(|_| clock > 0),
        points: task.points.into_iter().map(point).collect::<Result<_, WireError>>()?,
    })
}

impl From<&RowView> for pb::RowSample {
    fn from(row: &RowView) -> Self {
        pb::RowSample {
            meta: Some(row.meta.as_ref().into()),
            version: version(row.version),
            fresh: row.fresh,
            age_ms: row.age,
            primary: row.primary,
            values: Some((&row.values).into()),
            counts: row.counts.list(),
        }
    }
}

impl TryFrom<pb::RowSample> for RowView {
    type Error = WireError;
    fn try_from(row: pb::RowSample) -> Result<Self, WireError> {
        if row.counts.len() < N_COUNTS - stat::N_STATS {
            return Err(WireError::Lacks("counts of a row"));
        }
        Ok(RowView {
            meta: Arc::new(row.meta.ok_or(WireError::Lacks("row"))?.try_into()?),
            version: version_of(row.version)?,
            fresh: row.fresh,
            age: row.age_ms,
            primary: row.primary,
            values: values_of(row.values)?,
            counts: Counts::of_list(&row.counts),
        })
    }
}

impl From<&NodeView> for pb::NodeSample {
    fn from(node: &NodeView) -> Self {
        pb::NodeSample {
            meta: Some(node.meta.as_ref().into()),
            version: version(node.version),
            fresh: node.fresh,
            age_ms: node.age,
            primary: node.primary,
            values: Some((&node.values).into()),
            monotonic_ns: node.monotonic,
            previous: node.previous.as_ref().map(|previous| pb::Point {
                monotonic_ns: previous.monotonic,
                values: Some((&previous.iter().collect::<Values>()).into()),
            }),
        }
    }
}

impl TryFrom<pb::NodeSample> for NodeView {
    type Error = WireError;
    fn try_from(node: pb::NodeSample) -> Result<Self, WireError> {
        Ok(NodeView {
            meta: Arc::new(node.meta.ok_or(WireError::Lacks("node"))?.try_into()?),
            version: version_of(node.version)?,
            fresh: node.fresh,
            age: node.age_ms,
            primary: node.primary,
            values: values_of(node.values)?,
            monotonic: node.monotonic_ns,
            previous: match node.previous {
                Some(point) => Previous::of(point.monotonic_ns, &values_of(point.values)?),
                None => None,
            },
        })
    }
}

/// What a process holds, as an answer to who can do with so much text.
pub fn held(holding: &Holding, texts: Texts) -> pb::Snapshot {
    let (tasks, alike) = samples(&holding.tasks, texts);
    pb::Snapshot {
        member: holding.member.to_string(),
        r#gen: holding.gen_.0,
        ring_id: holding.ring_id.0,
        young: holding.young,
        forgot: holding.forgot,
        tasks,
        alike,
        rows: holding.rows.iter().map(Into::into).collect(),
        nodes: holding.nodes.iter().map(Into::into).collect(),
        swarm: holding.swarm.as_ref().map(Into::into),
        ..pb::Snapshot::default()
    }
}

/// The other way.
pub fn holding(snapshot: pb::Snapshot) -> Result<Holding, WireError> {
    let alike = snapshot.alike.into_iter().map(Alike::try_from).collect::<Result<Vec<_>, _>>()?;
    Ok(Holding {
        member: MemberId::new(snapshot.member)?,
        gen_: Gen(snapshot.r#gen),
        ring_id: RingId(snapshot.ring_id),
        young: snapshot.young,
        forgot: snapshot.forgot,
        tasks: snapshot.tasks.into_iter().map(|task| task_of(task, &alike)).collect::<Result<_, _>>()?,
        rows: snapshot.rows.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        nodes: snapshot.nodes.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        swarm: snapshot.swarm.map(TryInto::try_into).transpose()?,
    })
}

/// A whole answer, to who can do with so much text.
pub fn reported(report: &Report, texts: Texts) -> pb::Snapshot {
    let missing = |missing: &Missing| pb::Missing { what: missing.what.clone(), why: missing.why.clone() };
    let (tasks, alike) = samples(&report.tasks, texts);
    pb::Snapshot {
        tasks,
        alike,
        rows: report.rows.iter().map(Into::into).collect(),
        nodes: report.nodes.iter().map(Into::into).collect(),
        complete: report.complete,
        missing: report.missing.iter().map(missing).collect(),
        warnings: report.warnings.clone(),
        swarm: report.swarm.as_ref().map(Into::into),
        ..pb::Snapshot::default()
    }
}

impl From<&Selector> for pb::Selector {
    fn from(selector: &Selector) -> Self {
        let given = |text: &Option<Arc<str>>| text.as_deref().unwrap_or_default().to_string();
        pb::Selector {
            all: selector.all,
            service: given(&selector.service),
            task_id: given(&selector.task),
            node: given(&selector.node),
            stack: given(&selector.stack),
            labels: selector.labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        }
    }
}

impl TryFrom<pb::Selector> for Selector {
    type Error = WireError;
    fn try_from(selector: pb::Selector) -> Result<Self, WireError> {
        let given = |what, given: String| if given.is_empty() { Ok(None) } else { text(what, given).map(Some) };
        Ok(Selector {
            all: selector.all,
            service: given("service", selector.service)?,
            task: given("task", selector.task_id)?,
            node: given("node", selector.node)?,
            stack: given("stack", selector.stack)?,
            labels: labels(selector.labels)?,
        })
    }
}

/// A question as a subscription, answered once.
pub fn subscription(ask: &Ask) -> pb::Subscription {
    let stats = match ask.stats {
        u64::MAX => Vec::new(),
        // None would stand for all; what figures need comes along anyway.
        stats => bits(stats | NEEDED).map(|stat| stat.number() as u32).collect(),
    };
    pb::Subscription {
        selectors: ask.selectors.iter().map(Into::into).collect(),
        points: u32::try_from(ask.points).unwrap_or(u32::MAX),
        stats,
        texts: texts_of(ask.texts).into(),
        ..pb::Subscription::default()
    }
}

/// What a subscription asks for; an empty list or an empty selector is refused.
pub fn ask(added: &pb::Subscription) -> Result<Ask, WireError> {
    if added.selectors.len() > MAX_SELECTORS {
        return Err(WireError::TooMuch("selector list", added.selectors.len(), MAX_SELECTORS));
    }
    let selectors: Vec<Selector> = added.selectors.iter().cloned().map(Selector::try_from).collect::<Result<_, _>>()?;
    if selectors.is_empty() || selectors.iter().any(Selector::is_empty) {
        return Err(WireError::Lacks("selector that names something (say `all` to mean everything)"));
    }
    // A number of a later version asks for nothing that is known here.
    let numbers = added.stats.iter().filter_map(|number| Stat::from_number(*number));
    let stats = if added.stats.is_empty() { u64::MAX } else { numbers.fold(0, |mask, stat| mask | stat.bit()) };
    Ok(Ask { selectors, points: added.points as usize, stats, texts: added.texts().into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeMeta;

    fn bare() -> pb::TaskSample {
        let id = || "t".to_string();
        let meta = pb::TaskMeta { task_id: id(), service_id: id(), node_id: id(), ..pb::TaskMeta::default() };
        pb::TaskSample { meta: Some(meta), version: Some(pb::Version { epoch: 1, q: 2 }), ..pb::TaskSample::default() }
    }

    fn there_and_back(task: &TaskView, texts: Texts) -> TaskView {
        let (samples, alike) = samples(&[task.clone(), task.clone()], texts);
        let alike: Vec<_> = alike.into_iter().map(|meta| Alike::try_from(meta).unwrap()).collect();
        assert_eq!(alike.len(), usize::from(texts != Texts::Whole), "two alike share it");
        task_of(samples.into_iter().next_back().unwrap(), &alike).unwrap()
    }

    #[test]
    fn texts_in_common_go_once_and_are_as_they_were() {
        let mut task = task_of(bare(), &[]).unwrap();
        let meta = Arc::make_mut(&mut task.meta);
        (meta.task_name, meta.slot, meta.container_id) = ("web.1.t".into(), "1".into(), "c0ffee".into());
        (meta.service_name, meta.stack, meta.node_name) = ("web".into(), "shop".into(), "alpha".into());
        (meta.image, meta.started_at, meta.shares_netns) = ("nginx:1".into(), 5, true);
        meta.labels.insert("tier".into(), "front".into());
        for texts in [Texts::Whole, Texts::Shared] {
            assert_eq!(there_and_back(&task, texts), task);
        }
        let summed = there_and_back(&task, Texts::Groups);
        let meta = Arc::make_mut(&mut task.meta);
        (meta.task_name, meta.slot, meta.container_id) = Default::default();
        meta.labels.clear();
        assert_eq!(summed, task, "of its own texts only the id");
        let astray = pb::TaskSample { alike: 1, ..bare() };
        assert_eq!(task_of(astray, &[]).unwrap_err(), WireError::Lacks("texts that a task shares"));
    }

    #[test]
    fn a_question_goes_over_the_wire() {
        let everything = Ask::of(vec![Selector::everything()]);
        assert_eq!(ask(&subscription(&everything)).unwrap(), everything);
        let some = Ask { stats: 0, texts: Texts::Groups, points: 3, ..everything };
        assert_eq!(ask(&subscription(&some)).unwrap(), Ask { stats: NEEDED, ..some.clone() }, "figures stay whole");
        let later = pb::Subscription { stats: vec![63], ..subscription(&some) };
        assert_eq!(ask(&later).unwrap().stats, 0, "a number of a later version is none of ours");
    }

    #[test]
    fn the_reading_before_goes_over_the_wire_and_an_older_peers_is_understood() {
        let values: Values = [(stat::CPU, 0), (stat::RX_BYTES, 5), (stat::IO_WAITING, 7)].into_iter().collect();
        let mut task = task_of(bare(), &[]).unwrap();
        assert_eq!(task.previous, None);
        for counters in [values.clone(), [(stat::TX_BYTES, 1)].into_iter().collect()] {
            task.previous = Previous::of(9, &counters);
            assert_eq!(there_and_back(&task, Texts::Whole), task);
        }
        let older = pb::TaskSample { previous_monotonic_ns: 8, previous_cpu_ns: Some(3), ..bare() };
        let read = task_of(older, &[]).unwrap().previous;
        assert_eq!(read, Previous::of(8, &[(stat::CPU, 3)].into_iter().collect()));
    }

    #[test]
    fn a_node_brings_what_its_machine_has() {
        let values: Values = [(stat::CPU_LIMIT, 8_000_000_000), (stat::CPU, 5)].into_iter().collect();
        let previous = Previous::of(3, &values);
        let node_id = crate::model::NodeId::new("n").unwrap();
        let meta = Arc::new(NodeMeta { node_id, node_name: "host".into(), services: Vec::new(), since: 1 });
        let (version, fresh, primary) = (Version::default(), true, true);
        let node = NodeView { meta, version, fresh, age: 1, primary, values, monotonic: 4, previous };
        assert_eq!(NodeView::try_from(pb::NodeSample::from(&node)).unwrap(), node);
    }
}
