//! The probes: each asks one thing, within a deadline, and brings home plain facts.
//!
//! All of a phase run at once; two phases, because whom to ask in the second is known after the first. It deliberately
//! judges nothing, changes nothing, and never reads `/metrics` (a scrape tells a collector that its amounts were seen).

use super::Options;
use super::seen::{Answer, Engine, Item, Listing, Owner, Ring, Seen, Spot, SwarmNode, SwarmTask, Trail, followed};
use crate::cli::client::{self, Reply, encoded};
use crate::cli::hosts::Host;
use crate::source::engine::{Engine as Client, Error, percent_encoded};
use crate::source::machine;
use crate::status::Status;
use hyper::StatusCode;
use serde::Deserialize;
use std::future::Future;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// For one process about itself.
const DEADLINE: Duration = Duration::from_secs(1);
/// For a router about the whole, which itself waits a second for its members.
const ROUTER_DEADLINE: Duration = Duration::from_secs(2);
/// For each of the two phases: what has not come by then is judged as not come.
const PHASE: Duration = Duration::from_millis(2200);
const LAST_PHASE: Duration = Duration::from_millis(1600);
/// At most so many other nodes' shippers, and tasks of a service, are asked about.
const MOST: usize = 50;
/// The beginning of a task's id has so many characters; fewer are a slot.
const LEAST_ID: usize = 4;
/// Where a shipper's api is on a node whose address Swarm tells.
const SHIPPER_PORT: u16 = 7773;

/// Examines everything.
pub(super) async fn everything(options: &Options, router: Host, place: &str) -> (Seen, Option<Trail>) {
    let at = router;
    let own_shipper = options.shippers.clone();
    let name = options.name.as_deref();
    let by = Instant::now() + PHASE;
    let ((engine, swarm), router, ring, nodes, tasks, mut shippers) = tokio::join!(
        engine(place, name),
        daemon(&at),
        ring(&at, None),
        listing(&at, "/v1/nodes", "nodes"),
        async { Some(timeout_at(by, tasks(&at, name?)).await.unwrap_or_else(|_| Err(late(PHASE)))) },
        all(
            by,
            own_shipper
                .into_iter()
                .map(|host| async move { Spot { place: host.to_string(), answer: daemon(&host).await } })
        ),
    );
    let by = Instant::now() + LAST_PHASE;
    let addresses = ring
        .iter()
        .flat_map(|ring| &ring.members)
        .filter_map(|member| Some((member.id.clone(), member.address.clone()?)));
    let members = addresses.map(|(id, address)| async move {
        let place = format!("{id} at {address}");
        let Some(host) = host(&address) else {
            return Spot { place, answer: Answer::Closed("its address is none".into()) };
        };
        Spot { place, answer: daemon(&host).await }
    });
    let others = other_shippers(&engine, &at)
        .into_iter()
        .map(|host| async move { Spot { place: host.to_string(), answer: daemon(&host).await } });
    let metrics =
        metrics_spots(&at, &router, 7770, 7771)
            .into_iter()
            .chain(
                options
                    .shippers
                    .first()
                    .zip(shippers.first())
                    .and_then(|(host, spot)| metrics_spots(host, &spot.answer, 7773, 7772)),
            )
            .map(|(host, expected)| async move {
                (Spot { place: host.to_string(), answer: metrics(&host).await }, expected)
            });
    let trail = async {
        let (name, router) = (name?.to_owned(), tasks?);
        let ids: Vec<String> = match (&swarm, &router) {
            (Some(Ok(records)), _) => followed(records).into_iter().map(|task| task.id.clone()).collect(),
            (_, Ok(listing)) => listing.items.iter().map(|task| task.id.clone()).collect(),
            _ => vec![],
        };
        let ids = &ids[..ids.len().min(MOST)];
        let (router, owners) =
            tokio::join!(with_each(by, router, &at, ids), all(by, ids.iter().cloned().map(|id| owner(at.clone(), id))));
        Some(Trail { name, swarm, router, owners })
    };
    let (members, others, metrics, trail) = tokio::join!(all(by, members), all(by, others), all(by, metrics), trail);
    shippers.extend(others.into_iter().filter(|spot| matches!(spot.answer, Answer::Ours(..))));
    let seen = Seen {
        engine,
        machine: machine::look(Path::new("/proc"), Path::new("/sys")),
        router: Spot { place: at.to_string(), answer: router },
        ring,
        nodes: nodes.ok(),
        members,
        shippers,
        metrics,
    };
    (seen, trail)
}

