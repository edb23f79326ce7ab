//! What the engine alone knows of a container's life: restarts, health, pause, and how it ended.
//!
//! The kernel's files say nothing of it. It comes with inspections, events and listings, and is put among a task's
//! figures as stats of the catalogue. Pure.

use crate::{model::Values, stat};

/// How a container is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Life {
    /// How often the engine restarted it in place; Swarm makes a new task instead.
    pub restarts: u64,
    /// Its health check, as [`health`] has it.
    pub health: Option<u64>,
    /// Its processes are frozen.
    pub paused: bool,
}

impl Life {
    /// Puts it among a running task's figures.
    pub fn put(&self, values: &mut Values) {
        values.set(stat::RESTARTS, self.restarts);
        values.put(stat::HEALTH, self.health);
        values.set(stat::PAUSED, self.paused.into());
    }

    /// Takes what a listing says, for what events missed: `paused`, and `Up 5 minutes (healthy)`.
    pub fn listed(&mut self, state: &str, status: &str) {
        self.paused = match state {
            "paused" => true,
            "running" => false,
            _ => self.paused,
        };
        let said = status.rsplit_once('(').and_then(|(_, said)| said.strip_suffix(')'));
        self.health = said.and_then(|said| health(said.trim_start_matches("health: "))).or(self.health);
    }
}

/// A health check's state as the catalogue counts it: 0 starting, 1 healthy, 2 unhealthy; `None` for `none` and others.
pub fn health(status: &str) -> Option<u64> {
    ["starting", "healthy", "unhealthy"].iter().position(|known| *known == status.trim()).map(|place| place as u64)
}

/// How a container ended, as far as anybody said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i64>,
    /// The kernel killed something in it for want of memory.
    pub oom_killed: bool,
}

impl Exit {
    /// Puts it among an ended task's last figures. A kill the engine tells of counts even if no file showed it any more.
    pub fn put(&self, values: &mut Values) {
        values.put(stat::EXIT_CODE, self.code.and_then(|code| u64::try_from(code).ok()));
        if self.oom_killed {
            values.set(stat::OOM_KILLS, values.or_zero(stat::OOM_KILLS).max(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_what_the_engine_calls_it_and_absent_without_a_check() {
        let said = ["starting", "healthy", " healthy", "unhealthy", "none", "", "levitating"].map(health);
        assert_eq!(said, [Some(0), Some(1), Some(1), Some(2), None, None, None]);
    }

    #[test]
    fn a_listing_heals_what_events_missed() {
        for (state, status, paused, health) in [
            ("running", "Up 5 minutes", false, Some(1)),
            ("running", "Up 5 minutes (unhealthy)", false, Some(2)),
            ("running", "Up 2 seconds (health: starting)", false, Some(0)),
            ("paused", "Up 5 minutes (Paused)", true, Some(1)),
            ("hibernating", "(", true, Some(1)),
        ] {
            let mut life = Life { health: Some(1), paused: true, ..Life::default() };
            life.listed(state, status);
            assert_eq!((life.paused, life.health), (paused, health), "{state}, {status}");
        }
    }

    #[test]
    fn b115_b128_the_last_figures_have_the_exit_code_and_at_least_the_kill_that_was_told() {
        for (exit, read, expected) in [
            (Exit { code: Some(137), oom_killed: true }, Some(0), (Some(137), Some(1))),
            (Exit { code: Some(137), oom_killed: true }, Some(3), (Some(137), Some(3))),
            (Exit { code: Some(0), oom_killed: true }, None, (Some(0), Some(1))),
            (Exit { code: Some(0), oom_killed: false }, Some(0), (Some(0), Some(0))),
            (Exit { code: None, oom_killed: false }, None, (None, None)),
            (Exit { code: Some(-1), oom_killed: false }, None, (None, None)),
        ] {
            let mut values = Values::default();
            values.put(stat::OOM_KILLS, read);
            exit.put(&mut values);
            assert_eq!((values.get(stat::EXIT_CODE), values.get(stat::OOM_KILLS)), expected, "{exit:?}, {read:?}");
        }
    }
}
