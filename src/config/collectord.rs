//! The collectord's config: its collector and router roles.

use super::Mistakes;
use super::members::{Address, MemberAddr, Members};
use super::read::{self, Section, Wrong, wrong};
use super::value::{apart, choice, count, duration, engine_or_none, listen, log, name, size};
use crate::model::{MemberId, NodeId};
use crate::shard::MAX_REPLICAS;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Everything a collectord is told; `config/collectord.yaml` says what each key means.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "config/collectord.yaml documents every key once, for users and readers alike")]
pub struct Collectord {
    pub member: MemberId,
    pub node: Option<NodeId>,
    /// At least one, none twice.
    pub roles: Vec<Role>,
    pub replicas: u8,
    pub members: Members,
    /// Where the API listens, if anywhere.
    pub api: Option<SocketAddr>,
    /// Where `/metrics` listens, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// The socket of a manager's engine, if Swarm is to be asked.
    pub swarm_engine: Option<PathBuf>,
    pub points: usize,
    pub ended_keep: Duration,
    pub stale_keep: Duration,
    pub row_keep: Duration,
    pub max_round_trip: Duration,
    pub query_deadline: Duration,
    pub drain: Duration,
    pub limits: CollectordLimits,
    pub log: Arc<str>,
}

/// The collectord's bounds; what goes beyond is refused and counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CollectordLimits {
    /// Tasks held.
    pub max_tasks: usize,
    /// Nodes heard.
    pub max_nodes: usize,
    /// Bytes of one message.
    pub max_message: usize,
    /// `UpdateStats` streams open at once.
    pub max_streams: usize,
    /// Subscriptions of one `GetStats` stream.
    pub max_subscriptions: usize,
    /// Queries answered at once.
    pub max_queries: usize,
}

/// What a collectord does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Holds the tasks it owns.
    Collector,
    /// Answers for the whole cluster.
    Router,
}

impl Role {
    /// Its name in config and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Collector => "collector",
            Role::Router => "router",
        }
    }
}

const API: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7770);
const METRICS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7771);

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

impl Collectord {
    /// Reads a collectord's config; `host` is this machine's name, which stands in for `member`.
    pub fn parse(text: &str, host: &MemberId) -> Result<Collectord, Mistakes> {
        read::parse(text, |root| root.section(|section| Collectord::read(section, host)))
    }

