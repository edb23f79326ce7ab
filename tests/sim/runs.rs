//! Many worlds, on all cores, and what they add up to.

use crate::world::World;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often a long run says how far it is, on a terminal.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// What many worlds were like.
#[derive(Debug, Default)]
pub struct Tally {
    pub n_worlds: u64,
    pub n_steps: u64,
    /// The fewest steps of a world that did not fail.
    pub least_steps: Option<u64>,
    /// How often each thing happened.
    pub notes: BTreeMap<&'static str, u64>,
    /// The seeds of the worlds that failed, by the invariant.
    pub failed: BTreeMap<String, Vec<u64>>,
    /// Amounts read, counted twice and not counted.
    pub read: i64,
    pub over: i64,
    pub under: i64,
}

impl Tally {
    fn add(&mut self, seed: u64) {
        let mut world = World::new(seed);
        match live(&mut world) {
            Err(failure) => {
                let invariant = failure.split(':').next().unwrap_or_default().to_owned();
                self.failed.entry(invariant).or_default().push(seed);
            }
            Ok(()) => self.least_steps = Some(self.least_steps.unwrap_or(u64::MAX).min(world.n_steps)),
        }
        world.notes.iter().for_each(|(what, n)| *self.notes.entry(what).or_default() += n);
        self.n_worlds += 1;
        self.n_steps += world.n_steps;
        self.over += world.accounts.over.sum();
        self.under += world.accounts.under.sum();
        self.read += world.lives.iter().map(|life| life.increments.sum()).sum::<i64>();
    }

    fn merge(&mut self, other: Tally) {
        self.n_worlds += other.n_worlds;
        self.n_steps += other.n_steps;
        self.least_steps = self.least_steps.into_iter().chain(other.least_steps).min();
        other.notes.into_iter().for_each(|(what, n)| *self.notes.entry(what).or_default() += n);
        other.failed.into_iter().for_each(|(what, seeds)| self.failed.entry(what).or_default().extend(seeds));
        self.failed.values_mut().for_each(|seeds| seeds.sort_unstable());
        (self.read, self.over, self.under) = (self.read + other.read, self.over + other.over, self.under + other.under);
    }

    pub fn first_failed(&self) -> Option<u64> {
        self.failed.values().flatten().min().copied()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, n) in &self.notes {
            writeln!(f, "{n:>10}  {what}")?;
        }
        let least = self.least_steps.unwrap_or_default();
        writeln!(f, "{} worlds, {} steps, at least {least} in each", self.n_worlds, self.n_steps)?;
        writeln!(f, "of {} read {} were counted twice and {} not counted", self.read, self.over, self.under)
    }
}

/// Lives the worlds of these seeds.
pub fn many(seeds: Range<u64>) -> Tally {
    share(seeds, |tally, seed| tally.add(seed))
}

/// The same with a rule of LEDGER.md switched off.
#[cfg(feature = "mutations")]
pub fn many_without(seeds: Range<u64>, rule: swarmstats::rules::Rule) -> Tally {
    share(seeds, |tally, seed| swarmstats::rules::without(rule, || tally.add(seed)))
}

fn share(seeds: Range<u64>, live: impl Fn(&mut Tally, u64) + Sync) -> Tally {
    let (next, all, begun) = (AtomicU64::new(seeds.start), Mutex::new(Tally::default()), Instant::now());
    let work = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            live(&mut tally, seed);
        }
        all.lock().unwrap().merge(tally);
    };
    thread::scope(|scope| {
        let n_threads = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        let mut said = Instant::now();
        while std::io::stderr().is_terminal() && workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(50));
            if said.elapsed() >= SAY_EVERY {
                said = Instant::now();
                let done = next.load(Ordering::Relaxed).min(seeds.end) - seeds.start;
                let rate = done as f64 / begun.elapsed().as_secs_f64();
                let left = (seeds.end - seeds.start - done) as f64 / rate.max(0.001);
                // A line of its own, said again and again.
                eprint!("\r{done} of {} worlds, {rate:.0} a second, {left:.0} s left ", seeds.end - seeds.start);
                std::io::stderr().flush().unwrap();
            }
        }
    });
    all.into_inner().unwrap()
}

/// Lives a world; a panic of the core is a violation too.
fn live(world: &mut World) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| world.run())) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(violation)) => Err(format!("{}: {}", violation.invariant, violation.text)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Err(format!("panic: {}", text.or(panic.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default()))
        }
    }
}

pub fn logged(seed: u64) -> (World, Result<(), String>) {
    let mut world = World::new(seed);
    world.log = Some(Vec::new());
    let result = live(&mut world);
    (world, result)
}

/// Says everything about a seed that failed.
pub fn report(seed: u64, n_last: usize) -> String {
    let (world, result) = logged(seed);
    let log = world.log.unwrap_or_default();
    let last = log[log.len().saturating_sub(n_last)..].join("\n");
    let failure = result.err().unwrap_or_else(|| "holds".to_owned());
    format!(
        "{last}\nseed {seed}, step {}: {failure}\n  SIM_SEED={seed} cargo test --test sim replay -- --nocapture",
        world.n_steps
    )
}
