//! The rules of LEDGER.md that have a counterexample there, so that a test can switch one off and show what breaks.
//!
//! Only tests can: without the feature `mutations` every rule holds, and [`holds`] is a constant. With it, a rule is
//! switched off for one thread by [`without`].

/// A rule, by what would be done without it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// 4: a Hello voids the node's older streams.
    VoidOlderStreams,
    /// 6: repeats are told by their batch number.
    Numbers,
    /// 9: what is acknowledged is still owed until a scrape showed it.
    Exposed,
    /// 9: what a scrape showed is told, and owed no more.
    TellExposed,
    /// 11: what is acknowledged waits for a scrape until it is too old.
    KeepUnexposed,
    /// 11: a member that left the ring is not dead.
    GoneIsNotDead,
    /// 14: the lease is counted from the echoed token.
    EchoedToken,
    /// 15: the next holder waits for the one before.
    WaitForHolder,
    /// 16: a new shipper grants nothing for its first L.
    WaitAfterStart,
    /// 17: whoever was last told role 1 is told role 0.
    Revoke,
    /// 19: a key sent elsewhere is said to have moved.
    Moved,
    /// 21: a router remembers the newest version of every row.
    Join,
}

/// All of them.
#[cfg(feature = "mutations")]
pub const ALL: [Rule; 12] = [
    Rule::VoidOlderStreams,
    Rule::Numbers,
    Rule::Exposed,
    Rule::TellExposed,
    Rule::KeepUnexposed,
    Rule::GoneIsNotDead,
    Rule::EchoedToken,
    Rule::WaitForHolder,
    Rule::WaitAfterStart,
    Rule::Revoke,
    Rule::Moved,
    Rule::Join,
];

#[cfg(feature = "mutations")]
thread_local! {
    static OFF: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

/// Whether a rule is kept.
#[cfg(not(feature = "mutations"))]
#[inline(always)]
pub(crate) const fn holds(_: Rule) -> bool {
    true
}

/// Whether a rule is kept on this thread.
#[cfg(feature = "mutations")]
pub(crate) fn holds(rule: Rule) -> bool {
    OFF.with(|off| off.get() != Some(rule))
}

/// Does something on this thread without a rule.
#[cfg(feature = "mutations")]
pub fn without<T>(rule: Rule, act: impl FnOnce() -> T) -> T {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            OFF.with(|off| off.set(None));
        }
    }
    OFF.with(|off| off.set(Some(rule)));
    let _back = Back;
    act()
}
