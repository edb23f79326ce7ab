//! The router over fake members: who is asked, what is merged, and that a query ends by its deadline whatever members do.

use crate::fixtures::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use swarmstats::figures::{By, Machines, PERCENT, groups};
use swarmstats::model::{Key, TaskId};
use swarmstats::router::{QueryError, Router, RouterConfig, View};
use swarmstats::stat;
use swarmstats::view::{Ask, AskError, Missing, Report, Scope, Selector, Texts};
use tokio::sync::watch;

async fn timed(tier: &FakeTier, ask: Ask) -> (Report, Duration) {
    let begun = Instant::now();
    let report = tier.router.query(ask, Scope::Cluster).await.unwrap();
    (report, begun.elapsed())
}

#[tokio::test]
async fn a_service_is_merged_from_all_members() {
    for (n, replicas) in [(1, 1), (3, 1), (3, 2), (4, 3)] {
        let tier = FakeTier::new(n, replicas, forty(), quick());
        let (report, _) = timed(&tier, service("burn")).await;
        assert_eq!((missing(&report), report.complete), (vec![], true), "{n} members, {replicas} copies");
        let burn = &groups(&report, By::Service)[0];
        assert_eq!((burn.tasks.fresh, burn.tasks.known), (30, 30));
        assert_eq!(burn.totals.get(stat::CPU), Some(4 * 50 * SECOND), "four nodes' rows, each once");
        assert_eq!(burn.stats.get(stat::MEMORY_USED), Some(30 * 100));
    }
}

#[tokio::test]
async fn a_task_is_asked_of_its_owner_and_its_nodes_owner_with_the_reserves_alone() {
    let tier = FakeTier::new(8, 1, forty(), quick());
    // Until each was heard once, whoever may tell what Swarm says is not known.
    timed(&tier, everything()).await;
    for id in ["task00", "task17", "task39"] {
        let before: usize = tier.members.iter().map(|member| member.n_asked()).sum();
        let (report, _) = timed(&tier, single(id)).await;
        assert_eq!((ids(&report), report.complete), (vec![id], true));
        let asked = tier.members.iter().map(|member| member.n_asked()).sum::<usize>() - before;
        assert!(asked <= 4, "{asked} members asked for {id}");
    }
}

#[tokio::test]
async fn a_task_by_id_has_the_same_figures_and_the_same_word_of_swarm_at_any_time() {
    for teller in 0..8 {
        let tier = FakeTier::new(8, 1, forty(), quick());
        for member in &tier.members {
            for node in &mut member.holding.lock().unwrap().nodes {
                node.values = [(stat::CPU_LIMIT, 4 * SECOND)].into_iter().collect();
            }
        }
        let list = swarmstats::swarm::List::default();
        let told = swarmstats::swarm::Swarm { list: Some(list), trouble: None };
        tier.members[teller].holding.lock().unwrap().swarm = Some(told);
        for id in ["task00", "task17", "task39"] {
            // By a router that has just started, and by one that knows them all.
            for _ in 0..2 {
                let (report, _) = timed(&tier, single(id)).await;
                let task = swarmstats::figures::of_task(&report.tasks[0], &Machines::of(&report));
                // 1 s of CPU time within 1 s, on a node of 4.
                assert_eq!(task.figures.cpu_percent_of_node, Some(25 * PERCENT), "{id}");
                assert!(report.swarm.is_some(), "{id}, told by c{}", teller + 1);
            }
        }
    }
}

#[tokio::test]
async fn members_send_the_texts_that_tasks_are_chosen_by() {
    let tier = FakeTier::new(2, 1, forty(), quick());
    let asked = async |selector: Selector| {
        let ask = Ask { texts: Texts::Groups, ..ask(selector) };
        let report = tier.router.query(ask, Scope::Cluster).await.unwrap();
        assert!(report.complete);
        // The first question of this query; another may ask for names.
        let asked = std::mem::take(&mut *tier.members[1].asked.lock().unwrap());
        asked[0].texts
    };
    assert_eq!(asked(Selector { service: Some("burn".into()), ..Selector::default() }).await, Texts::Groups);
    let labels = [("tier".into(), "web".into())].into();
    assert_eq!(asked(Selector { labels, ..Selector::default() }).await, Texts::Shared);
    let task = Some("burn.1.task07".into());
    assert_eq!(asked(Selector { task, ..Selector::default() }).await, Texts::Shared);
}

