//! What Prometheus scrapes: the figures of tasks and services as a stream of text, and each process's own metrics.
//!
//! The two are made differently on purpose. Task series are many and change with every scrape: [`exposition`] writes
//! them straight into chunks of text from bytes rendered once a task. A process's own metrics are few and live as long
//! as it does: [`own`] registers them with the `prometheus` crate, always on a registry that the caller owns.
//!
//! A page of `/metrics` is [`own::render`], then the chunks of an [`exposition::Page`]: no family is in both.

pub mod exposition;
mod cluster;
pub mod own;
mod labels;
mod process;

pub use cluster::cluster;
pub use exposition::{GroupSeries, NodeSeries, Page, Series, TaskSeries};
pub use labels::{LabelCache, TaskLabels};
pub use own::{CollectorMetrics, MetricsError, ProcessMetrics, Registry, RouterMetrics, ShipperMetrics, SwarmMetrics};

/// The content type of a page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
