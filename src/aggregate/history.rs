//! A task's older points: when it changed and when it was not read, told along the rounds of its node.
//!
//! A node's rounds are kept once; a task keeps a run for each change of what points show and for each gap. So a round
//! in which nothing changed costs a task nothing, and a gap is told from standing still: points are one for every round
//! in which the task was read, and none for others.
//!
//! Invariants: no more rounds than the config's `points`, and no more runs of a task than that and one.

use crate::message::Run as Told;
use crate::model::{Nanos, Values, bits};
use crate::stat::Level;
use crate::view::Point;
use std::collections::{BTreeSet, VecDeque};

/// What points show.
const SHOWN: u64 = Level::Docker.mask();
const N_SHOWN: usize = SHOWN.count_ones() as usize;

/// When a node was read, on its shipper's clock, oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rounds(VecDeque<Nanos>);

impl Rounds {
    /// A round was read; `max` are remembered.
    pub(super) fn push(&mut self, at: Nanos, max: usize) {
        if max == 0 {
            return;
        }
        if self.0.len() >= max {
            self.0.pop_front();
        }
        self.0.push_back(at);
    }

    /// These and those `others` that are no newer; `max` are remembered.
    pub(super) fn with(&self, others: &Rounds, max: usize) -> Rounds {
        let newest = self.0.back().copied().unwrap_or(0);
        let all: BTreeSet<Nanos> = self.0.iter().chain(others.0.iter().filter(|at| **at <= newest)).copied().collect();
        Rounds(all.iter().skip(all.len().saturating_sub(max)).copied().collect())
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = Nanos> + '_ {
        self.0.iter().copied()
    }

    fn has(&self, at: Nanos) -> bool {
        self.0.binary_search(&at).is_ok()
    }
}

impl FromIterator<Nanos> for Rounds {
    fn from_iter<I: IntoIterator<Item = Nanos>>(rounds: I) -> Rounds {
        let sorted: BTreeSet<Nanos> = rounds.into_iter().collect();
        Rounds(sorted.into_iter().collect())
    }
}

/// What was read from a moment on, until the next run begins.
#[derive(Debug, Clone)]
struct Run {
    from: Nanos,
    /// When that was read: in the round it is from, or before it where the engine is asked beside the rounds.
    read_at: Nanos,
    dot: Dot,
}

/// What points show of a reading, compactly.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Dot {
    /// Whether it was read at all.
    read: bool,
    present: u64,
    values: [u64; N_SHOWN],
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Run>);

impl History {
    /// From the round at `from` on it reads so; `read_at` is when that was read.
    pub(super) fn reads(&mut self, rounds: &Rounds, from: Nanos, read_at: Nanos, values: &Values) {
        self.begin(rounds, from, read_at, Dot::of(values));
    }

    /// From the round at `from` on it is not read.
    pub(super) fn stops(&mut self, rounds: &Rounds, from: Nanos) {
        if !self.0.is_empty() {
            self.begin(rounds, from, from, Dot::GAP);
        }
    }

    /// Whether its newest run is a gap.
    pub(super) fn is_stopped(&self) -> bool {
        self.0.back().is_some_and(|run| !run.dot.read)
    }

    fn begin(&mut self, rounds: &Rounds, from: Nanos, read_at: Nanos, dot: Dot) {
        // What is said of a round last counts.
        while self.0.back().is_some_and(|last| last.from >= from) {
            self.0.pop_back();
        }
        if self.0.back().is_none_or(|last| last.dot != dot) {
            self.0.push_back(Run { from, read_at, dot });
        }
        // A run that was over before the oldest round has no points any more.
        let oldest = rounds.0.front().copied().unwrap_or(0);
        while self.0.get(1).is_some_and(|second| second.from <= oldest) {
            self.0.pop_front();
        }
    }

