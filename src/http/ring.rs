//! `/v1/ring`: the ring as this process sees it, or as another member does; how its members do, where a key belongs, and
//! what another membership would move.

use super::{App, Params, Refusal, answer, pairs, read_key, unknown_parameter};
use crate::discovery::Identity;
use crate::json::{self, Besides, Live};
use crate::model::MemberId;
use crate::shard::{Member, Ring};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use std::collections::{BTreeMap, BTreeSet};

/// The most members a plan may add or take.
const MAX_PLAN: usize = 100;

pub(super) async fn ring(State(app): State<App>, uri: Uri, query: Params) -> Result<Response, Refusal> {
    let (mut key, mut live, mut plan, mut of) = (None, false, None, None);
    let mut given = BTreeSet::new();
    for (name, value) in pairs(uri, query)? {
        if value.is_empty() {
            return Err(Refusal::bad(format!("parameter {name} is empty"), "give it a value, or leave it out"));
        }
        if !given.insert(name.clone()) {
            return Err(Refusal::bad(format!("parameter {name} is given twice"), "keep one of them"));
        }
        match name.as_str() {
            "key" => key = Some(read_key(&value)?),
            "live" if matches!(value.as_str(), "true" | "false") => live = value == "true",
            "live" => return Err(Refusal::bad(format!("parameter live: {value:?} is neither"), "write true or false")),
            "plan" => plan = Some(value),
            "of" => of = Some(value),
            _ => return Err(unknown_parameter(&name, "key, live, plan, of")),
        }
    }
    let view = app.router.view();
    let Some(ring) = &view.ring else {
        let error = "no ring is known yet".to_string();
        let remedy = Some("see members: in the config, and /readyz".to_string());
        return Err(Refusal { status: StatusCode::SERVICE_UNAVAILABLE, error, remedy, candidates: Vec::new() });
    };
    if let Some(of) = of.filter(|of| app.who.member.as_str() != of) {
        return seen_by(&app, &of).await;
    }
    let planned = plan.as_deref().map(|asked| planned(ring, asked)).transpose()?;
    let emitting = match &key {
        Some(key) if live => Some(app.router.emitting(key).await),
        _ => None,
    };
    let told = if live { Some(told(&app, ring).await) } else { None };
    let besides = Besides {
        heard: if live { BTreeMap::new() } else { heard(&app) },
        trouble: view.trouble.as_deref(),
        key: key.as_ref().map(|key| (key, emitting.as_deref())),
        live: told.as_ref(),
        plan: plan.as_deref().zip(planned.as_ref()),
    };
    Ok(answer(StatusCode::OK, json::ring(ring, &view.addresses, &besides)))
}

/// Of each member its state and for how many milliseconds it is known; this process knows its own.
fn heard(app: &App) -> BTreeMap<MemberId, (&'static str, Option<u64>)> {
    let standings = app.router.standings().into_iter();
    let age = |at: tokio::time::Instant| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
    let heard = standings.filter_map(|(id, heard)| Some((id, (heard.state()?, heard.last.map(|(_, at)| age(at))))));
    heard.chain([(app.who.member.clone(), ((app.who.standing)().state.as_str(), Some(0)))]).collect()
}

/// Of each member of the ring what it says itself.
async fn told(app: &App, ring: &Ring) -> BTreeMap<MemberId, Result<Live, String>> {
    let mut told = app.router.identities().await;
    told.insert(app.who.member.clone(), Ok(app.who.identity(ring.id())));
    let live = |member: &Member| {
        let said = told.get(&member.id).cloned().unwrap_or_else(|| Err("its address is not known".into()));
        let said = said.and_then(|identity: Identity| match identity.member == member.id {
            true => Ok(Live { process: identity.gen_.0, ring_id: identity.ring_id, standing: identity.standing }),
            false => Err(format!("at its address answers member {}", identity.member)),
        });
        (member.id.clone(), said)
    };
    ring.members().iter().map(live).collect()
}

/// The ring that another member sees, made anew from its membership.
async fn seen_by(app: &App, of: &str) -> Result<Response, Refusal> {
    let unknown = || Refusal::unknown(format!("no member {of} is known here"));
    let member = MemberId::new(of).map_err(|_| unknown())?;
    let away = |why: String| Refusal {
        status: StatusCode::BAD_GATEWAY,
        error: format!("member {member} did not answer: {why}"),
        remedy: None,
        candidates: Vec::new(),
    };
    let seen = app.router.membership_of(&member).await.ok_or_else(unknown)?.map_err(away)?;
    let addresses = seen.members.iter().map(|(member, address)| (member.id.clone(), address.clone())).collect();
    let replicas = u8::try_from(seen.replicas).unwrap_or(0);
    let ring = Ring::new(seen.members.into_iter().map(|(member, _)| member), replicas);
    let ring = ring.map_err(|error| away(format!("its members make no ring: {error}")))?;
    Ok(answer(StatusCode::OK, json::ring(&ring, &addresses, &Besides::default())))
}

/// The ring after a change: `+2` or `-1` members, `+NAME`, `-NAME`. Without a name those go that come last, by number.
fn planned(ring: &Ring, asked: &str) -> Result<Ring, Refusal> {
    let wrong = |why: String| Refusal::bad(format!("parameter plan: {why}"), "write +1, -1, +NAME or -NAME");
    // A plus sign in a query is a blank.
    let (adds, what) = match asked.trim_end().split_at_checked(1) {
        Some(("+" | " ", what)) => (true, what),
        Some(("-", what)) => (false, what),
        _ => return Err(wrong(format!("{asked:?} is no change"))),
    };
    let mut members = ring.members().to_vec();
    match (adds, what.parse::<usize>()) {
        (_, Ok(n)) if n == 0 || n > MAX_PLAN => {
            return Err(wrong(format!("{n} members; from 1 to {MAX_PLAN} can be planned")));
        }
        // No name: a number that is far too large.
        (_, Err(_)) if what.bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(wrong(format!("{what:?} members; from 1 to {MAX_PLAN} can be planned")));
        }
        (true, Ok(n)) => {
            let names = (1..).map(|number| MemberId::new(format!("new-{number}")).expect("a good name"));
            let fresh = names.filter(|name| !ring.contains(name)).take(n);
            members.extend(fresh.map(|id| Member { id, node: None }));
        }
        (false, Ok(n)) => {
            members.sort_by_key(|member| (member.id.as_str().len(), member.id.clone()));
            if n >= members.len() {
                return Err(wrong(format!("{n} of {} members: none would stay", members.len())));
            }
            members.truncate(members.len() - n);
        }
        (true, Err(_)) => {
            let id = MemberId::new(what).map_err(|error| wrong(error.to_string()))?;
            if ring.contains(&id) {
                return Err(wrong(format!("{id} is a member already")));
            }
            members.push(Member { id, node: None });
        }
        (false, Err(_)) => {
            let before = members.len();
            members.retain(|member| member.id.as_str() != what);
            if members.len() == before {
                return Err(Refusal::unknown(format!("no member {what} is on the ring")));
            }
            if members.is_empty() {
                return Err(wrong(format!("{what} is the only member: none would stay")));
            }
        }
    }
    Ring::new(members, ring.replicas()).map_err(|error| wrong(error.to_string()))
}
