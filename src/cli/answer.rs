//! A router's JSON document: checked, and either taken apart for the table or passed on as it came.
//!
//! Fields this version does not know are ignored, so that an old CLI works with a new router; a figure that is `null`
//! or missing is absent. Texts are kept as they came: who shows one makes it [`printable`](super::format::printable).
//! Pure.

use crate::{cli::client::Reply, json::What};
use hyper::StatusCode;
use serde::Deserialize;

/// Why a reply is not an answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 404 with the router's reason: nothing has that name.
    #[error("{0}")]
    Unknown(String),
    /// 409 with the router's reason: several things have that name.
    #[error("{0}")]
    Ambiguous(String),
    /// Another status with the router's reason.
    #[error("the router answered {0}: {1}")]
    Refused(StatusCode, String),
    /// A status without a reason.
    #[error("answered {0} without a reason; a router may not be what listens there")]
    NotARouter(StatusCode),
    /// Not the document it should be.
    #[error("the answer is not a router's: {0}")]
    NotUnderstood(String),
}

/// One answer, or several joined.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// Nothing is missing.
    pub complete: bool,
    /// What is missing and why, as lines for people.
    pub missing: Vec<String>,
    /// What people should know besides.
    pub warnings: Vec<String>,
    /// Services, tasks, nodes or stacks.
    pub rows: Vec<Row>,
}

/// One service, task, node or stack.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Row {
    /// Its id.
    #[serde(default)]
    pub id: Option<String>,
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// Of a group: how many of its tasks are counted.
    #[serde(default)]
    pub tasks: Option<Coverage>,
    /// How old the figures are.
    #[serde(default)]
    pub age_seconds: Option<f64>,
    /// docker stats' columns.
    #[serde(default)]
    pub figures: Figures,
    /// Of a task: where it runs.
    #[serde(default)]
    pub node_id: Option<String>,
    /// Of a task: where it runs, by name.
    #[serde(default)]
    pub node_name: Option<String>,
    /// Of a task: `running`, or why its figures are not fresh.
    #[serde(default)]
    pub state: Option<String>,
}

impl Row {
    /// Whether none of its figures is fresh; then the word for it.
    pub fn stale(&self) -> Option<&str> {
        match (self.tasks, self.state.as_deref()) {
            (Some(Coverage { fresh: 1.., .. }), _) | (_, Some("running")) => None,
            (_, Some(state)) => Some(state),
            (Some(Coverage { fresh: 0, known: 1.. }), None) => Some("stale"),
            (_, None) => None,
        }
    }
}

/// k of n.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct Coverage {
    /// k: fresh, so counted.
    pub fresh: u64,
    /// n: known to be running.
    pub known: u64,
}

/// docker stats' columns; `None` is absent.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// 100 is one CPU.
    pub cpu_percent: Option<f64>,
    /// Bytes, without the inactive page cache.
    pub memory_used_bytes: Option<u64>,
    /// Bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Of the limit.
    pub memory_percent: Option<f64>,
    /// Bytes since the start.
    pub network_receive_bytes: Option<u64>,
    /// Bytes since the start.
    pub network_transmit_bytes: Option<u64>,
    /// Bytes since the start.
    pub block_read_bytes: Option<u64>,
    /// Bytes since the start.
    pub block_written_bytes: Option<u64>,
    /// Kernel tasks.
    pub pids: Option<u64>,
}

#[derive(Deserialize)]
struct Document {
    complete: bool,
    #[serde(default)]
    missing: Vec<Missing>,
    #[serde(default)]
    warnings: Vec<String>,
    services: Option<Vec<Row>>,
    tasks: Option<Vec<Row>>,
    nodes: Option<Vec<Row>>,
    stacks: Option<Vec<Row>>,
}

#[derive(Deserialize)]
struct Missing {
    what: String,
    why: String,
}

