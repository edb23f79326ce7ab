//! One shipper process: finds its engine, ships for the node it names, and answers for that node; what
//! `bin/shipper.rs` runs.
//!
//! Where the engine does not answer it says so once and tries on; where the node becomes another one (it joined or
//! left a swarm) it begins anew. `new` binds and spawns nothing; `run` owns every loop.

use crate::clock;
use crate::collectord::{ask_by_grpc, count_problems, count_refusals, measure_router, no_ring, own_status, say_ring};
use crate::config;
use crate::discovery::{Discovery, Seen, Trouble};
use crate::grpc::{self, Health, QueryApi, Who};
use crate::http;
use crate::metrics::own::Fault;
use crate::metrics::{MetricsError, Page, ProcessMetrics, Registry, RouterMetrics, Series, ShipperMetrics};
use crate::model::{Gen, MemberId, RingId};
use crate::retry::Retry;
use crate::router::{Router, RouterConfig, Store, View};
use crate::scrape::{self, Done, Scraped};
use crate::shipper::{STREAM_AGE, Shipper, ShipperError};
use crate::source::{self, Docker};
use crate::status::{OfShipper, Status, listens};
use crate::view::{Ask, Holding, Standing};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const FIRST_RETRY: Duration = Duration::from_millis(200);
/// The most subscriptions of a stream, as a collectord's default.
const MAX_SUBSCRIPTIONS: usize = 64;

/// See the head of this file.
pub struct Shipperd {
    cfg: config::Shipper,
    member: MemberId,
    gen_: Gen,
    current: Arc<Current>,
    router: Router,
    /// Kept open: a shipper's router has no peers.
    _view: watch::Sender<Arc<View>>,
    discovery: Discovery,
    seen: Seen,
    registry: Registry,
    metrics: ShipperMetrics,
    router_metrics: RouterMetrics,
    process: ProcessMetrics,
    stream_age: Duration,
}

impl std::fmt::Debug for Shipperd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shipperd").field("engine", &self.cfg.engine).finish_non_exhaustive()
    }
}

/// What is known of the engine.
enum Engine {
    /// It has not answered yet; why, if that is known.
    Silent(Option<String>),
    /// The shipper of the node as it names it now, and what is wrong with it meanwhile.
    Known(Shipper, Trouble),
}

/// The engine as it is now.
struct Current {
    engine: RwLock<Engine>,
    member: MemberId,
    gen_: Gen,
}

impl Current {
    fn get(&self) -> Option<Shipper> {
        match &*self.engine.read().unwrap_or_else(PoisonError::into_inner) {
            Engine::Silent(_) => None,
            Engine::Known(shipper, _) => Some(shipper.clone()),
        }
    }
    fn set(&self, engine: Engine) {
        *self.engine.write().unwrap_or_else(PoisonError::into_inner) = engine;
    }
    /// What is wrong with the engine, if anything is.
    fn trouble(&self) -> Option<String> {
        match &*self.engine.read().unwrap_or_else(PoisonError::into_inner) {
            Engine::Silent(None) => Some("the engine has not answered yet".to_string()),
            Engine::Silent(Some(why)) => Some(format!("the engine has not answered yet: {why}")),
            Engine::Known(_, trouble) => trouble.borrow().clone(),
        }
    }
}

impl Store for Current {
    fn hold(&self, ask: &Ask) -> Holding {
        let mut holding = match self.get() {
            Some(shipper) => shipper.hold(ask),
            None => Holding {
                member: self.member.clone(),
                gen_: self.gen_,
                ring_id: RingId::default(),
                young: false,
                forgot: false,
                tasks: Vec::new(),
                rows: Vec::new(),
                nodes: Vec::new(),
                swarm: None,
            },
        };
        holding.member = self.member.clone();
        holding
    }
}

