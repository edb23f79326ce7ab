//! args → config → bind → find the engine → run: one a node.

mod common;

use common::{args, config, logs, run, stop_on_signals};
use std::process::ExitCode;
use swarmstats::discovery::members_in_file;
use swarmstats::metrics::Registry;
use swarmstats::metrics::own::{Endpoint, register_process};
use swarmstats::serve::{bind, serve};
use swarmstats::shipperd::Shipperd;
use swarmstats::{config, source};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const ABOUT: &str = "Reads what every task on this node uses, and ships it to the collectors that own it.";
const EXAMPLES: &str = "\
Examples:
  shipper                                       with the defaults: this machine's engine, a collectord on 127.0.0.1:7770
  shipper --config /etc/swarmstats/shipper.yaml
  shipper --config new.yaml --check             all mistakes at once; exit code 64 if there are any
  shipper --config … --healthy                  for health checks: exit code 0 if the one running here answers
  curl 127.0.0.1:7773/v1/tasks                  what it knows of its own node, as JSON
  curl 127.0.0.1:7772/metrics                   the same for Prometheus

Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot run or is told so twice, 64 for wrong arguments or config.";

fn main() -> ExitCode {
    let members = |config: &config::Shipper| members_in_file(&config.members).map(drop);
    let config = args("shipper", ABOUT, EXAMPLES)
        .and_then(|args| config(&args, config::Shipper::parse, members, |config| config.api));
    match config {
        Err(code) => code,
        Ok(config) => run(shipper(config)),
    }
}

async fn shipper(config: config::Shipper) -> Result<(), Box<dyn std::error::Error>> {
    logs(&config.log);
    let stop = stop_on_signals()?;
    if let Err(error) = source::docker::raise_open_files_limit() {
        tracing::warn!(%error, "the limit of open files stays as it is: about fifteen a task are needed");
    }
    let (api, metrics, grace) = (config.api, config.metrics, std::time::Duration::from_secs(2));
    let registry = Registry::new();
    register_process(&registry)?;
    let shipper = Shipperd::new(config, &registry)?;
    let closed = CancellationToken::new();
    let common = shipper.process_metrics().common.clone();
    let mut servers = JoinSet::new();
    if let Some(address) = api {
        let listener = bind("api.listen", address).await?;
        if !address.ip().is_loopback() {
            shipper.process_metrics().set_insecure(Endpoint::Api);
        }
        servers.spawn(serve(listener, shipper.routes(), closed.clone(), grace, common.clone()));
    }
    if let Some(address) = metrics {
        let listener = bind("metrics.listen", address).await?;
        if !address.ip().is_loopback() {
            shipper.process_metrics().set_insecure(Endpoint::Metrics);
        }
        servers.spawn(serve(listener, shipper.metrics_routes(), closed.clone(), grace, common.clone()));
    }
    let ended = shipper.run(stop).await;
    closed.cancel();
    while servers.join_next().await.is_some() {}
    Ok(ended?)
}