    /// The newest `n` points, oldest first.
    pub(super) fn points(&self, rounds: &Rounds, n: usize) -> Vec<Point> {
        let mut runs = self.0.iter().rev().peekable();
        let mut points: Vec<Point> = Vec::new();
        for at in rounds.0.iter().rev().copied() {
            if points.len() >= n {
                break;
            }
            while runs.next_if(|run| run.from > at).is_some() {}
            match runs.peek() {
                Some(run) if run.dot.read => {
                    let monotonic = if run.from == at { run.read_at } else { at };
                    points.push(Point { monotonic, values: run.dot.values() });
                }
                Some(_) => {}
                None => break,
            }
        }
        points.reverse();
        points
    }

    /// The same told along `rounds`, of which `own` are those it knows; in a round that it was not read in, as `other` has it.
    pub(super) fn along(&self, rounds: &Rounds, own: &Rounds, other: Option<(&History, &Rounds)>) -> History {
        let mut told = History::default();
        for at in rounds.iter() {
            let known = |(history, rounds): (&'_ History, &Rounds)| history.run(at).filter(|_| rounds.has(at)).cloned();
            let read = |run: &Run| run.dot.read;
            match known((self, own)).filter(read).or_else(|| other.and_then(known).filter(read)) {
                Some(run) => told.begin(rounds, at, if run.from == at { run.read_at } else { at }, run.dot),
                None => told.stops(rounds, at),
            }
        }
        if let Some(end) = self.0.back().filter(|last| rounds.0.back().is_none_or(|newest| last.from > *newest)) {
            told.begin(rounds, end.from, end.read_at, end.dot.clone());
        }
        told
    }

    /// The run that a round is part of.
    fn run(&self, at: Nanos) -> Option<&Run> {
        self.0.get(self.0.partition_point(|run| run.from <= at).checked_sub(1)?)
    }

    /// As another process is told it.
    pub(super) fn runs(&self) -> impl ExactSizeIterator<Item = Told> + '_ {
        self.0.iter().map(|run| {
            let values = run.dot.read.then(|| run.dot.values());
            Told { from: run.from, read_at: run.read_at, values }
        })
    }

    /// As another process told it.
    pub(super) fn of(runs: &[Told]) -> History {
        let mut history = History::default();
        for run in runs {
            let dot = run.values.as_ref().map_or(Dot::GAP, Dot::of);
            history.begin(&Rounds::default(), run.from, run.read_at, dot);
        }
        history
    }
}

impl Dot {
    const GAP: Dot = Dot { read: false, present: 0, values: [0; N_SHOWN] };

    fn of(values: &Values) -> Dot {
        let mut dot = Dot { read: true, present: values.present() & SHOWN, values: [0; N_SHOWN] };
        for (place, stat) in dot.values.iter_mut().zip(bits(SHOWN)) {
            *place = values.or_zero(stat);
        }
        dot
    }

