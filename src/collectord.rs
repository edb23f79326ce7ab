//! One collectord: its roles, apis and loops; what `bin/collectord.rs` runs and what a host process embeds.
//!
//! `new` binds nothing and spawns nothing; `routes` and `metrics_routes` are mounted on the host's own servers; `run`
//! owns every loop and ends when told. It installs no subscriber, no signal handler, no global registry, no runtime.

mod ring;

pub(crate) use ring::say_ring;

use crate::collector::Collector;
use crate::config::{self, Role};
use crate::discovery::{self, Discovery, Problem, Seen, Trouble};
use crate::figures::Rising;
use crate::grpc::{self, Health, IngestApi, QueryApi, Who};
use crate::join::Bounds;
use crate::manager::{Manager, Told};
use crate::message::HASH_VERSION;
use crate::metrics::own::Bound;
use crate::metrics::{
    CollectorMetrics, MetricsError, Page, ProcessMetrics, Registry, RouterMetrics, Series, SwarmMetrics, cluster,
};
use crate::model::{Gen, MemberId, RingId};
use crate::router::{Router, RouterConfig, Store, View};
use crate::scrape::{self, Asked, Done, Scraped};
use crate::source::engine::Engine;
use crate::status::{Status, listens};
use crate::swarm::Limits;
use crate::view::{Ask, Holding, MemberState, Report, Scope, Selector, Standing, Texts};
use crate::{clock, http};
use axum::response::Response;
use ring::{say_misplaced, tell_other_rings};
use rustix::process::{Resource, getrlimit};
use std::sync::Arc;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// See the head of this file.
pub struct Collectord {
    cfg: config::Collectord,
    collector: Option<Collector>,
    router: Router,
    discovery: Discovery,
    seen: Seen,
    view: watch::Sender<Arc<View>>,
    gen_: Gen,
    health: Health,
    trouble: Trouble,
    registry: Registry,
    process: ProcessMetrics,
    router_metrics: RouterMetrics,
    manager: Option<Manager>,
    told: Option<Told>,
}

impl std::fmt::Debug for Collectord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collectord").field("member", &self.cfg.member).finish_non_exhaustive()
    }
}

/// How discovery asks an address who it is: over gRPC.
pub fn ask_by_grpc() -> discovery::Ask {
    Arc::new(|address| {
        let address = config::Address { host: address.ip().to_string(), port: address.port() };
        Box::pin(grpc::identify(address))
    })
}

/// Counts what goes wrong with the membership.
pub fn count_problems(process: &ProcessMetrics) -> Arc<dyn Fn(Problem) + Send + Sync> {
    let common = process.common.clone();
    Arc::new(move |problem| match problem {
        Problem::File | Problem::Lookup | Problem::Silent => common.discovery_failures.inc(),
        Problem::Incompatible | Problem::Duplicate => common.members_refused.inc(),
    })
}

impl Collectord {
    /// A collectord of this config, with its metrics on the host's registry.
    pub fn new(cfg: config::Collectord, registry: &Registry) -> Result<Collectord, MetricsError> {
        let process = ProcessMetrics::register(registry)?;
        let discovery = Discovery::new(cfg.members.clone(), cfg.replicas, ask_by_grpc(), count_problems(&process));
        let collector = if cfg.is(Role::Collector) {
            let metrics = CollectorMetrics::register(registry)?;
            Some(Collector::new(&cfg, discovery.nudge(), metrics, process.clone()))
        } else {
            None
        };
        let view = watch::Sender::new(Arc::new(View { awaited: true, ..View::default() }));
        let gen_ = collector.as_ref().map_or_else(|| Gen(clock::process_nonce()), Collector::gen_);
        let manager = manager(&cfg, registry)?;
        let told = manager.as_ref().map(Manager::told);
        let own = (collector.is_some() || told.is_some()).then(|| {
            let (member, seen) = (cfg.member.clone(), discovery.seen());
            Own { collector: collector.clone(), told: told.clone(), member, gen_, seen }
        });
        let own = own.map(|own| (cfg.member.clone(), Arc::new(own) as Arc<dyn Store>));
        let bounds = Bounds {
            row_keep: u64::try_from(cfg.row_keep.as_millis()).unwrap_or(u64::MAX),
            max_nodes: cfg.limits.max_nodes,
            replicas: usize::from(cfg.replicas),
            ..Bounds::default()
        };
        let router = RouterConfig {
            query_deadline: cfg.query_deadline,
            max_queries: cfg.limits.max_queries,
            cluster: cfg.is(Role::Router),
            bounds,
        };
        Ok(Collectord {
            router: Router::new(router, own, view.subscribe()),
            router_metrics: RouterMetrics::register(registry)?,
            seen: discovery.seen(),
            gen_,
            manager,
            told,
            registry: registry.clone(),
            health: Health::default(),
            trouble: discovery.trouble(),
            cfg,
            collector,
            discovery,
            view,
            process,
        })
    }

