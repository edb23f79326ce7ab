//! The questions to a router that an [`Options`] comes down to, and their answers as one.
//!
//! Asked for no more than is shown: no stats beside the figures for a table, what a router can select it selects. A
//! router that does not know `?stats=` yet is asked without it. A name that was there before and is gone is only a
//! warning, for a live table goes on. It deliberately decides nothing of how answers look.

use crate::cli::answer::{self, Answer};
use crate::cli::args::Options;
use crate::cli::client::{self, Reply, encoded};
use crate::cli::history;
use crate::cli::hosts::Found;
use crate::cli::row::Row;
use crate::cli::view::View;
use crate::json::What;
use hyper::StatusCode;
use std::time::SystemTime;

/// Swarm's word older than this is worth a note, in seconds.
const OLD_WORD: f64 = 60.0;
/// The stats a history is made of.
const OF_HISTORY: &str = "cpu_seconds_total,memory_used_bytes";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answered.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// What answered is of no use.
    #[error(transparent)]
    Answer(#[from] answer::Error),
}

impl Error {
    /// The router knows no single thing of that name: asking again is no use.
    pub fn is_a_wrong_name(&self) -> bool {
        matches!(self, Error::Answer(answer::Error::Unknown(_) | answer::Error::Ambiguous(_)))
    }
}

/// Asks one router.
#[derive(Debug)]
pub struct Asker {
    found: Found,
    /// Whether it knows `?stats=`, as far as is known.
    knows_stats: bool,
}

/// One round of questions, answered.
#[derive(Debug)]
pub struct Heard {
    /// What is to be shown, in no order.
    pub answer: Answer,
    /// The documents it was read from.
    pub documents: Vec<Reply>,
}

impl Asker {
    /// Asks the router that was found.
    pub fn new(found: Found) -> Asker {
        Asker { found, knows_stats: true }
    }

    /// Asks for everything, or for each name; `whole` asks for all stats too. `forgiving` makes a wrong name a warning.
    ///
    /// # Errors
    /// What kept one of the answers from coming.
    pub async fn ask(&mut self, options: &Options, whole: bool, forgiving: bool) -> Result<Heard, Error> {
        let (mut answers, mut documents) = (vec![], vec![]);
        let names: Vec<Option<&str>> = match &options.names[..] {
            [] => vec![None],
            names => names.iter().map(|name| Some(&**name)).collect(),
        };
        for name in names {
            match self.ask_one(options, whole, name).await {
                Ok((answer, document)) => {
                    answers.push(answer);
                    documents.push(document);
                }
                Err(error) if forgiving && error.is_a_wrong_name() => {
                    answers.push(Answer { warnings: vec![error.to_string()], ..Answer::joined([]) });
                }
                Err(error) => return Err(error),
            }
        }
        let mut answer = Answer::joined(answers);
        let all = answer.rows.len();
        answer.rows.retain(|row| options.filters.pass(row));
        answer.filtered = all - answer.rows.len();
        if let Some(points) = options.show.history {
            self.remember(options, points, &mut answer).await;
        }
        answer.notes.extend(self.found.note.clone());
        let old = answer.swarm_age.filter(|age| *age > OLD_WORD);
        answer.notes.extend(old.map(|age| format!("what Swarm wants was last heard {} ago", super::format::age(age))));
        Ok(Heard { answer, documents })
    }

    /// Asks for one name, or for everything. A task's name may be a service's: then its tasks are meant.
    async fn ask_one(&mut self, options: &Options, whole: bool, name: Option<&str>) -> Result<(Answer, Reply), Error> {
        let what = options.show.view.what();
        let all = format!("/v1/{}", what.plural());
        let mut query = Query::default();
        if !whole {
            query.stats = Some("none");
        }
        if let (Some(points), true) = (options.show.history, options.show.view.is_of_tasks()) {
            query.points = Some(points);
            query.stats = query.stats.map(|_| OF_HISTORY);
        }
        let Some(name) = name else {
            if what == What::Tasks {
                query.selected = options.filters.at_router();
            }
            let (mut answer, reply) = self.get(what, &all, &query).await?;
            if !options.show.all {
                without_removed(options.show.view, &mut answer);
            }
            return Ok(without_ended(options, (answer, reply)));
        };
        let mut found = None;
        if options.show.view != View::Ps {
            found = Some(self.get(what, &format!("{all}/{}", encoded(name)), &query).await);
        }
        let no_task = match found {
            None => None,
            Some(Err(Error::Answer(answer::Error::Unknown(why)))) if what == What::Tasks => Some(why),
            // A task that may be where nobody answers.
            Some(Ok((answer, _))) if what == What::Tasks && answer.rows.is_empty() => {
                Some("no such task is known".into())
            }
            Some(found) => return found,
        };
        query.selected = vec![("service", name.to_owned())];
        let (answer, reply) = self.get(what, &all, &query).await?;
        if answer.complete && answer.rows.is_empty() && !self.knows_service(name).await {
            let why = match no_task {
                Some(why) => format!("{why}, and no service of that name has tasks"),
                None => format!("no service {name:?} has tasks"),
            };
            return Err(answer::Error::Unknown(why).into());
        }
        Ok(without_ended(options, (answer, reply)))
    }

    /// Whether there is such a service, though it may have no tasks.
    async fn knows_service(&mut self, name: &str) -> bool {
        let query = Query { stats: Some("none"), ..Query::default() };
        let answer = self.get(What::Services, &format!("/v1/services/{}", encoded(name)), &query).await;
        answer.is_ok_and(|(answer, _)| !answer.rows.is_empty())
    }