#[tokio::test]
async fn a_task_that_its_owner_does_not_have_is_asked_of_all() {
    let tier = FakeTier::new(6, 1, forty(), quick());
    // By name: it hashes to anywhere.
    assert_eq!(ids(&timed(&tier, single("burn.1.task07")).await.0), ["task07"]);
    // At a former owner: the ring has changed, the task has not moved yet.
    let task =
        tier.owner_of("task07").holding.lock().unwrap().tasks.iter().position(|t| t.meta.task_id.as_str() == "task07");
    let task = tier.owner_of("task07").holding.lock().unwrap().tasks.remove(task.unwrap());
    let others: Vec<_> = tier.ring.owners_and_reserve(&Key::Task(TaskId::new("task07").unwrap())).cloned().collect();
    let former = (2..=6).find(|i| !others.contains(&member(&format!("c{i}")))).unwrap();
    tier.members[former - 1].holding.lock().unwrap().tasks.push(task);
    assert_eq!(ids(&timed(&tier, single("task07")).await.0), ["task07"]);
    let (report, _) = timed(&tier, single("nosuchtask")).await;
    assert!(report.tasks.is_empty() && report.complete);
}

#[tokio::test]
async fn a_frozen_member_is_named_by_the_deadline_and_waited_for_only_once() {
    let tier = FakeTier::new(3, 1, forty(), quick());
    timed(&tier, everything()).await;
    let frozen = &tier.members[1];
    let hidden = {
        let held = frozen.holding.lock().unwrap();
        held.tasks.iter().filter(|task| &*task.meta.service_name == "burn").count()
    };
    assert!(hidden > 0);
    frozen.set(Mood::Frozen);
    let (report, took) = timed(&tier, service("burn")).await;
    assert!(took >= Duration::from_millis(400) && took < Duration::from_millis(900), "{took:?}");
    let what = format!("{hidden} of 30 tasks of service burn");
    let found = report.missing.iter().find(|missing| missing.what == what).unwrap();
    assert!(found.why.contains("member c2 did not answer (deadline 400 ms)"), "{}", found.why);
    assert_eq!(report.tasks.len(), 30 - hidden);

    // From now on it is a suspect, and nobody waits for it.
    let asked = frozen.n_asked();
    for _ in 0..3 {
        let (report, took) = timed(&tier, service("burn")).await;
        assert!(!report.complete && took < Duration::from_millis(250), "{took:?}");
        assert!(report.missing.iter().any(|missing| missing.what == "member c2" && missing.why.contains("silent for")));
    }
    assert_eq!(frozen.n_asked(), asked, "the question that it did not answer is still open, and there is no other");
    assert_eq!(tier.router.counts().suspected, 1);

    // It goes on; the open question will never be answered here, and is given up after ten deadlines.
    frozen.set(Mood::Answers);
    tokio::time::sleep(Duration::from_millis(4_100)).await;
    assert!(!timed(&tier, service("burn")).await.0.complete, "asked in the background");
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (report, _) = timed(&tier, service("burn")).await;
    assert!(report.complete, "{:?}", report.missing);
    assert_eq!(tier.router.counts().suspected, 0);
}

#[tokio::test]
async fn a_suspect_that_answers_late_is_trusted_again() {
    let tier = FakeTier::new(3, 1, forty(), quick());
    // Slower than the deadline: its answer comes to nobody, but proves it alive.
    tier.members[1].set(Mood::Slow(Duration::from_millis(600)));
    assert!(!timed(&tier, everything()).await.0.complete);
    tier.members[1].set(Mood::Slow(Duration::from_millis(150)));
    assert!(!timed(&tier, everything()).await.0.complete, "it is not waited for yet");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (report, took) = timed(&tier, everything()).await;
    assert!(report.complete && took >= Duration::from_millis(150));
}

