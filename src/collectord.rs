//! One collectord: its roles, apis and loops; what `bin/collectord.rs` runs and what a host process embeds.
//!
//! `new` binds nothing and spawns nothing; `routes` and `metrics_routes` are mounted on the host's own servers; `run`
//! owns every loop and ends when told. It installs no subscriber, no signal handler, no global registry, no runtime.

use crate::collector::Collector;
use crate::config::{self, Role};
use crate::discovery::{Ask, Discovery, Problem, Seen, Trouble};
use crate::grpc::{self, Health, IngestApi, QueryApi, Who};
use crate::join::Bounds;
use crate::metrics::own::Bound;
use crate::metrics::{CollectorMetrics, MetricsError, Page, ProcessMetrics, Registry, RouterMetrics, Series};
use crate::model::{Gen, RingId};
use crate::router::{Router, RouterConfig, Store, View};
use crate::scrape::{self, Done, Scraped};
use crate::{clock, http};
use axum::response::Response;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a router waits for a member that missed its last deadline.
const SUSPECT_WAIT: Duration = Duration::from_millis(50);

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
}

impl std::fmt::Debug for Collectord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collectord").field("member", &self.cfg.member).finish_non_exhaustive()
    }
}

/// How discovery asks an address who it is: over gRPC.
pub fn ask_by_grpc() -> Ask {
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
        let view = watch::Sender::new(Arc::new(View::default()));
        let own = collector.clone().map(|collector| (cfg.member.clone(), Arc::new(collector) as Arc<dyn Store>));
        let bounds = Bounds {
            row_keep: u64::try_from(cfg.row_keep.as_millis()).unwrap_or(u64::MAX),
            max_nodes: cfg.limits.max_nodes,
            replicas: usize::from(cfg.replicas),
            ..Bounds::default()
        };
        let router = RouterConfig {
            query_deadline: cfg.query_deadline,
            suspect_wait: SUSPECT_WAIT,
            max_queries: cfg.limits.max_queries,
            cluster: cfg.is(Role::Router),
            bounds,
        };
        Ok(Collectord {
            router: Router::new(router, own, view.subscribe()),
            router_metrics: RouterMetrics::register(registry)?,
            seen: discovery.seen(),
            gen_: collector.as_ref().map_or_else(|| Gen(clock::process_nonce()), Collector::gen_),
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
        };
        let query = QueryApi {
            router: self.router.clone(),
            who,
            max_subscriptions: self.cfg.limits.max_subscriptions,
            common: self.process.common.clone(),
        };
        let ingest = self.collector.clone().map(IngestApi);
        let ready = self.readiness();
        let apis = grpc::routes(ingest, query, &self.health, self.cfg.limits.max_message);
        count_refusals(apis.merge(http::routes(self.router.clone(), ready)), &self.process)
    }

    /// `/metrics`.
    pub fn metrics_routes(&self) -> axum::Router {
        let scraped = ScrapedMember {
            collector: self.collector.clone(),
            router: self.router.clone(),
            metrics: self.router_metrics.clone(),
            process: self.process.clone(),
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

    /// Runs its loops until stopped; then leaves: not ready, no new streams, Bye to every shipper, all within `drain`.
    pub async fn run(self, stop: CancellationToken) {
        let loops_stop = CancellationToken::new();
        let mut loops = JoinSet::new();
        loops.spawn(grpc::follow_peers(
            self.seen.clone(),
            self.collector.as_ref().map(|_| self.cfg.member.clone()),
            self.view,
            loops_stop.clone(),
        ));
        let (other_rings, nudge) = (self.router.other_rings(), self.discovery.nudge());
        loops.spawn(tell_other_rings(other_rings, self.process.clone(), nudge, loops_stop.clone()));
        loops.spawn(say_ring(self.seen.clone(), self.process.clone(), loops_stop.clone()));
        loops.spawn(self.discovery.run(loops_stop.clone()));
        if let Some(collector) = self.collector.clone() {
            loops.spawn(collector.run(self.seen, loops_stop.clone()));
        }
        stop.cancelled().await;
        self.health.leave().await;
        if let Some(collector) = self.collector {
            collector.drain();
            collector.leave(self.cfg.drain / 2).await;
        }
        loops_stop.cancel();
        while loops.join_next().await.is_some() {}
    }
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

/// Keeps `swarmstats_ring_info` true.
pub(crate) async fn say_ring(mut seen: Seen, process: ProcessMetrics, stop: CancellationToken) {
    loop {
        let ring_id = seen.borrow_and_update().as_ref().map_or_else(RingId::default, |view| view.ring.id());
        process.set_ring(ring_id);
        tokio::select! {
            () = stop.cancelled() => return,
            changed = seen.changed() => if changed.is_err() { return } else { process.common.ring_changes.inc() },
        }
    }
}

/// Counts the members' answers from another ring, and has discovery look again.
async fn tell_other_rings(
    mut met: watch::Receiver<u64>,
    process: ProcessMetrics,
    nudge: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut told = 0;
    loop {
        let now = *met.borrow_and_update();
        if now > told {
            process.common.ring_mismatches.inc_by(now - told);
            nudge.notify_one();
            told = now;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = met.changed() => if changed.is_err() { return },
        }
    }
}

struct ScrapedMember {
    collector: Option<Collector>,
    router: Router,
    metrics: RouterMetrics,
    process: ProcessMetrics,
}

impl Scraped for ScrapedMember {
    fn measure(&self) {
        if let Some(collector) = &self.collector {
            collector.measure();
        }
        measure_router(&self.router, &self.metrics, &self.process);
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
    for (gauge, now) in
        [(&metrics.suspected, counts.suspected), (&metrics.nodes, counts.nodes), (&metrics.rows, counts.rows)]
    {
        gauge.set(i64::try_from(now).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_member_of_another_ring_is_counted_and_nudges_discovery() {
        let process = ProcessMetrics::register(&Registry::new()).unwrap();
        let (met, nudge, stop) = (watch::Sender::new(0), Arc::<Notify>::default(), CancellationToken::new());
        let told = tokio::spawn(tell_other_rings(met.subscribe(), process.clone(), nudge.clone(), stop.clone()));
        met.send_modify(|count| *count += 3);
        tokio::time::timeout(Duration::from_secs(5), nudge.notified()).await.unwrap();
        assert_eq!(process.common.ring_mismatches.get(), 3);
        stop.cancel();
        told.await.unwrap();
    }
}
