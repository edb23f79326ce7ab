//! args → config → bind → run → drain: a collector, a router, or both.

mod common;

use common::{args, config, logs, run, stop_on_signals};
use std::process::ExitCode;
use swarmstats::collectord::Collectord;
use swarmstats::config;
use swarmstats::discovery::members_in_file;
use swarmstats::metrics::own::{Endpoint, register_process};
use swarmstats::metrics::{ProcessMetrics, Registry};
use swarmstats::serve::{bind, serve};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const ABOUT: &str = "Keeps what shippers send of their share of a swarm's tasks, and answers for the whole swarm.";
const EXAMPLES: &str = "\
Examples:
  collectord                                          with the defaults: alone, on 127.0.0.1:7770 and :7771
  collectord --config /etc/swarmstats/collectord.yaml
  collectord --config new.yaml --check                all mistakes at once; exit code 64 if there are any
  collectord --config … --healthy                     for health checks: exit code 0 if the one running here answers
  curl 127.0.0.1:7770/v1/services                     what it knows, as JSON
  curl 127.0.0.1:7771/metrics                         the same for Prometheus

Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot run or is told so twice, 64 for wrong arguments or config.";

fn main() -> ExitCode {
    let members = |config: &config::Collectord| match members_in_file(&config.members)?
        .and_then(|list| config.misplaced(&list))
    {
        Some(why) => Err(format!("members: {why}")),
        None => Ok(()),
    };
    let config = args("collectord", ABOUT, EXAMPLES)
        .and_then(|args| config(&args, config::Collectord::parse, members, |config| config.api));
    match config {
        Err(code) => code,
        Ok(config) => run(collectord(config)),
    }
}

async fn collectord(config: config::Collectord) -> Result<(), Box<dyn std::error::Error>> {
    logs(&config.log);
    let stop = stop_on_signals()?;
    let (api, metrics, drain) = (config.api, config.metrics, config.drain);
    let registry = Registry::new();
    register_process(&registry)?;
    let member = config.member.clone();
    let collectord = Collectord::new(config, &registry)?;
    let closed = CancellationToken::new();
    let common = collectord.process_metrics().common.clone();
    let mut servers = JoinSet::new();
    if let Some(address) = api {
        let listener = bind("api.listen", address).await?;
        mark_insecure(collectord.process_metrics(), Endpoint::Api, address);
        servers.spawn(serve(listener, collectord.routes(), closed.clone(), drain / 8, common.clone()));
    }
    if let Some(address) = metrics {
        let listener = bind("metrics.listen", address).await?;
        mark_insecure(collectord.process_metrics(), Endpoint::Metrics, address);
        servers.spawn(serve(listener, collectord.metrics_routes(), closed.clone(), drain / 8, common.clone()));
    }
    tracing::info!(%member, ?api, ?metrics, "collectord runs");
    collectord.run(stop).await;
    closed.cancel();
    while servers.join_next().await.is_some() {}
    tracing::info!("collectord has left");
    Ok(())
}

fn mark_insecure(process: &ProcessMetrics, endpoint: Endpoint, address: std::net::SocketAddr) {
    if !address.ip().is_loopback() {
        process.set_insecure(endpoint);
    }
}