    /// Whether it has a role.
    pub fn is(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    pub(super) fn read(s: &mut Section<'_>, host: &MemberId) -> Collectord {
        let member = s.read("member", host.clone(), name(MemberId::new));
        let mut collectord = Collectord {
            members: s.section_like("members", Members::INSTEAD, |s| {
                Members::read(s, &member, Members::Static(Vec::new()), 0)
            }),
            member,
            node: s.optional("node", name(NodeId::new)),
            roles: roles(s),
            replicas: s.read("replicas", 1, count(1..=MAX_REPLICAS)),
            api: s.section("api", |s| s.read("listen", Some(API), listen)),
            metrics: s.section("metrics", |s| s.read("listen", Some(METRICS), listen)),
            swarm_engine: s.section("swarm", |s| s.read("engine", None, engine_or_none)),
            points: s.read("points", 30, count(0..=3_600)),
            ended_keep: s.read("ended_keep", secs(600), duration(secs(1)..=secs(86_400))),
            stale_keep: s.read("stale_keep", secs(600), duration(secs(1)..=secs(86_400))),
            row_keep: s.read("row_keep", secs(86_400), duration(secs(60)..=secs(30 * 86_400))),
            max_round_trip: s.read("max_round_trip", secs(1), duration(Duration::from_millis(1)..=secs(60))),
            query_deadline: s.read("query_deadline", secs(1), duration(Duration::from_millis(50)..=secs(60))),
            drain: s.read("drain", secs(8), duration(secs(1)..=secs(300))),
            limits: s.section("limits", CollectordLimits::read),
            log: s.read("log", "info".into(), log),
        };
        collectord.check(s);
        collectord.fill_in_itself();
        collectord
    }

    /// What holds between keys.
    fn check(&self, s: &Section<'_>) {
        if let Err(wrong) = apart(self.api, self.metrics) {
            s.refuse_below(if s.has("metrics") { "metrics" } else { "api" }, "listen", wrong);
        }
        if self.is(Role::Collector) && self.api.is_none() && s.is_right("roles") {
            let remedy = "give it an address, or take `collector` out of `roles`";
            s.refuse_below("api", "listen", wrong("a collector that nobody can send to", remedy));
        }
        let Members::Static(list) = &self.members else { return };
        if !s.is_right("members") || !s.is_right("roles") {
            return;
        }
        if list.is_empty() && !self.is(Role::Collector) {
            let key = if s.has("members") { "members" } else { "roles" };
            s.refuse(key, wrong("a router without members", "list the collectors it is to ask under `members`"));
        }
        if let Some(wrong) = self.left_out(list).filter(|_| !list.is_empty()) {
            s.refuse(if s.has("member") { "member" } else { "members" }, wrong);
        } else if let Some(wrong) = self.at_anothers(list) {
            s.refuse_below("api", "listen", wrong);
        }
    }

    /// What is wrong with this collector's place among the members of a file, for people: nobody sends to one that is not
    /// there.
    pub fn misplaced(&self, list: &[MemberAddr]) -> Option<String> {
        let wrong = self.left_out(list).or_else(|| self.at_anothers(list))?;
        Some(format!("{}: {}", wrong.problem, wrong.remedy))
    }

    fn left_out(&self, list: &[MemberAddr]) -> Option<Wrong> {
        let out = self.is(Role::Collector) && !list.iter().any(|member| member.id == self.member);
        let problem = || format!("this collector's id {} is not among the members", self.member);
        out.then(|| wrong(problem(), "list it, or write `member:` as it is listed"))
    }

    fn at_anothers(&self, list: &[MemberAddr]) -> Option<Wrong> {
        let api = self.api.filter(|_| self.is(Role::Collector))?;
        let here = |addr: &Address| addr.host.parse() == Ok(api.ip()) && addr.port == api.port();
        let other = list.iter().find(|member| here(&member.addr) && member.id != self.member)?;
        let own = list.iter().find(|member| member.id == self.member)?;
        let problem =
            format!("{api} is the address of member {}; this is {}, listed at {}", other.id, own.id, own.addr);
        Some(wrong(problem, format!("write `member: {}`, or listen at {}", other.id, own.addr)))
    }

    /// An empty list means this collector alone.
    fn fill_in_itself(&mut self) {
        let Members::Static(list) = &mut self.members else { return };
        if list.is_empty() {
            let api = self.api.unwrap_or(API);
            let addr = Address { host: api.ip().to_string(), port: api.port() };
            list.push(MemberAddr { id: self.member.clone(), addr, node: self.node.clone() });
        }
    }
}

impl CollectordLimits {
    fn read(s: &mut Section<'_>) -> CollectordLimits {
        CollectordLimits {
            max_tasks: s.read("max_tasks", 100_000, count(1..=10_000_000)),
            max_nodes: s.read("max_nodes", 5_000, count(1..=100_000)),
            max_message: s.read("max_message", 8 << 20, size(64 << 10..=64 << 20)),
            max_streams: s.read("max_streams", 5_000, count(1..=100_000)),
            max_subscriptions: s.read("max_subscriptions", 64, count(1..=10_000)),
            max_queries: s.read("max_queries", 64, count(1..=10_000)),
        }
    }
}

fn roles(s: &mut Section<'_>) -> Vec<Role> {
    const ROLES: &[(&str, Role)] = &[("collector", Role::Collector), ("router", Role::Router)];
    let Some(list) = s.get("roles") else { return vec![Role::Collector, Role::Router] };
    let mut roles = Vec::new();
    let items = list.items();
    if items.is_empty() && list.is_list() {
        list.refuse(wrong("no role", "write [collector, router], or one of them"));
    }
    for item in items {
        match item.read(choice(ROLES)) {
            Some(role) if roles.contains(&role) => item.refuse(wrong("a role listed twice", "keep one of them")),
            role => roles.extend(role),
        }
    }
    roles
}
