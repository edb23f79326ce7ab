//! HTTP + JSON: the figures, the ring and the probes, as an axum router to mount on any server.
//!
//! Invariants: every answer is JSON and ends in a newline; an error names what is wrong and what helps; nothing is said
//! not to exist while a member that could know it is silent.
//! It deliberately binds nothing, changes nothing and has no figures of its own.

mod ring;

use crate::grpc::Who;
use crate::json::{self, Shape, What};
use crate::model::{Key, NodeId, ServiceId, TaskId};
use crate::router::{QueryError, Router};
use crate::stat::{Level, Stat};
use crate::status::Status;
use crate::view::{Ask, Report, Scope, Selector, Texts};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;

/// The longest query string, in bytes.
const MAX_QUERY: usize = 4096;
/// The most tasks named where the beginning of an id is that of several.
const MAX_CANDIDATES: usize = 8;

/// Why the process is not ready; empty when it is.
pub type NotReady = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// What the process says of itself now.
pub type OwnStatus = Arc<dyn Fn() -> Status + Send + Sync>;

/// The route `/v1/status`.
pub fn status_route(own: OwnStatus) -> axum::Router {
    axum::Router::new().route("/v1/status", get(async move || axum::Json(own())))
}

#[derive(Clone)]
struct App {
    router: Router,
    not_ready: NotReady,
    who: Who,
}

/// The routes of a process that answers through `router`, and is `who`.
pub fn routes(router: Router, not_ready: NotReady, who: Who) -> axum::Router {
    let list = |what: What| {
        get(move |State(app): State<App>, uri: Uri, query: Params| async move { app.list(what, uri, query).await })
    };
    let one = |what: What| {
        get(move |State(app): State<App>, Path(name): Path<String>, uri: Uri, query: Params| async move {
            app.one(what, &name, uri, query).await
        })
    };
    axum::Router::new()
        .route("/v1/services", list(What::Services))
        // A wildcard: the ids of Compose services have slashes.
        .route("/v1/services/{*name}", one(What::Services))
        .route("/v1/tasks", list(What::Tasks))
        .route("/v1/tasks/{name}", one(What::Tasks))
        .route("/v1/nodes", list(What::Nodes))
        .route("/v1/nodes/{name}", one(What::Nodes))
        .route("/v1/stacks", list(What::Stacks))
        .route("/v1/stacks/{name}", one(What::Stacks))
        .route("/v1/ring", get(ring::ring))
        .route("/healthz", get(|| async { answer(StatusCode::OK, "{\"alive\":true}\n".into()) }))
        .route("/readyz", get(ready))
        .fallback(|uri: Uri| async move { Refusal::unknown(format!("no {} here", uri.path())).into_response() })
        .method_not_allowed_fallback(|| async {
            let error = "only GET is answered here".into();
            Refusal { status: StatusCode::METHOD_NOT_ALLOWED, error, remedy: None, candidates: Vec::new() }
                .into_response()
        })
        .with_state(App { router, not_ready, who })
}

type Pairs = Vec<(String, String)>;
type Params = Result<Query<Pairs>, QueryRejection>;

impl App {
    async fn list(self, what: What, uri: Uri, query: Params) -> Result<Response, Refusal> {
        let question = Question::read(what, uri, query)?;
        let report = self.router.query(question.ask(what), question.scope).await?;
        Ok(self.document(&report, what, &question))
    }