    /// The collector in it, for in-process use; `None` without that role.
    pub fn collector(&self) -> Option<&Collector> {
        self.collector.as_ref()
    }

    /// The router in it.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// For the bin to say where it listens beyond this machine.
    pub fn process_metrics(&self) -> &ProcessMetrics {
        &self.process
    }

    /// The apis, gRPC and HTTP + JSON on one port.
    pub fn routes(&self) -> axum::Router {
        let who = Who {
            member: self.cfg.member.clone(),
            gen_: self.gen_,
            node: self.cfg.node.clone(),
            replicas: self.cfg.replicas,
            roles: self.cfg.roles.iter().map(|role| role.as_str()).collect(),
            standing: self.standing(),
        };
        let query = QueryApi {
            router: self.router.clone(),
            who: who.clone(),
            max_subscriptions: self.cfg.limits.max_subscriptions,
            common: self.process.common.clone(),
        };
        let ingest = self.collector.clone().map(IngestApi);
        let ready = self.readiness();
        let apis = grpc::routes(ingest, query, &self.health, self.cfg.limits.max_message)
            .merge(http::status_route(self.status(ready.clone())));
        count_refusals(apis.merge(http::routes(self.router.clone(), ready, who)), &self.process)
    }

    fn standing(&self) -> Arc<dyn Fn() -> Standing + Send + Sync> {
        let (collector, seen, begun) = (self.collector.clone(), self.seen.clone(), std::time::Instant::now());
        Arc::new(move || {
            let held = collector.as_ref().map(Collector::standing).unwrap_or_default();
            let state = match held.state {
                MemberState::Active if seen.borrow().is_none() => MemberState::Joining,
                state => state,
            };
            let uptime = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            Standing { state, uptime, ..held }
        })
    }

    fn status(&self, not_ready: http::NotReady) -> http::OwnStatus {
        let (collector, seen, cfg, gen_) = (self.collector.clone(), self.seen.clone(), self.cfg.clone(), self.gen_);
        Arc::new(move || Status {
            roles: cfg.roles.iter().map(|role| role.as_str().into()).collect(),
            member: cfg.member.to_string(),
            process: format!("{:016x}", gen_.0),
            node_id: cfg.node.as_ref().map(ToString::to_string),
            replicas: cfg.replicas.into(),
            listens: listens(cfg.api, cfg.metrics),
            not_ready: not_ready(),
            faults: collector.iter().flat_map(Collector::refused_hellos).collect(),
            ..own_status(&seen)
        })
    }

    /// `/metrics`.
    pub fn metrics_routes(&self) -> axum::Router {
        let scraped = ScrapedMember {
            collector: self.collector.clone(),
            router: self.router.clone(),
            metrics: self.router_metrics.clone(),
            told: self.told.clone(),
            process: self.process.clone(),
            rising: self.cfg.is(Role::Router).then(|| Arc::new(Mutex::new(Rising::new(clock::wall())))),
        };
        scrape::routes(self.registry.clone(), Arc::new(scraped), &self.process.common)
    }

