//! A router's JSON document, checked and taken apart, or why it is none.
//!
//! Fields this version does not know are ignored, so that an old command works with a new router. Texts are kept as they
//! came: who shows one makes it [`printable`](super::format::printable). Pure.

use crate::cli::{client::Reply, row::Row};
use crate::json::What;
use hyper::StatusCode;
use serde::Deserialize;
use std::collections::BTreeSet;

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
    /// What this command itself has to say.
    pub notes: Vec<String>,
    /// How old Swarm's own word is that names and wishes come from, in seconds.
    pub swarm_age: Option<f64>,
    /// Services, tasks, nodes or stacks.
    pub rows: Vec<Row>,
    /// How many more there are that the filters let not pass.
    pub filtered: usize,
}

#[derive(Deserialize)]
struct Document {
    complete: bool,
    #[serde(default)]
    missing: Vec<Missing>,
    #[serde(default)]
    warnings: Vec<String>,
    swarm: Option<Swarm>,
    services: Option<Vec<Row>>,
    tasks: Option<Vec<Row>>,
    nodes: Option<Vec<Row>>,
    stacks: Option<Vec<Row>>,
}

#[derive(Deserialize)]
struct Swarm {
    #[serde(default)]
    age_seconds: Option<f64>,
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
    /// Takes the reply to a question about such things apart.
    ///
    /// # Errors
    /// What the router refused and why, or what is wrong with the document.
    pub fn read(what: What, reply: &Reply) -> Result<Answer, Error> {
        if reply.status != StatusCode::OK {
            return Err(refusal(reply));
        }
        let document: Document =
            serde_json::from_slice(&reply.body).map_err(|error| Error::NotUnderstood(error.to_string()))?;
        let rows = match what {
            What::Services => document.services,
            What::Tasks => document.tasks,
            What::Nodes => document.nodes,
            What::Stacks => document.stacks,
        };
        Ok(Answer {
            complete: document.complete,
            missing: document.missing.into_iter().map(|m| format!("{}: {}", m.what, m.why)).collect(),
            warnings: document.warnings,
            swarm_age: document.swarm.and_then(|swarm| swarm.age_seconds),
            notes: vec![],
            filtered: 0,
            rows: rows.ok_or_else(|| Error::NotUnderstood(format!("no list of {}", what.plural())))?,
        })
    }

    /// Joins the answers to several names; each row is in it once, in no order.
    pub fn joined(answers: impl IntoIterator<Item = Answer>) -> Answer {
        let mut all = Answer {
            complete: true,
            missing: vec![],
            warnings: vec![],
            notes: vec![],
            swarm_age: None,
            rows: vec![],
            filtered: 0,
        };
        let mut seen = BTreeSet::new();
        for answer in answers {
            all.complete &= answer.complete;
            all.missing.extend(answer.missing);
            all.warnings.extend(answer.warnings);
            all.notes.extend(answer.notes);
            all.swarm_age = answer.swarm_age.or(all.swarm_age);
            all.filtered += answer.filtered;
            all.rows.extend(answer.rows.into_iter().filter(|row| seen.insert((row.id.clone(), row.name.clone()))));
        }
        all.missing.sort_unstable();
        all.missing.dedup();
        all.warnings.sort_unstable();
        all.warnings.dedup();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::row::Coverage;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status: StatusCode::from_u16(status).unwrap(), body: body.to_owned().into(), date: None }
    }

    fn services(body: &str) -> Result<Answer, Error> {
        Answer::read(What::Services, &reply(200, body))
    }

    fn named(names: &[&str]) -> Answer {
        let rows = names.iter().map(|name| Row { name: Some((*name).into()), ..Row::default() }).collect();
        Answer { rows, ..Answer::joined([]) }
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
        assert_eq!(row.tasks, Some(Coverage { fresh: 1, known: 2, desired: None }));
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
    fn joined_answers_hold_each_row_once() {
        let answer = Answer::joined([named(&["web.10", "web.2"]), named(&["api", "web.2", "web.1a"])]);
        let names: Vec<&str> = answer.rows.iter().filter_map(|row| row.name.as_deref()).collect();
        assert_eq!(names, ["web.10", "web.2", "api", "web.1a"]);
        let partial = Answer { complete: false, missing: vec!["m".into()], ..named(&[]) };
        let joined = Answer::joined([partial.clone(), partial, named(&[])]);
        assert_eq!((joined.complete, joined.missing), (false, vec!["m".into()]));
    }
}
