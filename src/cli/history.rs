//! The last values of CPU and memory as a line of bars, one an interval.
//!
//! A task's line is made from its older points, one a slot of its own interval (shippers may differ); CPU between two of
//! them from their own times. A point that is missing leaves a blank, and so does a counter that fell (the container was
//! started again). A group's line is the sum over its tasks in slots of the shortest interval among them, a value standing
//! for the interval that it ends. It is blank where one of the tasks that ran then has no value, whether between two, or
//! before its oldest, or because it is stale: what is known of a part is never drawn as the whole. A task without any
//! value in all of the line's time is left out, as the row's own figures leave it out. Pure.

use crate::cli::row::{Point, Row};
use std::collections::BTreeMap;

/// The points asked for where `--history` has no number.
pub const USUAL: usize = 30;
/// The most points a line is made of.
pub const MOST: usize = 600;

/// Moments this share of an interval apart are the same.
const SAME: f64 = 1e-6;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last values, the newest first; `None` is a gap.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct History {
    /// 100 is one CPU.
    pub cpu: Vec<Option<f64>>,
    /// Bytes.
    pub memory: Vec<Option<f64>>,
}

/// A line of bars, the newest value at its right end; its scale is from 0 to its own greatest value.
pub fn line(values: &[Option<f64>]) -> String {
    let most = values.iter().flatten().fold(0.0, |most: f64, value| most.max(*value));
    let bar = |value: &Option<f64>| match value {
        None => ' ',
        Some(value) if most > 0.0 => BARS[((value / most * 7.0).round() as usize).min(7)],
        Some(_) => BARS[0],
    };
    values.iter().rev().map(bar).collect()
}

/// The interval of a task in seconds: the mean distance of neighbouring points, missing ones aside.
pub fn interval(task: &Row) -> Option<f64> {
    let mut before: Vec<f64> = task.points.iter().map(|point| point.seconds_before).collect();
    before.sort_by(f64::total_cmp);
    let mut distances: Vec<f64> = before.windows(2).map(|two| two[1] - two[0]).filter(|apart| *apart > 0.0).collect();
    if distances.is_empty() {
        return None;
    }
    let middle = (distances.len() - 1) / 2;
    let median = *distances.select_nth_unstable_by(middle, f64::total_cmp).1;
    let (sum, count) = distances
        .iter()
        .filter(|apart| **apart <= 1.5 * median)
        .fold((0.0, 0.0), |(sum, n), apart| (sum + apart, n + 1.0));
    Some(sum / count)
}

impl History {
    /// Of one task: `most` values, its own interval apart.
    pub fn of_task(row: &Row, most: usize) -> History {
        let interval = interval(row).unwrap_or(1.0); // of one point, at most
        let mut points: Vec<Point> = row.points.clone();
        points.sort_by(|a, b| a.seconds_before.total_cmp(&b.seconds_before));
        let slot = |point: &Point| (point.seconds_before / interval).round() as usize;
        let slots = points.last().map_or(0, |last| slot(last).saturating_add(1)).min(most);
        let (mut cpu, mut memory) = (vec![None; slots], vec![None; slots]);
        for (at, point) in points.iter().enumerate() {
            let slot = slot(point);
            if slot >= slots {
                break;
            }
            memory[slot] = point.stats.memory_used_bytes.map(|bytes| bytes as f64);
            let before =
                points.get(at + 1).filter(|before| before.seconds_before - point.seconds_before < 1.5 * interval);
            cpu[slot] = before.and_then(|before| percent(before, point));
        }
        // The oldest point has none before it: that is no gap.
        if cpu.last() == Some(&None) {
            cpu.pop();
        }
        History { cpu, memory }
    }

    /// Of a group: the sum over its tasks, ended and stale ones included.
    pub fn sum<'a>(tasks: impl IntoIterator<Item = &'a Row>, most: usize) -> History {
        let mut tasks: Vec<Part<'a>> = tasks.into_iter().map(|row| Part::of(row, most)).collect();
        // The newest moment of which every fresh task can tell.
        let newest = tasks.iter().filter(|task| task.row.stale().is_none()).map(|task| task.age).fold(0.0, f64::max);
        let grid = tasks.iter().filter_map(|task| task.interval).fold(f64::INFINITY, f64::min);
        if !grid.is_finite() {
            return History::default();
        }
        tasks.retain(|task| task.age < newest + most as f64 * grid && !task.history.memory.is_empty());
        let summed = |line: fn(&History) -> &[Option<f64>]| {
            let oldest = tasks.iter().map(|task| task.oldest()).fold(0.0, f64::max);
            let slots = (((oldest - newest) / grid).ceil().max(0.0) as usize).saturating_add(1).min(most);
            let at = |slot: usize| {
                let before = newest + slot as f64 * grid;
                // No task that ran is a gap too.
                tasks.iter().filter(|task| task.ran(before)).try_fold(None, |sum: Option<f64>, task| {
                    Some(Some(sum.unwrap_or(0.0) + task.value(line(&task.history), before)?))
                })?
            };
            let mut values: Vec<Option<f64>> = (0..slots).map(at).collect();
            values.truncate(values.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
            values
        };
        History { cpu: summed(|history| &history.cpu), memory: summed(|history| &history.memory) }
    }
}

