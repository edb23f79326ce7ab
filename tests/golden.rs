//! Golden files: outputs that must not change unnoticed, compared with files whose values were made elsewhere.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "golden/config.rs"]
mod config;
#[path = "golden/metrics.rs"]
mod metrics;
#[path = "golden/ring.rs"]
mod ring;
#[path = "golden/stats.rs"]
mod stats;
