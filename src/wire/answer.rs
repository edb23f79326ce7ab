//! The answering half of the wire: selectors, holdings and reports.

use super::{WireError, labels, pb, text};
use crate::model::{Counts, Gen, MemberId, N_COUNTS, RingId, Values, Version};
use crate::stat::Stat;
use crate::view::{Ask, Holding, MAX_SELECTORS, Missing, NodeView, Point, Report, RowView, Selector, TaskView};
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

impl From<&TaskView> for pb::TaskSample {
    fn from(task: &TaskView) -> Self {
        let (previous_monotonic_ns, previous_cpu_ns) = task.previous.unwrap_or_default();
        let point = |point: &Point| pb::Point { monotonic_ns: point.monotonic, values: Some((&point.values).into()) };
        pb::TaskSample {
            meta: Some(task.meta.as_ref().into()),
            version: version(task.version),
            fresh: task.fresh,
            age_ms: task.age,
            values: Some((&task.values).into()),
            monotonic_ns: task.monotonic,
            previous_monotonic_ns,
            previous_cpu_ns,
            ended: task.ended,
            points: task.points.iter().map(point).collect(),
            primary: task.primary,
        }
    }
}

impl TryFrom<pb::TaskSample> for TaskView {
    type Error = WireError;
    fn try_from(task: pb::TaskSample) -> Result<Self, WireError> {
        let point = |point: pb::Point| Ok(Point { monotonic: point.monotonic_ns, values: values_of(point.values)? });
        Ok(TaskView {
            meta: Arc::new(task.meta.ok_or(WireError::Lacks("task"))?.try_into()?),
            version: version_of(task.version)?,
            fresh: task.fresh,
            ended: task.ended,
            primary: task.primary,
            age: task.age_ms,
            values: values_of(task.values)?,
            monotonic: task.monotonic_ns,
            previous: (task.previous_monotonic_ns > 0).then_some((task.previous_monotonic_ns, task.previous_cpu_ns)),
            points: task.points.into_iter().map(point).collect::<Result<_, WireError>>()?,
        })
    }
}

impl From<&RowView> for pb::RowSample {
    fn from(row: &RowView) -> Self {
        pb::RowSample {
            meta: Some(row.meta.as_ref().into()),
            version: version(row.version),
            fresh: row.fresh,
            age_ms: row.age,
            values: Some((&row.values).into()),
            counts: row.counts.list(),
        }
    }
}

impl TryFrom<pb::RowSample> for RowView {
    type Error = WireError;
    fn try_from(row: pb::RowSample) -> Result<Self, WireError> {
        if row.counts.len() < N_COUNTS - crate::stat::N_STATS {
            return Err(WireError::Lacks("counts of a row"));
        }
        Ok(RowView {
            meta: Arc::new(row.meta.ok_or(WireError::Lacks("row"))?.try_into()?),
            version: version_of(row.version)?,
            fresh: row.fresh,
            age: row.age_ms,
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
        })
    }
}

impl From<&Holding> for pb::Snapshot {
    fn from(holding: &Holding) -> Self {
        pb::Snapshot {
            member: holding.member.to_string(),
            r#gen: holding.gen_.0,
            ring_id: holding.ring_id.0,
            tasks: holding.tasks.iter().map(Into::into).collect(),
            rows: holding.rows.iter().map(Into::into).collect(),
            nodes: holding.nodes.iter().map(Into::into).collect(),
            ..pb::Snapshot::default()
        }
    }
}

impl TryFrom<pb::Snapshot> for Holding {
    type Error = WireError;
    fn try_from(snapshot: pb::Snapshot) -> Result<Self, WireError> {
        Ok(Holding {
            member: MemberId::new(snapshot.member)?,
            gen_: Gen(snapshot.r#gen),
            ring_id: RingId(snapshot.ring_id),
            tasks: snapshot.tasks.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            rows: snapshot.rows.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            nodes: snapshot.nodes.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
        })
    }
}

impl From<&Report> for pb::Snapshot {
    fn from(report: &Report) -> Self {
        let missing = |missing: &Missing| pb::Missing { what: missing.what.clone(), why: missing.why.clone() };
        pb::Snapshot {
            tasks: report.tasks.iter().map(Into::into).collect(),
            rows: report.rows.iter().map(Into::into).collect(),
            nodes: report.nodes.iter().map(Into::into).collect(),
            complete: report.complete,
            missing: report.missing.iter().map(missing).collect(),
            warnings: report.warnings.clone(),
            ..pb::Snapshot::default()
        }
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

/// What a subscription asks for; an empty list or an empty selector is refused.
pub fn ask(selectors: Vec<pb::Selector>, points: u32) -> Result<Ask, WireError> {
    if selectors.len() > MAX_SELECTORS {
        return Err(WireError::TooMuch("selector list", selectors.len(), MAX_SELECTORS));
    }
    let selectors: Vec<Selector> = selectors.into_iter().map(Selector::try_from).collect::<Result<_, _>>()?;
    if selectors.is_empty() || selectors.iter().any(Selector::is_empty) {
        return Err(WireError::Lacks("selector that names something (say `all` to mean everything)"));
    }
    Ok(Ask { selectors, points: points as usize })
}
