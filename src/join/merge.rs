//! Two members' views of one task.

use crate::model::{TaskId, Version};
use crate::view::TaskView;
use std::collections::{BTreeMap, btree_map::Entry};

/// The newer of two views of a task. Within an epoch a key is as fresh as any answer proves, for a newer version is a
/// later reading; at equal versions a live one, one that knows the reading before, and a primary's win, in this order.
pub(super) fn merge(tasks: &mut BTreeMap<TaskId, TaskView>, new: TaskView) {
    fn rank(task: &TaskView) -> (Version, bool, bool, bool, usize) {
        (task.version, !task.ended, task.previous.is_some(), task.primary, task.points.len())
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
            if rank(&new) > rank(old) {
                *old = new;
            }
            (old.fresh, old.age) = (fresh, age);
        }
    }
}