/// A task's share of a group's line; moments are seconds before now.
struct Part<'a> {
    row: &'a Row,
    interval: Option<f64>,
    age: f64,
    history: History,
}

impl<'a> Part<'a> {
    fn of(row: &'a Row, most: usize) -> Part<'a> {
        Part {
            row,
            interval: interval(row),
            age: row.age_seconds.unwrap_or(0.0).max(0.0),
            history: History::of_task(row, most),
        }
    }

    fn step(&self) -> f64 {
        self.interval.unwrap_or(1.0)
    }

    fn oldest(&self) -> f64 {
        self.age + self.history.memory.len() as f64 * self.step()
    }

    /// Whether it ran at that moment; where its start is not told, it is its oldest value.
    fn ran(&self, before: f64) -> bool {
        let started = self.row.started_seconds_ago.unwrap_or(self.oldest() - SAME * self.step());
        before < started && !(self.row.ended() && before < self.age)
    }

    fn value(&self, line: &[Option<f64>], before: f64) -> Option<f64> {
        let slot = ((before - self.age) / self.step() + SAME).floor();
        if slot >= 0.0 { *line.get(slot as usize)? } else { None }
    }
}

/// CPU used between two points.
fn percent(before: &Point, after: &Point) -> Option<f64> {
    let elapsed = before.seconds_before - after.seconds_before;
    let used = after.stats.cpu_seconds_total? - before.stats.cpu_seconds_total?;
    (elapsed > 0.0 && used >= 0.0).then(|| used / elapsed * 100.0)
}

/// Gives the rows of a view the history of their tasks: each task its own, a group the sum.
pub fn attach(rows: &mut [Row], tasks: &[Row], group_of: fn(&Row) -> Option<&str>, most: usize) {
    let mut groups: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for task in tasks {
        if let Some(group) = group_of(task) {
            groups.entry(group).or_default().push(task);
        }
    }
    for row in rows {
        if let Some(tasks) = row.id.as_deref().and_then(|id| groups.get(id)) {
            row.history = match &tasks[..] {
                [task] if task.stale().is_none() => History::of_task(task, most),
                tasks => History::sum(tasks.iter().copied(), most),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::row::PointStats;

    /// Points of (seconds before, CPU seconds, bytes).
    fn task(service: &str, age: f64, points: &[(f64, f64, u64)]) -> Row {
        let points = points
            .iter()
            .map(|(seconds_before, cpu, bytes)| Point {
                seconds_before: *seconds_before,
                stats: PointStats { cpu_seconds_total: Some(*cpu), memory_used_bytes: Some(*bytes) },
            })
            .collect();
        Row {
            id: Some("t".into()),
            service_id: Some(service.into()),
            state: Some("running".into()),
            age_seconds: Some(age),
            points,
            ..Row::default()
        }
    }

    fn rounded(values: &[Option<f64>]) -> Vec<Option<i64>> {
        values.iter().map(|value| value.map(|value| value.round() as i64)).collect()
    }

    #[test]
    fn bars_go_from_nought_to_the_greatest_and_a_gap_is_blank() {
        assert_eq!(line(&[Some(7.0), Some(3.0), None, Some(0.0)]), "▁ ▄█");
        assert_eq!(line(&[Some(0.0), Some(0.0)]), "▁▁");
        assert_eq!(line(&[]), "");
    }

    #[test]
    fn cpu_is_made_between_points_by_their_own_times() {
        let row = task("s", 0.0, &[(0.0, 10.5, 300), (1.0, 10.0, 200), (2.1, 9.45, 100)]);
        let history = History::of_task(&row, 30);
        assert_eq!(rounded(&history.cpu), [Some(50), Some(50)]);
        assert_eq!(rounded(&history.memory), [Some(300), Some(200), Some(100)]);
    }

    #[test]
    fn a_missing_point_and_a_restart_are_gaps() {
        let row = task(
            "s",
            0.0,
            &[(0.0, 10.5, 1), (1.0, 10.0, 1), (3.0, 9.0, 1), (4.0, 8.0, 1), (5.0, 99.0, 1), (6.0, 98.0, 1)],
        );
        let history = History::of_task(&row, 30);
        assert_eq!(rounded(&history.cpu), [Some(50), None, None, Some(100), None, Some(100)]);
        assert_eq!(rounded(&history.memory), [Some(1), Some(1), None, Some(1), Some(1), Some(1), Some(1)]);
    }

    #[test]
    fn a_groups_line_is_the_sum_and_a_gap_in_one_task_is_no_fall() {
        let tasks = [
            task("s", 0.2, &[(0.0, 4.0, 10), (1.0, 3.0, 10), (2.0, 2.0, 10), (3.0, 1.0, 10)]),
            task("s", 0.7, &[(0.0, 9.0, 5), (2.0, 7.0, 5), (3.0, 6.5, 5)]),
            task("other", 0.0, &[(0.0, 9.0, 1000), (1.0, 7.0, 1000)]),
        ];
        let mut rows = [Row { id: Some("s".into()), ..Row::default() }];
        attach(&mut rows, &tasks, |task| task.service_id.as_deref(), 30);
        assert_eq!(rounded(&rows[0].history.memory), [Some(15), None, Some(15), Some(15)]);
        assert_eq!(rounded(&rows[0].history.cpu), [None, None, Some(150)]);
    }

    #[test]
    fn a_task_that_started_later_adds_nothing_before() {
        let tasks = [
            task("s", 0.0, &[(0.0, 4.0, 10), (1.0, 3.0, 10), (2.0, 2.0, 10)]),
            Row { started_seconds_ago: Some(1.5), ..task("s", 0.0, &[(0.0, 1.0, 5), (1.0, 0.5, 5)]) },
        ];
        assert_eq!(rounded(&History::sum(&tasks, 30).memory), [Some(15), Some(15), Some(10)]);
        assert_eq!(rounded(&History::sum(&tasks, 2).memory), [Some(15), Some(15)], "no more than asked for");
    }

    // In the lab: the points of one node's tasks began when its shipper had started again.
    #[test]
    fn a_task_that_ran_before_its_oldest_value_makes_the_sum_unknown() {
        let tasks = [
            task("s", 0.0, &[(0.0, 4.0, 10), (1.0, 3.0, 10), (2.0, 2.0, 10), (3.0, 1.0, 10)]),
            Row { started_seconds_ago: Some(3600.0), ..task("s", 0.0, &[(0.0, 1.0, 5), (1.0, 0.5, 5)]) },
        ];
        let history = History::sum(&tasks, 30);
        assert_eq!(rounded(&history.memory), [Some(15), Some(15)]);
        assert_eq!(rounded(&history.cpu), [Some(150)]);
    }

    #[test]
    fn a_task_that_is_stale_or_has_ended_counts_for_the_time_it_ran() {
        let fresh = task("s", 0.0, &[(0.0, 4.0, 10), (1.0, 3.0, 10), (2.0, 2.0, 10), (3.0, 1.0, 10)]);
        let mut other = Row { started_seconds_ago: Some(60.0), ..task("s", 2.0, &[(0.0, 1.0, 5), (1.0, 0.5, 5)]) };
        other.state = Some("stale".into());
        let both = |other: &Row| rounded(&History::sum([&fresh, other], 30).memory);
        assert_eq!(both(&other), [None, None, Some(15), Some(15)]);
        other.state = Some("ended".into());
        assert_eq!(both(&other), [Some(10), Some(10), Some(15), Some(15)]);
        other.age_seconds = Some(100.0);
        assert_eq!(both(&other), [Some(10); 4], "not in all of the line's time");
    }

    #[test]
    fn each_task_has_its_own_interval_and_the_shortest_is_the_groups() {
        let every = |seconds: f64| -> Vec<(f64, f64, u64)> {
            (0..10).map(|n| (f64::from(n) * seconds, 100.0 - f64::from(n) * seconds * 0.5, 10)).collect()
        };
        let tasks = [task("s", 0.1, &every(1.0)), task("s", 1.4, &every(2.0))];
        assert_eq!(rounded(&History::of_task(&tasks[1], 30).memory), [Some(10); 10], "no gaps of others' making");
        let tasks = tasks.map(|task| Row { started_seconds_ago: Some(3600.0), ..task });
        let history = History::sum(&tasks, 30);
        assert_eq!((rounded(&history.memory), rounded(&history.cpu)), (vec![Some(20); 9], vec![Some(100); 8]));
    }

    #[test]
    fn uneven_points_and_senseless_ones_make_no_gaps_and_no_panic() {
        let row = task("s", 0.0, &[(0.0, 4.0, 1), (0.9, 3.0, 1), (2.0, 2.0, 1), (2.9, 1.0, 1), (4.0, 0.0, 1)]);
        assert_eq!(rounded(&History::of_task(&row, 30).memory), [Some(1); 5]);
        for far in [1e300, f64::INFINITY, -1e300, f64::NAN] {
            let row = task("s", 0.0, &[(0.0, 1.0, 1), (far, 0.0, 1), (1.0, 0.0, 1)]);
            assert!(History::of_task(&row, 30).memory.len() <= 30);
            assert!(History::sum([&row, &row], 30).memory.len() <= 30);
        }
    }
}