    async fn get(&mut self, what: What, path: &str, query: &Query) -> Result<(Answer, Reply), Error> {
        let mut reply = client::get(&self.found.host, &query.on(path, self.knows_stats)).await?;
        if reply.status == StatusCode::BAD_REQUEST && self.knows_stats && query.stats.is_some() {
            // An older router refuses what it does not know.
            reply = client::get(&self.found.host, &query.on(path, false)).await?;
            self.knows_stats = !reply.status.is_success();
        }
        let mut answer = Answer::read(what, &reply)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        for row in answer.rows.iter_mut().filter(|_| what == What::Tasks) {
            row.started_seconds_ago = row.since.as_deref().and_then(unix_seconds).map(|since| (now - since).max(0.0));
        }
        Ok((answer, reply))
    }

    /// Gives the rows their histories; a router that does not answer this costs only these.
    async fn remember(&mut self, options: &Options, points: usize, answer: &mut Answer) {
        let group_of: fn(&Row) -> Option<&str> = match options.show.view {
            View::Task | View::Ps => {
                let tasks = answer.rows.clone();
                return history::attach(&mut answer.rows, &tasks, |task| task.id.as_deref(), points);
            }
            View::Service => |task| task.service_id.as_deref(),
            View::Node => |task| task.node_id.as_deref(),
            View::Stack => |task| task.stack.as_deref(),
        };
        // No more than is shown: each name by itself.
        let selections: Vec<_> = match &options.names[..] {
            [] => vec![vec![]],
            names => names.iter().map(|name| vec![(options.show.view.word(), name.clone())]).collect(),
        };
        let mut tasks = vec![];
        for selected in selections {
            let query = Query { stats: Some(OF_HISTORY), points: Some(points), selected };
            match self.get(What::Tasks, "/v1/tasks", &query).await {
                Ok((answer, _)) => tasks.extend(answer.rows),
                Err(error) => answer.notes.push(format!("no history: {error}")),
            }
        }
        // A task twice named counts once.
        tasks.sort_by(|a, b| a.id.cmp(&b.id));
        tasks.dedup_by(|a, b| a.id.is_some() && a.id == b.id);
        history::attach(&mut answer.rows, &tasks, group_of, points);
    }
}

/// As docker stats: what has ended is shown to those who ask for it.
fn without_ended(options: &Options, (mut answer, reply): (Answer, Reply)) -> (Answer, Reply) {
    answer.rows.retain(|row| options.show.all || !row.ended());
    (answer, reply)
}

/// What Swarm does not know any more, and of which nothing runs, is of interest to those who name it or ask for all.
fn without_removed(view: View, answer: &mut Answer) {
    if matches!(view, View::Service | View::Stack) && answer.swarm_age.is_some() {
        answer.rows.retain(|row| row.tasks.is_none_or(|tasks| tasks.known > 0 || tasks.desired.is_some()));
    }
}

#[derive(Default)]
struct Query {
    stats: Option<&'static str>,
    points: Option<usize>,
    selected: Vec<(&'static str, String)>,
}

impl Query {
    fn on(&self, path: &str, with_stats: bool) -> String {
        let mut pairs: Vec<String> =
            self.selected.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        pairs.extend(self.points.map(|points| format!("points={points}")));
        pairs.extend(self.stats.filter(|_| with_stats).map(|stats| format!("stats={stats}")));
        if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
    }
}

/// Seconds since 1970 of a moment as a router writes it: `2026-01-01T00:00:00.000Z`.
fn unix_seconds(text: &str) -> Option<f64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let number = |text: Option<&str>| text?.parse::<i64>().ok();
    let mut date = date.split('-');
    let (year, month, day) = (number(date.next())?, number(date.next())?, number(date.next())?);
    let mut time = time.splitn(3, ':');
    let (hour, minute) = (number(time.next())?, number(time.next())?);
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) {
        return None;
    }
    let second: f64 = time.next()?.parse().ok()?;
    // Farther away a moment is none, and days would not stay numbers.
    if !(1..=12).contains(&month) || !(0..=9999).contains(&year) || !(0..=31).contains(&day) {
        return None;
    }
    // Years that begin on 1 March, so that the leap day is a year's last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
            - 1
            - 719_468;
    Some((days * 86_400 + hour * 3600 + minute * 60) as f64 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: &str = "9223372036854775807-01-01T00:00:00Z";

    // GNU date: date -u -d … +%s.
    #[test]
    fn moments_are_read_as_the_router_writes_them() {
        assert_eq!(unix_seconds("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(unix_seconds("2024-02-29T23:59:59.500Z"), Some(1_709_251_199.5));
        assert_eq!(unix_seconds("2026-11-30T21:50:00.000Z"), Some(1_796_075_400.0));
        assert_eq!(unix_seconds("2000-03-01T00:00:00Z"), Some(951_868_800.0));
        for bad in [
            "",
            "yesterday",
            "2026-13-01T00:00:00Z",
            "2026-01-01",
            "2026-01-01T00:00:00+01:00",
            FAR,
            "2026-01-01T9223372036854775807:00:00Z",
        ] {
            assert_eq!(unix_seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_question_says_only_what_is_asked() {
        let query = Query {
            stats: Some("none"),
            points: Some(30),
            selected: vec![("service", "compose/p/web".into()), ("label", "a=b c".into())],
        };
        assert_eq!(
            query.on("/v1/tasks", true),
            "/v1/tasks?service=compose%2Fp%2Fweb&label=a%3Db%20c&points=30&stats=none"
        );
        assert_eq!(Query::default().on("/v1/nodes", true), "/v1/nodes");
    }
}
