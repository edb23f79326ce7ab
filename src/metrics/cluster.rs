//! A router's report as series of the whole cluster: services, stacks and nodes.

use super::exposition::{Cluster, CountSeries, GroupSeries, NodeSeries, Series};
use super::labels;
use crate::aggregate::ScrapedNode;
use crate::figures::{By, Group, Rising, groups};
use crate::model::Values;
use crate::stat::COUNTERS;
use crate::view::{Report, TaskView};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The series of a report; `rising` has taken it.
pub fn cluster(report: &Report, rising: &Rising) -> Series {
    let (services, stacks) = (groups(report, By::Service), groups(report, By::Stack));
    let stale_services = stale(report, |task| task.meta.service_id.as_str().into());
    let stale_stacks = stale(report, |task| task.meta.stack.clone());
    let list = report.swarm.as_ref().map(|truth| &truth.list);
    let desired_of_service =
        |group: &Group| list.and_then(|list| list.services.get(&*group.id)).map(|service| service.desired);
    let desired_of_stack = |group: &Group| {
        let of_stack = list?.services.values().filter(|service| *service.stack == *group.id);
        Some(of_stack.map(|service| service.desired).sum())
    };
    let of_service = |group: &Group| labels::of_group(&group.id, &group.name, &group.stack);
    let of_stack = |group: &Group| labels::of_stack(&group.id);
    let whole = Cluster {
        complete: report.complete,
        stacks: series(&stacks, of_stack, |group| rising.of_stack(&group.id)),
        tasks: [states(&services, of_service, &stale_services), states(&stacks, of_stack, &stale_stacks)],
        desired: [counts(&services, of_service, desired_of_service), counts(&stacks, of_stack, desired_of_stack)],
    };
    let fresh = report.nodes.iter().filter(|node| node.fresh && !node.values.is_empty());
    let nodes = fresh.map(|node| {
        let (meta, values, age) = (node.meta.clone(), node.values.clone(), node.age);
        NodeSeries::from(ScrapedNode { meta, values, age })
    });
    Series {
        services: series(&services, of_service, |group| rising.of_service(&group.id)),
        nodes: nodes.collect(),
        cluster: Some(whole),
        ..Series::default()
    }
}

/// Gauges as they are now, counters as they have risen.
fn series<'a>(
    groups: &[Group],
    labels: impl Fn(&Group) -> Vec<u8>,
    counters: impl Fn(&Group) -> Option<&'a Values>,
) -> Vec<GroupSeries> {
    let of_group = |group: &Group| {
        let mut values = group.stats.clone();
        values.retain(!COUNTERS);
        values.add_all(counters(group).unwrap_or(&Values::default()));
        GroupSeries { labels: labels(group).into(), values, fresh: None }
    };
    groups.iter().map(of_group).collect()
}

/// How many tasks of each group are in which state.
fn states(groups: &[Group], labels: impl Fn(&Group) -> Vec<u8>, stale: &BTreeMap<Arc<str>, u64>) -> Vec<CountSeries> {
    let of_group = |group: &Group| {
        let stale = stale.get(&group.id).copied().unwrap_or(0);
        let missing = group.tasks.known.saturating_sub(group.tasks.fresh + stale);
        [("fresh", group.tasks.fresh), ("stale", stale), ("missing", missing)].map(|(state, value)| {
            let mut labels = labels(group);
            labels::push(&mut labels, "state", state);
            CountSeries { labels: labels.into(), value }
        })
    };
    groups.iter().flat_map(of_group).collect()
}

fn counts(
    groups: &[Group],
    labels: impl Fn(&Group) -> Vec<u8>,
    count: impl Fn(&Group) -> Option<u64>,
) -> Vec<CountSeries> {
    let of_group = |group: &Group| Some(CountSeries { labels: labels(group).into(), value: count(group)? });
    groups.iter().filter_map(of_group).collect()
}

/// Tasks that run but whose newest sample is too old, by group.
fn stale(report: &Report, group: impl Fn(&TaskView) -> Arc<str>) -> BTreeMap<Arc<str>, u64> {
    let mut stale: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    for task in report.tasks.iter().filter(|task| !task.fresh && !task.ended) {
        *stale.entry(group(task)).or_default() += 1;
    }
    stale
}
