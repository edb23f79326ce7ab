//! The shipper's config.

use super::Mistakes;
use super::members::{Address, MemberAddr, Members};
use super::read::{self, Section, wrong};
use super::value::{apart, choice, count, duration, engine, listen, log, path, shown, size, word};
use crate::model::{MAX_LABELS, MemberId};
use crate::shard::MAX_REPLICAS;
use crate::stat::Level;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything a shipper is told; `config/shipper.yaml` says what each key means.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "config/shipper.yaml documents every key once, for users and readers alike")]
pub struct Shipper {
    /// The path of the engine's socket.
    pub engine: PathBuf,
    pub include: Include,
    pub interval: Duration,
    pub relist: Duration,
    pub level: Level,
    pub labels: Vec<Arc<str>>,
    pub host_proc: PathBuf,
    pub host_sys: PathBuf,
    pub replicas: u8,
    pub takeover_after: Duration,
    pub max_round_trip: Duration,
    pub row_keep: Duration,
    pub max_catch_up: Duration,
    pub members: Members,
    /// Where the API listens, if anywhere.
    pub api: Option<SocketAddr>,
    /// Where `/metrics` listens, if anywhere.
    pub metrics: Option<SocketAddr>,
    pub limits: ShipperLimits,
    pub log: Arc<str>,
}

/// The shipper's bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShipperLimits {
    /// Tasks of this node; more are counted, not read.
    pub max_tasks: usize,
    /// Bytes of one message.
    pub max_message: usize,
}

/// Which containers are reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Include {
    /// Those of Swarm tasks.
    Swarm,
    /// Compose and plain ones too.
    All,
}

const API: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7773);
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7772);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

impl Shipper {
    /// Reads a shipper's config; `host` is this machine's name, which stands in for a local member's id.
    pub fn parse(text: &str, host: &MemberId) -> Result<Shipper, Mistakes> {
        read::parse(text, |root| root.section(|section| Shipper::read(section, host)))
    }

    /// The longest pause between attempts to reach an engine or a collector: short enough that figures are right within
    /// three intervals of its coming back, however long it was away.
    pub fn longest_pause(&self) -> Duration {
        (self.interval * 2).clamp(secs(1), secs(5))
    }

    pub(super) fn read(s: &mut Section<'_>, host: &MemberId) -> Shipper {
        let local = Address { host: "127.0.0.1".to_owned(), port: 7770 };
        let local = Members::Static(vec![MemberAddr { id: host.clone(), addr: local, node: None }]);
        let shipper = Shipper {
            engine: s.read("engine", "/var/run/docker.sock".into(), engine),
            include: s.read("include", Include::Swarm, choice(&[("swarm", Include::Swarm), ("all", Include::All)])),
            interval: s.read("interval", secs(1), duration(ms(100)..=secs(60))),
            relist: s.read("relist", secs(30), duration(secs(1)..=secs(600))),
            level: s.read("level", Level::Standard, choice(LEVELS)),
            labels: labels(s),
            host_proc: s.read("host_proc", "/proc".into(), path),
            host_sys: s.read("host_sys", "/sys".into(), path),
            replicas: s.read("replicas", 1, count(1..=MAX_REPLICAS)),
            takeover_after: s.read("takeover_after", secs(3), duration(ms(200)..=secs(600))),
            max_round_trip: s.read("max_round_trip", ms(500), duration(ms(1)..=secs(60))),
            row_keep: s.read("row_keep", secs(86_400), duration(secs(60)..=secs(30 * 86_400))),
            max_catch_up: s.read("max_catch_up", secs(120), duration(secs(10)..=secs(3_600))),
            members: s.section_like("members", Members::INSTEAD, |s| Members::read(s, host, local, 1)),
            api: s.section("api", |s| s.read("listen", Some(API), listen)),
            metrics: s.section("metrics", |s| s.read("listen", Some(METRICS), listen)),
            limits: s.section("limits", |s| ShipperLimits {
                max_tasks: s.read("max_tasks", 2_000, count(1..=100_000)),
                max_message: s.read("max_message", 8 << 20, size(64 << 10..=64 << 20)),
            }),
            log: s.read("log", "info".into(), log),
        };
        shipper.check(s);
        shipper
    }

    /// What holds between keys.
    fn check(&self, s: &Section<'_>) {
        if let Err(wrong) = apart(self.api, self.metrics) {
            s.refuse_below(if s.has("metrics") { "metrics" } else { "api" }, "listen", wrong);
        }
        // Else a row would go with what it had not handed over. Amounts are dropped by age in quarters.
        let least = self.max_catch_up * 5 / 4;
        if self.row_keep < least {
            let key = if s.has("row_keep") { "row_keep" } else { "max_catch_up" };
            let problem =
                format!("row_keep {} is below 5/4 of max_catch_up {}", shown(self.row_keep), shown(self.max_catch_up));
            s.refuse(key, wrong(problem, format!("write row_keep: {} or more", shown(least))));
        }
        // LEDGER 18: else a role ends before the batch that renews it can have gone out and come back.
        let least = 2 * self.interval + 2 * self.max_round_trip;
        if self.takeover_after < least {
            let key = ["takeover_after", "interval", "max_round_trip"].into_iter().find(|key| s.has(key));
            let of = if key == Some("takeover_after") { "" } else { "takeover_after " };
            let problem = format!(
                "{of}{} is below 2 × interval {} + 2 × max_round_trip {}",
                shown(self.takeover_after),
                shown(self.interval),
                shown(self.max_round_trip)
            );
            s.refuse(
                key.unwrap_or_default(),
                wrong(problem, format!("write takeover_after: {} or more", shown(least))),
            );
        }
    }
}

const LEVELS: &[(&str, Level)] = &[("docker", Level::Docker), ("standard", Level::Standard), ("all", Level::All)];

/// The container labels to carry: a bounded, duplicate-free whitelist.
fn labels(s: &mut Section<'_>) -> Vec<Arc<str>> {
    let Some(list) = s.get("labels") else { return Vec::new() };
    let items = list.items();
    if items.len() > MAX_LABELS {
        let problem = format!("{} labels", items.len());
        list.refuse(wrong(problem, format!("{MAX_LABELS} are allowed: keep those you select or group by")));
    }
    let mut labels: Vec<Arc<str>> = Vec::new();
    for item in items.iter().take(MAX_LABELS) {
        let Some(label) = item.read(word) else { continue };
        if labels.contains(&label) {
            item.refuse(wrong(format!("{label} is listed twice"), "keep one of them"));
        }
        labels.push(label);
    }
    labels
}