/// Runs all at once; what they gave by then, in their order.
async fn all<F: Future<Output: Send + 'static> + Send + 'static>(
    by: Instant,
    futures: impl Iterator<Item = F>,
) -> Vec<F::Output> {
    let mut running = JoinSet::new();
    for (place, future) in futures.enumerate() {
        running.spawn(async move { (place, future.await) });
    }
    let mut done = vec![];
    while let Ok(Some(ended)) = timeout_at(by, running.join_next()).await {
        done.extend(ended);
    }
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, output)| output).collect()
}

/// `host:port`, an IPv6 address in brackets.
fn host(address: &str) -> Option<Host> {
    format!("http://{address}").parse().ok()
}

/// The engine, and what it says as a manager of the task or service named.
async fn engine(place: &str, name: Option<&str>) -> (Engine, Option<Result<Vec<SwarmTask>, String>>) {
    if place.contains("://") && !place.starts_with("unix://") {
        return (Engine::Elsewhere(place.to_owned()), None);
    }
    let asked = async {
        let client = Client::new(place, std::env::var("DOCKER_API_VERSION").ok().as_deref())?;
        client.negotiate(false).await?;
        Ok((client.info().await?, client))
    };
    let (info, client) = match timeout(DEADLINE, asked).await {
        Ok(Ok(asked)) => asked,
        Ok(Err(error)) => return (trouble(&error), None),
        Err(_) => {
            let said = format!("the engine at {place} takes connections, but did not answer within {DEADLINE:?}");
            return (Engine::Trouble("engine_frozen", said), None);
        }
    };
    let manager = info.swarm.control_available;
    let swarm = async {
        let nodes = timeout(DEADLINE, client.get::<Vec<SwarmNode>>("/nodes", DEADLINE)).await;
        nodes.map_err(|_| late(DEADLINE))?.map_err(|error| words(&error))
    };
    let tasks = async {
        let name = name.filter(|_| manager)?;
        let found = timeout(DEADLINE, swarm_tasks(&client, name)).await;
        Some(found.map_err(|_| late(DEADLINE)).and_then(|found| found.map_err(|error| words(&error))))
    };
    let (swarm, tasks) = tokio::join!(async { if manager { Some(swarm.await) } else { None } }, tasks);
    let (socket, api) = (place.to_owned(), client.version().to_string());
    (Engine::Answers { socket, info: Box::new(info), api, swarm }, tasks)
}

fn trouble(error: &Error) -> Engine {
    match error {
        Error::Missing(path) => {
            Engine::Trouble("engine_missing", format!("there is no engine's socket at {}", path.display()))
        }
        Error::Denied(path) => {
            Engine::Trouble("engine_denied", format!("permission denied on the engine's socket {}", path.display()))
        }
        Error::Refused(path) => {
            Engine::Trouble("engine_refused", format!("nobody listens on the engine's socket {}", path.display()))
        }
        Error::Timeout { .. } => Engine::Trouble("engine_frozen", error.to_string()),
        Error::Version(_) => Engine::Trouble("engine_old", error.to_string()),
        _ => Engine::Trouble("engine_broken", words(error)),
    }
}

fn late(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}

fn words(error: &dyn std::error::Error) -> String {
    let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{error}{cause}")
}

