//! Two members' views of one task.

use crate::model::{TaskId, Version};
use crate::view::{Point, TaskView};
use std::collections::{BTreeMap, btree_map::Entry};

/// The newer of two views of a task. Within an epoch a key is as fresh as any answer proves, for a newer version is a
/// later reading; at equal versions a live one, one that knows the reading before, and a primary's win, in this order.
pub(super) fn merge(tasks: &mut BTreeMap<TaskId, TaskView>, new: TaskView) {
    fn rank(task: &TaskView) -> (Version, bool, bool, bool) {
        (task.version, !task.ended, task.previous.is_some(), task.primary)
    }
    match tasks.entry(new.meta.task_id.clone()) {
        Entry::Vacant(place) => drop(place.insert(new)),
        Entry::Occupied(mut place) => {
            let old = place.get_mut();
            let (fresh, age) = match old.version.epoch.cmp(&new.version.epoch) {
                std::cmp::Ordering::Less => (new.fresh, new.age),
                std::cmp::Ordering::Equal => (old.fresh || new.fresh, old.age.min(new.age)),
                std::cmp::Ordering::Greater => (old.fresh, old.age),
            };
            let points = together(old, &new);
            if rank(&new) > rank(old) {
                *old = new;
            }
            if let Some(points) = points {
                old.points = points;
            }
            (old.fresh, old.age) = (fresh, age);
        }
    }
}

/// The older points of both, each reading once: a copy that is new has none of before its time, one that was away has a
/// hole. `None` of two incarnations or two lives of the shipper, whose clocks differ: there the view that wins has its own.
fn together(one: &TaskView, other: &TaskView) -> Option<Vec<Point>> {
    if one.version.epoch != other.version.epoch || !one.meta.same_incarnation(&other.meta) {
        return None;
    }
    let points = one.points.iter().chain(&other.points).map(|point| (point.monotonic, point));
    Some(points.collect::<BTreeMap<_, _>>().into_values().cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Labels, NodeId, ServiceId, TaskMeta, Values};
    use crate::stat::CPU;

    /// A view of task t1 in round `q`, with points of these moments, each with a CPU counter as high as its moment.
    fn view(epoch: u64, q: u64, container: &str, points: &[u64]) -> TaskView {
        let meta = TaskMeta {
            task_id: TaskId::new("t1").unwrap(),
            task_name: "t1".into(),
            slot: "".into(),
            service_id: ServiceId::new("web").unwrap(),
            service_name: "web".into(),
            stack: "".into(),
            node_id: NodeId::new("n1").unwrap(),
            node_name: "n1".into(),
            container_id: container.into(),
            image: "".into(),
            started_at: 1,
            labels: Labels::new(),
            shares_netns: false,
        };
        let point = |at: &u64| Point { monotonic: *at, values: [(CPU, *at)].into_iter().collect() };
        TaskView {
            meta: meta.into(),
            version: Version { epoch, q },
            fresh: true,
            ended: false,
            primary: false,
            age: 0,
            values: Values::default(),
            monotonic: 0,
            previous: None,
            points: points.iter().map(point).collect(),
        }
    }

    /// The moments of the points after a merge, which must not depend on who comes first.
    fn merged(one: TaskView, other: TaskView) -> Vec<u64> {
        let of = |views: [&TaskView; 2]| {
            let mut tasks = BTreeMap::new();
            views.into_iter().for_each(|view| merge(&mut tasks, view.clone()));
            tasks.into_values().next().unwrap().points.iter().map(|point| point.monotonic).collect::<Vec<_>>()
        };
        let points = of([&one, &other]);
        assert_eq!(points, of([&other, &one]));
        points
    }

    #[test]
    fn the_history_of_a_moved_task_is_that_of_its_old_and_its_new_owner() {
        assert_eq!(merged(view(1, 9, "c", &[6, 7, 8, 9]), view(1, 9, "c", &[8, 9])), [6, 7, 8, 9]);
        assert_eq!(merged(view(1, 5, "c", &[3, 4, 5]), view(1, 9, "c", &[8, 9])), [3, 4, 5, 8, 9], "a gap stays one");
        assert_eq!(merged(view(1, 9, "c", &[1, 3]), view(1, 9, "c", &[2, 3])), [1, 2, 3], "each had missed a round");
    }

    #[test]
    fn other_incarnations_and_other_lives_of_the_shipper_have_other_histories() {
        assert_eq!(merged(view(1, 9, "c", &[8, 9]), view(1, 10, "d", &[10])), [10]);
        assert_eq!(merged(view(1, 9, "c", &[800, 900]), view(2, 1, "c", &[3])), [3]);
    }
}