/// A frozen process's connection is given up by its keep-alive after some seconds: that is not its answer.
#[tokio::test]
async fn a_suspect_whose_connection_breaks_stays_one() {
    let tier = FakeTier::new(3, 1, forty(), quick());
    tier.members[1].set(Mood::Frozen);
    timed(&tier, everything()).await;
    tokio::time::sleep(Duration::from_millis(4_100)).await;
    tier.members[1].set(Mood::Refuses("the connection broke"));
    for _ in 0..3 {
        let (_, took) = timed(&tier, everything()).await;
        assert!(took < Duration::from_millis(250), "{took:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(tier.router.counts().suspected, 1);
    }
    tier.members[1].set(Mood::Frozen);
    assert!(timed(&tier, everything()).await.1 < Duration::from_millis(250), "nobody waits for it again");
}

#[tokio::test]
async fn a_task_by_its_id_waits_for_nobody_but_one_fresh_copy_of_it_and_of_its_node() {
    let bounds = swarmstats::join::Bounds { replicas: 2, ..Default::default() };
    let tier = FakeTier::new(3, 2, forty(), RouterConfig { bounds, ..quick() });
    timed(&tier, everything()).await;
    tier.members[2].set(Mood::Frozen);
    for id in (0..40).map(|number| format!("task{number:02}")) {
        let (report, took) = timed(&tier, single(&id)).await;
        assert_eq!((ids(&report), report.complete), (vec![id.as_str()], true), "{:?}", report.missing);
        assert!(took < Duration::from_millis(90), "a quarter of the deadline is 100 ms, this took {took:?}");
    }
}

#[tokio::test]
async fn a_frozen_owner_does_not_keep_a_name_from_being_found() {
    // The name hashes to some member; whichever it is, the others are asked before the deadline.
    let tier = FakeTier::new(4, 1, forty(), quick());
    let primary = |text: &str| tier.ring.primary(&Key::Task(TaskId::new(text).unwrap())).clone();
    // Neither the name nor the task is at this process, and the task is where the name does not point.
    let apart = |id: &str, name: &str| {
        let name_as_id = Key::Task(TaskId::new(name).unwrap());
        let mut pointed_at = tier.ring.owners_and_reserve(&name_as_id);
        primary(name) != member("c1") && primary(id) != member("c1") && !pointed_at.any(|at| *at == primary(id))
    };
    let mut candidates = (0..30).map(|i| (format!("task{i:02}"), format!("burn.1.task{i:02}")));
    let (id, name) = candidates.find(|(id, name)| apart(id, name)).unwrap();
    let frozen = primary(&name);
    tier.members.iter().for_each(|member| member.set(Mood::Slow(Duration::from_millis(30))));
    tier.members[frozen.as_str()[1..].parse::<usize>().unwrap() - 1].set(Mood::Frozen);
    let (report, _) = timed(&tier, single(&name)).await;
    assert_eq!(ids(&report), [id]);
}

#[tokio::test]
async fn a_copy_answers_at_once_for_a_frozen_owner_from_the_second_query_on() {
    let bounds = swarmstats::join::Bounds { replicas: 2, ..Default::default() };
    let tier = FakeTier::new(3, 2, forty(), RouterConfig { bounds, ..quick() });
    tier.members[1].set(Mood::Frozen);
    tier.members[2].set(Mood::Slow(Duration::from_millis(20)));
    let (report, _) = timed(&tier, service("burn")).await;
    assert_eq!((report.tasks.len(), report.complete), (30, true), "{:?}", report.missing);
    assert_eq!(report.warnings, ["member c2 did not answer (deadline 400 ms)"]);
    let (report, took) = timed(&tier, service("burn")).await;
    assert!(report.complete && took < Duration::from_millis(250), "{took:?}");
}

#[tokio::test]
async fn a_refused_connection_costs_no_time_and_no_trust() {
    let tier = FakeTier::new(3, 1, forty(), quick());
    tier.members[2].set(Mood::Refuses("connection refused"));
    let (report, took) = timed(&tier, everything()).await;
    assert!(took < Duration::from_millis(200), "{took:?}");
    assert!(report.missing.iter().any(|m| m.why.contains("member c3 did not answer (connection refused)")));
    tier.members[2].set(Mood::Answers);
    assert!(timed(&tier, everything()).await.0.complete);
}

#[tokio::test]
async fn a_fault_in_a_peer_is_its_silence() {
    let tier = FakeTier::new(3, 1, forty(), quick());
    tier.members[1].set(Mood::Panics);
    let (report, _) = timed(&tier, everything()).await;
    assert!(!report.complete && report.tasks.len() < 40);
}

#[tokio::test]
async fn names_are_learned_once() {
    let tier = FakeTier::new(3, 1, forty(), quick());
    let asked = || tier.members.iter().map(|member| member.n_asked()).sum::<usize>();
    let (report, _) = timed(&tier, service("burn")).await;
    assert!(report.complete);
    assert_eq!(asked(), 4, "a question to each of the two others, and one for the names of what else nodes list");
    timed(&tier, service("burn")).await;
    timed(&tier, service("idle")).await;
    assert_eq!(asked(), 8);
}

#[tokio::test]
async fn a_member_without_an_address_or_with_anothers_is_silent() {
    let tier = FakeTier::new(3, 1, forty(), quick());
    let mut view = (*tier.router.view()).clone();
    view.peers.remove(&member("c2"));
    let imposter = view.peers[&member("c3")].clone();
    tier.view.send(Arc::new(view.clone())).unwrap();
    let (report, _) = timed(&tier, everything()).await;
    assert!(report.missing.iter().any(|m| m.what == "member c2" && m.why.contains("its address is not known")));
    view.peers.insert(member("c2"), imposter);
    tier.view.send(Arc::new(view)).unwrap();
    let (report, _) = timed(&tier, everything()).await;
    assert!(report.missing.iter().any(|m| m.what == "member c2" && m.why.contains("at its address answers member c3")));
}

#[tokio::test]
async fn queries_beyond_the_bound_are_refused_and_counted() {
    let tier = FakeTier::new(2, 1, forty(), RouterConfig { max_queries: 2, ..quick() });
    tier.members[1].set(Mood::Frozen);
    let open: Vec<_> = (0..2)
        .map(|_| {
            let router = tier.router.clone();
            tokio::spawn(async move { router.query(everything(), Scope::Cluster).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(tier.router.query(everything(), Scope::Cluster).await, Err(QueryError::Busy(2)));
    for query in open {
        assert!(query.await.unwrap().is_ok());
    }
    let counts = tier.router.counts();
    assert_eq!((counts.queries, counts.incomplete, counts.refused), (2, 2, 1));
    assert!(tier.router.query(everything(), Scope::Cluster).await.is_ok(), "places are free again");
}

#[tokio::test]
async fn what_is_made_of_a_report_is_part_of_its_query() {
    let tier = FakeTier::new(2, 1, forty(), RouterConfig { max_queries: 1, ..quick() });
    let meanwhile = |_: Report| {
        let mut other = Box::pin(tier.router.query(everything(), Scope::Cluster));
        other.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
    };
    let other = tier.router.answer(everything(), Scope::Cluster, meanwhile).await.unwrap();
    assert_eq!(other, std::task::Poll::Ready(Err(QueryError::Busy(1))));
}

#[tokio::test]
async fn a_shipper_answers_for_its_own_node_without_peers() {
    let own = FakeMember::new(holding(
        "n0",
        vec![task("t1", "burn", "n0")],
        vec![row("n0", "burn", 1)],
        vec![node("n0", &["burn"])],
    ));
    let (_view, seen) = watch::channel(Arc::new(View::default()));
    let router = Router::new(quick(), Some((member("n0"), own)), seen);
    let report = router.query(service("burn"), Scope::Cluster).await.unwrap();
    assert_eq!((report.tasks.len(), report.complete), (1, true));
}

/// Found by a storm: a router that had just begun, and had asked nobody, called its answer complete.
#[tokio::test]
async fn no_answer_is_complete_before_the_ring_is_known() {
    let (view, seen) = watch::channel(Arc::new(View { awaited: true, ..View::default() }));
    let router = Router::new(quick(), None, seen);
    let report = router.query(everything(), Scope::Cluster).await.unwrap();
    assert!(!report.complete);
    let why = "no member of the ring is known yet: see `members` in the config, and /readyz";
    assert_eq!(report.missing, [Missing { what: "every collector".into(), why: why.into() }]);
    view.send_replace(Arc::default());
    assert!(router.query(everything(), Scope::Cluster).await.unwrap().complete);
}

#[tokio::test]
async fn the_local_scope_is_this_process_alone() {
    let tier = FakeTier::new(3, 1, forty(), quick());
    let report = tier.router.query(everything(), Scope::Local).await.unwrap();
    assert_eq!(report.tasks.len(), tier.members[0].holding.lock().unwrap().tasks.len());
    assert_eq!(tier.members[1].n_asked(), 0);
    let (_view, seen) = watch::channel(Arc::new(View::default()));
    let router = Router::new(quick(), None, seen);
    assert_eq!(router.query(everything(), Scope::Local).await, Err(QueryError::HoldsNothing));
    assert_eq!(router.query(Ask::of(Vec::new()), Scope::Cluster).await, Err(QueryError::Ask(AskError::Empty)));
}