    async fn one(self, what: What, name: &str, uri: Uri, query: Params) -> Result<Response, Refusal> {
        let mut question = Question::read(what, uri, query)?;
        let place = match what {
            What::Services => &mut question.selector.service,
            What::Tasks => &mut question.selector.task,
            What::Nodes => &mut question.selector.node,
            What::Stacks => &mut question.selector.stack,
        };
        *place = Some(name.into());
        let report = self.router.query(question.ask(what), question.scope).await?;
        let listed = report.swarm.as_ref().map(|truth| &truth.list);
        let found = match what {
            What::Tasks => report.tasks.len(),
            What::Nodes => {
                let listed = listed.map_or(0, |list| list.nodes.len());
                report.nodes.len() + report.rows.len() + report.tasks.len() + listed
            }
            What::Services | What::Stacks => {
                report.rows.len() + report.tasks.len() + listed.map_or(0, |list| list.services.len())
            }
        };
        if what == What::Tasks && found > 1 {
            let ids = report.tasks.iter().take(MAX_CANDIDATES).map(|task| task.meta.task_id.to_string());
            return Err(Refusal {
                status: StatusCode::CONFLICT,
                error: format!("{name:?} is the beginning of {found} task ids"),
                remedy: Some("give more of the id".into()),
                candidates: ids.collect(),
            });
        }
        if found == 0 && report.complete {
            let place = if question.scope == Scope::Local { "in this process" } else { "known" };
            let error = format!("no {} {name:?} is {place}", what.singular());
            let remedy = format!("GET /v1/{} lists what is there", what.plural());
            return Err(Refusal { remedy: Some(remedy), ..Refusal::unknown(error) });
        }
        Ok(self.document(&report, what, &question))
    }

    fn document(&self, report: &Report, what: What, question: &Question) -> Response {
        let view = self.router.view();
        let owners = |task: &TaskId| self.router.owners(&view, task);
        let ring_id = view.ring.as_ref().map(|ring| ring.id());
        let shape = Shape { what, stats: question.stats, points: question.points.is_some(), owners: &owners, ring_id };
        answer(StatusCode::OK, json::document(report, &shape))
    }
}

async fn ready(State(app): State<App>) -> Response {
    let reasons = (app.not_ready)();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, json::readiness(&reasons))
}

/// `task:ID`, `node:ID` or `row:NODE:SERVICE`.
fn read_key(text: &str) -> Result<Key, Refusal> {
    let key = match text.split_once(':') {
        Some(("task", id)) => TaskId::new(id).map(Key::Task),
        Some(("node", id)) => NodeId::new(id).map(Key::Node),
        Some(("row", rest)) if rest.contains(':') => {
            let (node, service) = rest.split_once(':').unwrap_or((rest, ""));
            NodeId::new(node).and_then(|node| Ok(Key::Row(node, ServiceId::new(service)?)))
        }
        _ => return Err(Refusal::bad(format!("parameter key: {text:?} is no key"), KEY_FORMS)),
    };
    key.map_err(|error| Refusal::bad(format!("parameter key: {error}"), KEY_FORMS))
}

const KEY_FORMS: &str = "write task:ID, node:ID or row:NODE:SERVICE";

/// What a query string asks for.
struct Question {
    selector: Selector,
    scope: Scope,
    points: Option<usize>,
    /// The mask of the stats to list.
    stats: u64,
}

impl Question {
    fn read(what: What, uri: Uri, query: Params) -> Result<Question, Refusal> {
        let mut question =
            Question { selector: Selector::default(), scope: Scope::Cluster, points: None, stats: Level::All.mask() };
        let selector = &mut question.selector;
        let of_tasks = what == What::Tasks;
        for (name, value) in pairs(uri, query)? {
            let text = || match value.is_empty() {
                true => Err(Refusal::bad(format!("parameter {name} is empty"), "give it a value or leave it out")),
                false => Ok(Some(Arc::from(value.as_str()))),
            };
            match name.as_str() {
                "scope" => {
                    question.scope = match value.as_str() {
                        "local" => Scope::Local,
                        "cluster" => Scope::Cluster,
                        _ => {
                            let error = format!("parameter scope: {value:?} is none");
                            return Err(Refusal::bad(error, "write local or cluster"));
                        }
                    }
                }
                "service" if of_tasks => selector.service = text()?,
                "node" if of_tasks => selector.node = text()?,
                "stack" if of_tasks => selector.stack = text()?,
                "label" if of_tasks => {
                    let (label, value) =
                        value.split_once('=').filter(|(label, _)| !label.is_empty()).ok_or_else(|| {
                            Refusal::bad(
                                format!("parameter label: {value:?} is no name=value"),
                                "write label=NAME=VALUE",
                            )
                        })?;
                    selector.labels.insert(label.into(), value.into());
                }
                "points" if of_tasks => {
                    let points = value.parse().map_err(|_| {
                        Refusal::bad(format!("parameter points: {value:?} is no number"), "write points=N")
                    })?;
                    question.points = Some(points);
                }
                "stats" => question.stats = read_stats(&value)?,
                _ if of_tasks => {
                    return Err(unknown_parameter(&name, "service, node, stack, label, scope, stats, points"));
                }
                _ => return Err(unknown_parameter(&name, "scope, stats")),
            }
        }
        Ok(question)
    }