    fn readiness(&self) -> http::NotReady {
        let (collector, seen, trouble) = (self.collector.clone(), self.seen.clone(), self.trouble.clone());
        Arc::new(move || {
            let mut reasons: Vec<String> = no_ring(&seen, &trouble).into_iter().collect();
            if collector.as_ref().is_some_and(|collector| !collector.is_serving()) {
                reasons.push("this process is leaving".to_string());
            }
            reasons
        })
    }

    /// Runs its loops until stopped; then leaves: not ready, hands over while it goes on answering, Bye to every shipper. That
    /// takes 7/8 of `drain` at most: the rest is for the servers' last answers.
    pub async fn run(self, stop: CancellationToken) {
        let loops_stop = CancellationToken::new();
        let mut loops = JoinSet::new();
        if matches!(self.cfg.members, config::Members::File(_)) {
            loops.spawn(say_misplaced(self.cfg.clone(), self.seen.clone(), loops_stop.clone()));
        }
        if self.cfg.is(Role::Router) {
            loops.spawn(self.router.clone().watch_members(loops_stop.clone()));
        }
        loops.spawn(grpc::follow_peers(
            self.seen.clone(),
            self.trouble,
            self.collector.as_ref().map(|_| self.cfg.member.clone()),
            self.view,
            loops_stop.clone(),
        ));
        let (other_rings, nudge) = (self.router.other_rings(), self.discovery.nudge());
        loops.spawn(tell_other_rings(other_rings, self.process.clone(), nudge, loops_stop.clone()));
        loops.spawn(say_ring(self.seen.clone(), self.process.clone(), loops_stop.clone()));
        loops.spawn(self.discovery.run(loops_stop.clone()));
        if let Some(manager) = self.manager {
            loops.spawn(manager.run(loops_stop.clone()));
        }
        let successors = self.seen.clone();
        if let Some(collector) = self.collector.clone() {
            loops.spawn(collector.run(self.seen, loops_stop.clone()));
        }
        stop.cancelled().await;
        let (eighth, begun) = (self.cfg.drain / 8, Instant::now());
        self.health.leave().await;
        if let Some(collector) = self.collector {
            collector.drain();
            // The only member has nobody to hand over to: the sooner it is back, the better.
            if let Some(view) = others(&successors, collector.member()) {
                collector.handed_over(begun + eighth * 6).await;
                grpc::bequeath(&collector, &view, begun + eighth * 13 / 2).await;
            }
            collector.leave(begun + eighth * 7).await;
        }
        loops_stop.cancel();
        while loops.join_next().await.is_some() {}
    }
}

/// What every process says of itself alike.
pub(crate) fn own_status(seen: &Seen) -> Status {
    Status {
        version: env!("CARGO_PKG_VERSION").into(),
        hash_version: HASH_VERSION,
        ring_id: seen.borrow().as_ref().map(|view| view.ring.id().to_string()),
        open_files_limit: getrlimit(Resource::Nofile).current,
        ..Status::default()
    }
}

/// The membership, where it has others than this process.
fn others(seen: &Seen, own: &MemberId) -> Option<Arc<discovery::View>> {
    seen.borrow().clone().filter(|view| view.ring.members().iter().any(|member| member.id != *own))
}

/// Why there is no ring yet, if there is none.
pub(crate) fn no_ring(seen: &Seen, trouble: &Trouble) -> Option<String> {
    let why = || trouble.borrow().as_ref().map_or_else(String::new, |why| format!(": {why}"));
    seen.borrow().is_none().then(|| format!("no member of the ring is known yet{}", why()))
}

/// Counts the requests of these routes that are answered with 4xx.
pub(crate) fn count_refusals(routes: axum::Router, process: &ProcessMetrics) -> axum::Router {
    let refused = process.common.requests_refused.clone();
    let count = move |response: Response| {
        refused.inc_by(response.status().is_client_error().into());
        std::future::ready(response)
    };
    routes.layer(axum::middleware::map_response(count))
}