impl Shipperd {
    /// A shipper process of this config, with its metrics on the given registry.
    pub fn new(cfg: config::Shipper, registry: &Registry) -> Result<Shipperd, MetricsError> {
        let process = ProcessMetrics::register(registry)?;
        let metrics = ShipperMetrics::register(registry)?;
        let discovery = Discovery::new(cfg.members.clone(), cfg.replicas, ask_by_grpc(), count_problems(&process));
        let (member, gen_) = (MemberId::new("shipper").expect("a good name"), Gen(clock::process_nonce()));
        let current = Arc::new(Current { engine: RwLock::new(Engine::Silent(None)), member: member.clone(), gen_ });
        let view = watch::Sender::new(Arc::new(View::default()));
        let own = Some((member.clone(), current.clone() as Arc<dyn Store>));
        Ok(Shipperd {
            router: Router::new(RouterConfig::default(), own, view.subscribe()),
            _view: view,
            seen: discovery.seen(),
            discovery,
            router_metrics: RouterMetrics::register(registry)?,
            registry: registry.clone(),
            cfg,
            member,
            gen_,
            current,
            metrics,
            process,
            stream_age: STREAM_AGE,
        })
    }

    /// For a host whose network ends connections earlier than [`STREAM_AGE`]: streams are opened anew by this age.
    pub fn with_stream_age(mut self, age: Duration) -> Shipperd {
        self.stream_age = age;
        self
    }

    /// For the bin to say where it listens beyond this machine.
    pub fn process_metrics(&self) -> &ProcessMetrics {
        &self.process
    }

    /// The query apis for this node, gRPC and HTTP + JSON on one port.
    pub fn routes(&self) -> axum::Router {
        let who = Who {
            member: self.member.clone(),
            gen_: self.gen_,
            node: None,
            replicas: self.cfg.replicas,
            roles: vec!["shipper"],
            standing: Arc::new(Standing::default),
        };
        let query = QueryApi {
            router: self.router.clone(),
            who: who.clone(),
            max_subscriptions: MAX_SUBSCRIPTIONS,
            common: self.process.common.clone(),
        };
        let (current, seen, trouble) = (self.current.clone(), self.seen.clone(), self.discovery.trouble());
        let not_ready: http::NotReady = Arc::new(move || {
            let unheard = || current.get().and_then(|shipper| shipper.unheard());
            let no_stream = no_ring(&seen, &trouble).or_else(unheard);
            current.trouble().into_iter().chain(no_stream).collect()
        });
        let apis = grpc::routes(None, query, &Health::default(), self.cfg.limits.max_message)
            .merge(http::status_route(self.status(not_ready.clone())));
        count_refusals(apis.merge(http::routes(self.router.clone(), not_ready, who)), &self.process)
    }

    fn status(&self, not_ready: http::NotReady) -> http::OwnStatus {
        let (current, seen, metrics, cfg) =
            (self.current.clone(), self.seen.clone(), self.metrics.clone(), self.cfg.clone());
        Arc::new(move || {
            let shipper = current.get();
            if let Some(shipper) = &shipper {
                shipper.measure(); // sets the gauges
            }
            let gauge = |gauge: i64| u64::try_from(gauge).unwrap_or(0);
            Status {
                roles: vec!["shipper".into()],
                member: current.member.to_string(),
                process: format!("{:016x}", current.gen_.0),
                node_id: shipper.as_ref().map(|shipper| shipper.member().to_string()),
                replicas: cfg.replicas.into(),
                listens: listens(cfg.api, cfg.metrics),
                not_ready: not_ready(),
                faults: metrics.faults.counts().map(|(reason, n)| (reason.into(), n)).collect(),
                shipper: Some(OfShipper {
                    tasks: gauge(metrics.tasks.get()),
                    streams: gauge(metrics.streams.get()),
                    samples_by_engine: metrics.samples_by_engine.get(),
                    machine: source::machine::look(&cfg.host_proc, &cfg.host_sys),
                }),
                ..own_status(&seen)
            }
        })
    }

    /// `/metrics`: its own, and the node's rows.
    pub fn metrics_routes(&self) -> axum::Router {
        let scraped = ScrapedShipper {
            current: self.current.clone(),
            router: self.router.clone(),
            metrics: self.router_metrics.clone(),
            process: self.process.clone(),
        };
        scrape::routes(self.registry.clone(), Arc::new(scraped), &self.process.common)
    }