/// The tasks of a service, or a task: by id, the beginning of one, or name, with or without the id at its end.
async fn swarm_tasks(client: &Client, name: &str) -> Result<Vec<SwarmTask>, Error> {
    #[derive(Deserialize)]
    struct Service {
        #[serde(rename = "ID")]
        id: String,
    }
    let filtered = async |key: &str, value: &str| {
        let filters = serde_json::json!({ key: [value] }).to_string();
        client.get::<Vec<SwarmTask>>(&format!("/tasks?filters={}", percent_encoded(&filters)), DEADLINE).await
    };
    match client.get::<Service>(&format!("/services/{}", percent_encoded(name)), DEADLINE).await {
        Ok(service) => return filtered("service", &service.id).await,
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    let last = name.rsplit_once('.').map(|(_, id)| id);
    for id in [Some(name), last].into_iter().flatten().filter(|id| id.len() >= LEAST_ID) {
        match client.get::<SwarmTask>(&format!("/tasks/{}", percent_encoded(id)), DEADLINE).await {
            Ok(task) if task.id.starts_with(id) => return Ok(vec![task]),
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    // A slot such as web.1: the engine takes the beginning of a name, web.10 as well.
    let Some((service, slot)) = name.rsplit_once('.') else { return Ok(vec![]) };
    let mut tasks = filtered("name", name).await?;
    tasks.retain(|task| !service.is_empty() && task.slot.to_string() == slot);
    Ok(tasks)
}

/// Who answers at an address.
async fn daemon(host: &Host) -> Answer {
    let reply = match ask(host, "/v1/status").await {
        Ok(reply) => reply,
        Err(answer) => return answer,
    };
    let now = SystemTime::now();
    match serde_json::from_slice::<Status>(&reply.body) {
        Ok(status) if reply.status == StatusCode::OK => {
            let seconds =
                |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).map(|since| since.as_secs_f64()).ok();
            let ahead = reply.date.and_then(|date| Some(seconds(date)? - seconds(now)?.floor()));
            Answer::Ours(Box::new(status), ahead)
        }
        _ => Answer::Foreign(format!("it answered {} to /v1/status", reply.status)),
    }
}

/// Whether one of ours serves `/metrics` there, without a scrape.
async fn metrics(host: &Host) -> Answer {
    match ask(host, "/").await {
        Ok(reply) if String::from_utf8_lossy(&reply.body).contains("the metrics are at /metrics") => {
            Answer::Ours(Box::default(), None)
        }
        Ok(reply) => Answer::Foreign(format!("it answered {} to a page that is not there", reply.status)),
        Err(answer) => answer,
    }
}

async fn ask(host: &Host, path: &str) -> Result<Reply, Answer> {
    match client::get_within(DEADLINE, host, path).await {
        Ok(reply) => Ok(reply),
        Err(client::Error::Unreachable(_, error)) => Err(Answer::Closed(error.to_string())),
        Err(client::Error::Http(_, error)) => Err(Answer::Foreign(error)),
        // A frozen process's port still takes connections, one behind a wall does not.
        Err(client::Error::Late(..)) => {
            match timeout(DEADLINE / 4, tokio::net::TcpStream::connect((&*host.name, host.port))).await {
                Ok(Ok(_)) => Err(Answer::Silent(DEADLINE)),
                _ => Err(Answer::Closed(format!("no connection within {DEADLINE:?}"))),
            }
        }
        Err(error) => Err(Answer::Foreign(error.to_string())),
    }
}

async fn document<T: serde::de::DeserializeOwned>(
    host: &Host,
    path: &str,
) -> Result<Result<T, (StatusCode, String)>, String> {
    let reply = client::get_within(ROUTER_DEADLINE, host, path).await.map_err(|error| error.to_string())?;
    if reply.status == StatusCode::OK {
        return serde_json::from_slice(&reply.body)
            .map(Ok)
            .map_err(|error| format!("its answer to {path} is not understood: {error}"));
    }
    let said: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    Ok(Err((reply.status, said["error"].as_str().unwrap_or("no reason given").to_owned())))
}

async fn ring(host: &Host, task: Option<&str>) -> Option<Ring> {
    let path =
        task.map_or_else(|| "/v1/ring".to_owned(), |id| format!("/v1/ring?key={}", encoded(&format!("task:{id}"))));
    document(host, &path).await.ok()?.ok()
}

async fn listing(host: &Host, path: &str, list: &str) -> Result<Listing, String> {
    found(document(host, path).await?.map_err(|(status, said)| format!("{status}: {said}"))?, list)
}

fn found(mut document: serde_json::Value, list: &str) -> Result<Listing, String> {
    let items = serde_json::from_value(document[list].take())
        .map_err(|error| format!("its {list} are not understood: {error}"))?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let missing = document["missing"].as_array().into_iter().flatten();
    let missing = missing.map(|part| format!("{}: {}", text(&part["what"]), text(&part["why"]))).collect();
    Ok(Listing { items, missing, swarm_told: !document["swarm"].is_null() })
}

/// A task by its name, or a service's tasks.
async fn tasks(host: &Host, name: &str) -> Result<Listing, String> {
    let (task, service) = (format!("/v1/tasks/{}", encoded(name)), format!("/v1/tasks?service={}", encoded(name)));
    let (task, service) = tokio::join!(document(host, &task), listing(host, &service, "tasks"));
    match task? {
        Ok(document) => {
            let listing = found(document, "tasks")?;
            if !listing.items.is_empty() {
                return Ok(listing);
            }
        }
        Err((StatusCode::NOT_FOUND, _)) => {}
        Err((status, said)) => return Err(format!("{status}: {said}")),
    }
    let mut listing = service?;
    listing.items.retain(|task| task.state.as_deref() != Some("ended"));
    Ok(listing)
}

/// What the router answered, and the tasks that Swarm knows by a name the router does not (a slot).
async fn with_each(
    by: Instant,
    answered: Result<Listing, String>,
    router: &Host,
    ids: &[String],
) -> Result<Listing, String> {
    let mut listing = answered?;
    let unknown: Vec<String> =
        ids.iter().filter(|id| !listing.items.iter().any(|item| item.id == **id)).cloned().collect();
    let asked = unknown.into_iter().map(|id| {
        let router = router.clone();
        async move { self::listing(&router, &format!("/v1/tasks/{}", encoded(&id)), "tasks").await }
    });
    for found in all(by, asked).await.into_iter().flatten() {
        listing.items.extend(found.items);
    }
    Ok(listing)
}

/// Who owns a task by the router's ring, and what that member holds of it.
async fn owner(router: Host, id: String) -> (String, Option<Owner>) {
    let Some(ring) = ring(&router, Some(&id)).await else { return (id, None) };
    let Some(member) = ring.key.as_ref().and_then(|key| key.owners.first()).cloned() else { return (id, None) };
    let address = ring
        .members
        .iter()
        .find(|known| known.id == member)
        .and_then(|known| known.address.clone())
        .unwrap_or_default();
    let holds = async {
        let host = host(&address).ok_or("the router does not know its address")?;
        let path = format!("/v1/tasks/{}?scope=local", encoded(&id));
        match timeout(DEADLINE, document(&host, &path)).await.map_err(|_| late(DEADLINE))?? {
            Ok(document) => Ok(found(document, "tasks")?.items.into_iter().next()),
            Err((StatusCode::NOT_FOUND, _)) => Ok(None),
            Err((status, said)) => Err(format!("{status}: {said}")),
        }
    };
    let holds: Result<Option<Item>, String> = holds.await;
    (id, Some(Owner { member: format!("{member} at {address}"), holds }))
}

/// Where other nodes' shippers would be, if they listened beyond their own machine.
fn other_shippers(engine: &Engine, router: &Host) -> Vec<Host> {
    let others = engine.nodes().unwrap_or_default().iter().filter(|node| engine.node_id() != Some(&node.id));
    let hosts = others.map(|node| Host { name: node.status.addr.clone(), port: SHIPPER_PORT });
    hosts.filter(|host| !matches!(&*host.name, "" | "0.0.0.0") && host != router).take(MOST).collect()
}

/// Where a daemon's `/metrics` would be: as it says (then they are expected there), else at their usual port.
fn metrics_spots(host: &Host, answer: &Answer, api_port: u16, metrics_port: u16) -> Option<(Host, bool)> {
    let Some(status) = answer.status() else {
        return (host.port == api_port).then(|| (Host { port: metrics_port, ..host.clone() }, false));
    };
    let address = status.listens.iter().find(|listens| listens.endpoint == "metrics")?.address;
    if address.port() == 0 {
        return None;
    }
    if address.ip().is_unspecified() {
        return Some((Host { port: address.port(), ..host.clone() }, true));
    }
    // Another machine's loopback is not ours.
    let here = host.name == "localhost" || host.name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    (!address.ip().is_loopback() || here).then(|| (Host { name: address.ip().to_string(), port: address.port() }, true))
}