    fn values(&self) -> Values {
        bits(SHOWN).zip(self.values).filter(|(stat, _)| self.present & stat.bit() != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::{CPU, CPU_USER};

    /// A history along rounds 10, 20, …: `-` is not read, a number is read, `.` is nothing said.
    fn told(rounds: &str, max: usize) -> (Rounds, History) {
        let (mut told, mut history) = (Rounds::default(), History::default());
        for (round, at) in rounds.split(' ').zip((10..).step_by(10)) {
            told.push(at, max);
            match round {
                "-" => history.stops(&told, at),
                "." => {}
                value => history.reads(&told, at, at, &[(CPU, value.parse().unwrap())].into_iter().collect()),
            }
        }
        (told, history)
    }

    fn points(rounds: &str, max: usize, n: usize) -> Vec<(Nanos, u64)> {
        let (rounds, history) = told(rounds, max);
        history.points(&rounds, n).iter().map(|point| (point.monotonic, point.values.get(CPU).unwrap())).collect()
    }

    #[test]
    fn a_task_that_idles_has_a_point_for_every_round_and_a_gap_has_none() {
        assert_eq!(points("1 . . 4", 9, 9), [(10, 1), (20, 1), (30, 1), (40, 4)]);
        assert_eq!(points("1 - . 4", 9, 9), [(10, 1), (40, 4)]);
        assert_eq!(points("1 - 1 .", 9, 9), [(10, 1), (30, 1), (40, 1)]);
        assert_eq!(points(". . 3 -", 9, 9), [(30, 3)], "nothing before it was met");
        assert_eq!(points("- . .", 9, 9), []);
    }

    #[test]
    fn the_newest_are_kept_and_given() {
        assert_eq!(points("1 . . 4 . .", 9, 2), [(50, 4), (60, 4)]);
        assert_eq!(points("1 . . 4 . .", 2, 9), [(50, 4), (60, 4)]);
        assert_eq!(points("1 2 3 4 5 6", 3, 9), [(40, 4), (50, 5), (60, 6)]);
        assert_eq!(points("1 2 3", 0, 9), [], "none are kept");
        let (_, history) = told("1 2 3 4 5 6 7 8 9", 3);
        assert!(history.0.len() <= 4, "{history:?}");
        let (_, idle) = told("1 1 1 1 1 1", 3);
        assert_eq!(idle.0.len(), 1, "what stays the same costs nothing");
    }

    /// Both as in `told`, the second's points given to the first; the first knows no round that it says ` ` of.
    fn merged(own: &str, other: &str, max: usize) -> Vec<(Nanos, u64)> {
        let unknown: Vec<Nanos> =
            own.split(' ').zip((10..).step_by(10)).filter(|(r, _)| *r == "?").map(|r| r.1).collect();
        let ((all, own), (theirs, other)) = (told(&own.replace('?', "."), max), told(other, max));
        let mine: Rounds = all.iter().filter(|at| !unknown.contains(at)).collect();
        let other = History::of(&other.runs().collect::<Vec<_>>());
        let rounds = mine.with(&theirs, max);
        let merged = own.along(&rounds, &mine, Some((&other, &theirs)));
        assert!(merged.0.len() <= max + 1);
        merged.points(&rounds, max).iter().map(|point| (point.monotonic, point.values.get(CPU).unwrap())).collect()
    }

    #[test]
    fn points_that_another_gave_fill_what_was_not_read_here() {
        assert_eq!(merged("? ? 3 4", "1 . 3", 9), [(10, 1), (20, 1), (30, 3), (40, 4)], "it came in the third round");
        assert_eq!(merged("1 - - 4", "9 2 . 4", 9), [(10, 1), (20, 2), (30, 2), (40, 4)], "the own ones stand");
        assert_eq!(merged("? . 3 .", "- - 3 .", 9), [(30, 3), (40, 3)], "none of them read it");
        assert_eq!(merged("? ? 3 4 5", "1 2 3", 4), [(20, 2), (30, 3), (40, 4), (50, 5)], "no more than are kept");
        assert_eq!(merged("? 2 -", "1 2 3 4 5", 9), [(10, 1), (20, 2), (30, 3)], "none newer than the own");
    }

    #[test]
    fn a_round_that_was_not_known_here_is_not_told_as_standing_still() {
        let (all, history) = told("1 . . 4", 9);
        let own: Rounds = [10, 40].into_iter().collect();
        let told = history.along(&all, &own, None);
        assert_eq!(told.points(&all, 9).iter().map(|point| point.monotonic).collect::<Vec<_>>(), [10, 40]);
        let (rounds, mut left) = super::tests::told("1 2", 9);
        left.stops(&rounds, 21);
        assert!(left.along(&rounds, &rounds, None).is_stopped(), "and what has left goes on having left");
    }

    #[test]
    fn what_points_do_not_show_makes_no_run() {
        let (rounds, mut history) = told("1", 3);
        history.reads(&rounds, 20, 20, &[(CPU, 1), (CPU_USER, 7)].into_iter().collect());
        assert_eq!(history.0.len(), 1);
        history.reads(&rounds, 30, 27, &Values::default());
        let points = history.points(&Rounds([30, 40].into()), 2);
        assert_eq!(points[1].values, Values::default(), "read, but nothing was there");
        assert_eq!((points[0].monotonic, points[1].monotonic), (27, 40), "and told when it was read");
    }
}