    /// Runs until stopped, or until another shipper turns out to speak for this node.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ShipperError> {
        let stop = stop.child_token();
        let mut loops = JoinSet::new();
        let nudge = self.discovery.nudge();
        let Shipperd { discovery, cfg, current, metrics, process, seen, stream_age, .. } = self;
        loops.spawn(discovery.run(stop.clone()));
        loops.spawn(say_ring(seen.clone(), process.clone(), stop.clone()));
        let ended = loop {
            let Some((docker, tasks)) = connect(&cfg, &current, &metrics, &stop).await else { break Ok(()) };
            let node = docker.node().clone();
            tracing::info!(node = %node.node_name, node_id = %node.node_id, "the engine's node");
            let shipper = Shipper::new(
                cfg.clone(),
                node,
                stream_age,
                seen.clone(),
                nudge.clone(),
                metrics.clone(),
                process.clone(),
            );
            current.set(Engine::Known(shipper.clone(), docker.trouble()));
            let this = stop.child_token();
            let mut shipping = tokio::spawn(shipper.run(docker, this.clone()));
            let longest = cfg.longest_pause();
            let delays = || {
                let mut retry = Retry::new(FIRST_RETRY, longest);
                std::iter::from_fn(move || Some(retry.next_delay()))
            };
            let ended = tokio::select! {
                ended = &mut shipping => Some(ended),
                changed = tasks.run(delays) => {
                    tracing::warn!(%changed, "the node is another one");
                    None
                }
            };
            this.cancel();
            match ended {
                Some(Ok(ended)) => break ended,
                Some(Err(error)) => tracing::error!(%error, "the shipper's loop ended early; it begins anew"),
                None => drop(shipping.await),
            }
            current.set(Engine::Silent(None));
        };
        stop.cancel();
        while loops.join_next().await.is_some() {}
        ended
    }
}

/// The engine, however long it takes; `None` when stopped.
async fn connect(
    cfg: &config::Shipper,
    current: &Current,
    metrics: &ShipperMetrics,
    stop: &CancellationToken,
) -> Option<(Docker, source::discovery::Discovery)> {
    let mut retry = Retry::new(FIRST_RETRY, cfg.longest_pause());
    let mut complained = false;
    loop {
        let error = tokio::select! {
            () = stop.cancelled() => return None,
            connected = Docker::connect(source_config(cfg)) => match connected {
                Ok(connected) => return Some(connected),
                Err(error) => error,
            },
        };
        if !std::mem::replace(&mut complained, true) {
            tracing::error!(%error, "no engine to ask; trying on");
        }
        metrics.faults.of(Fault::Engine).inc();
        current.set(Engine::Silent(Some(error.to_string())));
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(retry.next_delay()) => {}
        }
    }
}

fn source_config(cfg: &config::Shipper) -> source::Config {
    source::Config {
        socket: cfg.engine.display().to_string(),
        api_version: std::env::var("DOCKER_API_VERSION").ok(),
        host_proc: cfg.host_proc.clone(),
        host_sys: cfg.host_sys.clone(),
        include: match cfg.include {
            config::Include::Swarm => source::describe::Include::Swarm,
            config::Include::All => source::describe::Include::All,
        },
        level: cfg.level,
        labels: cfg.labels.iter().map(ToString::to_string).collect(),
        relist: cfg.relist,
        max_tasks: cfg.limits.max_tasks,
    }
}

struct ScrapedShipper {
    current: Arc<Current>,
    router: Router,
    metrics: RouterMetrics,
    process: ProcessMetrics,
}

impl Scraped for ScrapedShipper {
    fn measure(&self) {
        if let Some(shipper) = self.current.get() {
            shipper.measure();
        }
        measure_router(&self.router, &self.metrics, &self.process);
    }
    fn page(&self) -> Option<(Page, Done)> {
        match self.current.get() {
            Some(shipper) => shipper.page(),
            None => Some((Page::new(Series::default()), Box::new(|_, _| {}))),
        }
    }
}