#[derive(Deserialize)]
struct Reason {
    error: String,
    #[serde(default)]
    remedy: Option<String>,
    #[serde(default)]
    candidates: Vec<serde_json::Value>,
}

impl Answer {
    /// Takes the reply to a question about a view's things apart.
    ///
    /// # Errors
    /// What the router refused and why, or what is wrong with the document.
    pub fn read(view: What, reply: &Reply) -> Result<Answer, Error> {
        if reply.status != StatusCode::OK {
            return Err(refusal(reply));
        }
        let document: Document =
            serde_json::from_slice(&reply.body).map_err(|error| Error::NotUnderstood(error.to_string()))?;
        let rows = match view {
            What::Services => document.services,
            What::Tasks => document.tasks,
            What::Nodes => document.nodes,
            What::Stacks => document.stacks,
        };
        Ok(Answer {
            complete: document.complete,
            missing: document.missing.into_iter().map(|m| format!("{}: {}", m.what, m.why)).collect(),
            warnings: document.warnings,
            rows: rows.ok_or_else(|| Error::NotUnderstood(format!("no list of {}", view.plural())))?,
        })
    }

    /// Joins the answers to several names.
    pub fn joined(answers: impl IntoIterator<Item = Answer>) -> Answer {
        let mut all = Answer { complete: true, missing: vec![], warnings: vec![], rows: vec![] };
        for answer in answers {
            all.complete &= answer.complete;
            all.missing.extend(answer.missing);
            all.warnings.extend(answer.warnings);
            all.rows.extend(answer.rows);
        }
        all.missing.sort_unstable();
        all.missing.dedup();
        all.warnings.dedup();
        all.rows.sort_by_cached_key(|row| {
            let shown = row.name.as_deref().or(row.id.as_deref()).unwrap_or_default();
            (natural(shown), row.id.clone())
        });
        all.rows.dedup_by(|a, b| (&a.id, &a.name) == (&b.id, &b.name));
        all
    }
}

fn refusal(reply: &Reply) -> Error {
    let Ok(Reason { error, remedy, candidates }) = serde_json::from_slice(&reply.body) else {
        return Error::NotARouter(reply.status);
    };
    match reply.status {
        StatusCode::NOT_FOUND => Error::Unknown(error),
        StatusCode::CONFLICT if candidates.is_empty() => Error::Ambiguous(error),
        StatusCode::CONFLICT => Error::Ambiguous(format!("{error}: {}", listed(&candidates))),
        status => Error::Refused(status, remedy.map_or(error.clone(), |remedy| format!("{error}; {remedy}"))),
    }
}

fn listed(candidates: &[serde_json::Value]) -> String {
    let texts = candidates.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    texts.collect::<Vec<_>>().join(", ")
}

/// A sorting key by which `web.2` comes before `web.10`.
fn natural(name: &str) -> String {
    let mut key = String::new();
    for run in name.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        let run = String::from_utf8_lossy(run);
        if run.starts_with(|c: char| c.is_ascii_digit()) {
            key.push_str(&format!("{:0>20}", run.trim_start_matches('0')));
        } else {
            key.push_str(&run);
        }
    }
    key
}