    /// What is asked of the members.
    fn ask(&self, what: What) -> Ask {
        let selector = if self.selector.is_empty() { Selector::everything() } else { self.selector.clone() };
        let texts = if what == What::Tasks { Texts::Shared } else { Texts::Groups };
        Ask { selectors: vec![selector], points: self.points.unwrap_or(0), stats: self.stats, texts }
    }
}

/// `none`, `docker`, `standard`, `all` or names of stats, with commas between them.
fn read_stats(text: &str) -> Result<u64, Refusal> {
    text.split(',').try_fold(0, |mask, word| {
        let more = match word {
            "none" => 0,
            "docker" => Level::Docker.mask(),
            "standard" => Level::Standard.mask(),
            "all" => Level::All.mask(),
            name => match Stat::all().find(|stat| stat.name() == name) {
                Some(stat) => stat.bit(),
                None => {
                    let error = format!("parameter stats: {name:?} is no stat");
                    let remedy = "write none, docker, standard, all or names of stats, with commas between them";
                    let candidates = Stat::all().map(|stat| stat.name().to_string()).collect();
                    return Err(Refusal { candidates, ..Refusal::bad(error, remedy) });
                }
            },
        };
        Ok(mask | more)
    })
}

fn pairs(uri: Uri, query: Params) -> Result<Pairs, Refusal> {
    let length = uri.query().map_or(0, str::len);
    if length > MAX_QUERY {
        let error = format!("the query string is {length} bytes long, {MAX_QUERY} are allowed");
        return Err(Refusal::bad(error, "ask for less at once"));
    }
    match query {
        Ok(Query(pairs)) => Ok(pairs),
        Err(rejection) => Err(Refusal::bad(rejection.body_text(), "write ?name=value&name=value")),
    }
}

fn unknown_parameter(name: &str, known: &str) -> Refusal {
    Refusal::bad(format!("parameter {name:?} is not known here"), &format!("there is {known}"))
}

/// An answer that is no figures.
struct Refusal {
    status: StatusCode,
    error: String,
    remedy: Option<String>,
    /// What may have been meant.
    candidates: Vec<String>,
}

impl Refusal {
    fn bad(error: String, remedy: &str) -> Refusal {
        Refusal { status: StatusCode::BAD_REQUEST, error, remedy: Some(remedy.into()), candidates: Vec::new() }
    }
    fn unknown(error: String) -> Refusal {
        Refusal { status: StatusCode::NOT_FOUND, error, remedy: None, candidates: Vec::new() }
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Refusal {
        let status = match error {
            QueryError::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            QueryError::Ask(_) | QueryError::HoldsNothing | QueryError::NotARouter => StatusCode::BAD_REQUEST,
        };
        Refusal { status, error: error.to_string(), remedy: None, candidates: Vec::new() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let candidates: Vec<&str> = self.candidates.iter().map(String::as_str).collect();
        answer(self.status, json::error(&self.error, self.remedy.as_deref(), &candidates))
    }
}

fn answer(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], body).into_response()
}