/// The lister of what Swarm says, if an engine for it is configured.
fn manager(cfg: &config::Collectord, registry: &Registry) -> Result<Option<Manager>, MetricsError> {
    let Some(socket) = &cfg.swarm_engine else { return Ok(None) };
    let engine =
        Engine::new(&socket.to_string_lossy(), None).expect("only a fixed version can be wrong, and there is none");
    let limits = Limits { max_tasks: cfg.limits.max_tasks, max_nodes: cfg.limits.max_nodes };
    Ok(Some(Manager::new(engine, limits, SwarmMetrics::register(registry)?)))
}

/// What this process holds itself: figures, or what Swarm says, or both.
struct Own {
    collector: Option<Collector>,
    told: Option<Told>,
    member: MemberId,
    gen_: Gen,
    seen: Seen,
}

impl Store for Own {
    fn hold(&self, ask: &Ask) -> Holding {
        let swarm = self.told.as_ref().map(|told| told.swarm(ask));
        match &self.collector {
            Some(collector) => Holding { swarm, ..collector.hold(ask) },
            None => Holding {
                member: self.member.clone(),
                gen_: self.gen_,
                ring_id: self.seen.borrow().as_ref().map_or_else(RingId::default, |found| found.ring.id()),
                young: false,
                forgot: false,
                tasks: Vec::new(),
                rows: Vec::new(),
                nodes: Vec::new(),
                swarm,
            },
        }
    }
}

/// The whole cluster's series, of one question; one at a time, so that no older answer is taken after a newer one.
async fn of_cluster(router: Router, rising: Arc<Mutex<Rising>>) -> Result<Page, String> {
    let ask = Ask { texts: Texts::Groups, ..Ask::of(vec![Selector::everything()]) };
    if router.view().awaited {
        return Err("no member of the ring is known yet".into());
    }
    let mut rising = rising.lock().await;
    let make = |report: Report| {
        rising.take(&report, clock::wall());
        Page::new(cluster(&report, &rising))
    };
    router.answer(ask, Scope::Cluster, make).await.map_err(|error| error.to_string())
}

struct ScrapedMember {
    collector: Option<Collector>,
    router: Router,
    metrics: RouterMetrics,
    told: Option<Told>,
    process: ProcessMetrics,
    /// Counters of the whole cluster since the start; `None` without the router role.
    rising: Option<Arc<Mutex<Rising>>>,
}

impl Scraped for ScrapedMember {
    fn measure(&self) {
        if let Some(collector) = &self.collector {
            collector.measure();
        }
        if let Some(told) = &self.told {
            told.measure();
        }
        measure_router(&self.router, &self.metrics, &self.process);
    }

    fn cluster(&self) -> Option<Asked> {
        let asked = of_cluster(self.router.clone(), self.rising.clone()?);
        Some(Box::pin(asked))
    }

    fn page(&self) -> Option<(Page, Done)> {
        let Some(collector) = self.collector.clone() else {
            return Some((Page::new(Series::default()), Box::new(|_, _| {})));
        };
        let (page, showing) = collector.page()?;
        let done = move |whole: bool, n_series| collector.scraped(showing, whole, n_series);
        Some((page, Box::new(done)))
    }
}

/// The router counts for itself; its counters follow.
pub(crate) fn measure_router(router: &Router, metrics: &RouterMetrics, process: &ProcessMetrics) {
    let counts = router.counts();
    let refused = &process.common.bounds_refused;
    for (counter, now) in [
        (&metrics.queries, counts.queries),
        (&metrics.queries_incomplete, counts.incomplete),
        (&metrics.unanswered, counts.unanswered),
        (refused.of(Bound::MaxQueries), counts.refused),
        (refused.of(Bound::MaxRemembered), counts.rows_refused),
    ] {
        counter.inc_by(now.saturating_sub(counter.get()));
    }
    let [joining, active, draining, gone] = router.states();
    for (gauge, now) in [
        (&metrics.suspected, counts.suspected),
        (&metrics.nodes, counts.nodes),
        (&metrics.rows, counts.rows),
        (&metrics.joining, joining),
        (&metrics.active, active),
        (&metrics.draining, draining),
        (&metrics.gone, gone),
    ] {
        gauge.set(i64::try_from(now).unwrap_or(i64::MAX));
    }
}