/// A JSON document on one line: the same tokens, with nothing in them that a terminal obeys.
///
/// In JSON a line break can only stand between tokens, and a control character above it only within a string.
pub fn one_line(document: &str) -> String {
    let mut line = String::with_capacity(document.len());
    for c in document.trim().chars() {
        match c {
            '\n' | '\r' | '\t' => line.push(' '),
            c if c.is_control() => line.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status: StatusCode::from_u16(status).unwrap(), body: body.to_owned().into() }
    }

    fn services(body: &str) -> Result<Answer, Error> {
        Answer::read(What::Services, &reply(200, body))
    }

    fn named(names: &[&str]) -> Answer {
        let rows = names.iter().map(|name| Row { name: Some((*name).into()), ..Row::default() }).collect();
        Answer { complete: true, missing: vec![], warnings: vec![], rows }
    }

    #[test]
    fn null_missing_and_unknown_fields_are_no_fault() {
        let answer = services(
            r#"{"complete": false, "missing": [{"what": "node n2", "why": "gone"}], "new": 1, "services": [
                {"id": "s1", "name": "web", "stack": null, "tasks": {"fresh": 1, "known": 2}, "age_seconds": 0.5,
                 "figures": {"cpu_percent": 1.5, "pids": null, "new": {}}}]}"#,
        )
        .unwrap();
        assert_eq!(answer.missing, ["node n2: gone"]);
        let row = &answer.rows[0];
        assert_eq!((row.figures.cpu_percent, row.figures.pids, row.figures.memory_used_bytes), (Some(1.5), None, None));
        assert_eq!(row.tasks, Some(Coverage { fresh: 1, known: 2 }));
        assert_eq!(
            services(r#"{"complete": true, "services": [{"id": "s1", "name": null}]}"#).unwrap().rows[0].name,
            None
        );
    }

    #[test]
    fn what_is_not_the_document_is_refused() {
        for body in [
            "",
            "<html>",
            "[]",
            r#"{"services": []}"#,
            r#"{"complete": true, "tasks": []}"#,
            r#"{"complete": true, "services": [{"name": "web", "figures": {"pids": -1}}]}"#,
        ] {
            assert!(matches!(services(body), Err(Error::NotUnderstood(_))), "{body}");
        }
    }

    #[test]
    fn a_refusal_keeps_the_routers_reason() {
        let read = |status, body| Answer::read(What::Tasks, &reply(status, body)).unwrap_err().to_string();
        assert_eq!(read(404, r#"{"error": "no task x"}"#), "no task x");
        assert_eq!(read(409, r#"{"error": "several tasks", "candidates": ["xa", "xb"]}"#), "several tasks: xa, xb");
        assert_eq!(
            read(503, r#"{"error": "starting", "remedy": "wait"}"#),
            "the router answered 503 Service Unavailable: starting; wait"
        );
        assert!(read(404, "<html>").contains("404 Not Found without a reason"));
    }

    #[test]
    fn a_group_is_stale_only_without_any_fresh_task_and_a_task_by_its_state() {
        let row = |fresh, known, state: Option<&str>| Row {
            tasks: Some(Coverage { fresh, known }),
            state: state.map(Into::into),
            ..Row::default()
        };
        assert_eq!(row(1, 3, None).stale(), None);
        assert_eq!(row(0, 3, None).stale(), Some("stale"));
        assert_eq!(row(0, 0, None).stale(), None, "a service of no tasks");
        assert_eq!(row(0, 1, Some("ended")).stale(), Some("ended"));
        assert_eq!(row(1, 1, Some("running")).stale(), None);
    }

    #[test]
    fn joined_answers_are_sorted_as_people_count_and_hold_each_row_once() {
        let answer = Answer::joined([named(&["web.10", "web.2"]), named(&["api", "web.2", "web.1a"])]);
        let names: Vec<&str> = answer.rows.iter().filter_map(|row| row.name.as_deref()).collect();
        assert_eq!(names, ["api", "web.1a", "web.2", "web.10"]);
        let partial = Answer { complete: false, missing: vec!["m".into()], ..named(&[]) };
        let joined = Answer::joined([partial.clone(), partial, named(&[])]);
        assert_eq!((joined.complete, joined.missing), (false, vec!["m".into()]));
    }

    #[test]
    fn a_document_on_one_line_has_the_same_meaning_and_no_control_character() {
        let document = "{\n\t\"a\": \"x\u{9b}2J\u{7f}\",\r\n \"b\": 1.50}\n";
        let line = one_line(document);
        assert_eq!(line, "{  \"a\": \"x\\u009b2J\\u007f\",   \"b\": 1.50}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&line), value(document));
    }
}
