//! Names: which id is meant, and what is done where a name is not known.

use crate::fixtures::*;
use std::sync::Arc;
use swarmstats::join::{Bounds, Join, rows_of};
use swarmstats::model::ServiceId;
use swarmstats::view::{MAX_SELECTORS, RowView, Selector, TaskView};

/// A row of the service `id` that is called `web`.
fn web(id: &str, running: u64, since: u64) -> RowView {
    with(row("n1", "web", running), |row| {
        let meta = Arc::make_mut(&mut row.meta);
        (meta.service_id, meta.since) = (ServiceId::new(id).unwrap(), since);
    })
}

fn web_task(id: &str, service: &str) -> TaskView {
    with(task(id, "web", "n1"), |task| Arc::make_mut(&mut task.meta).service_id = ServiceId::new(service).unwrap())
}

fn listing(ids: &[&str]) -> swarmstats::view::NodeView {
    with(node("n1", &[]), |node| {
        Arc::make_mut(&mut node.meta).services = ids.iter().map(|id| ServiceId::new(id).unwrap()).collect();
    })
}

fn taken(rows: Vec<RowView>, tasks: Vec<TaskView>, text: &str) -> (Vec<String>, Vec<String>) {
    let ids: Vec<_> = rows.iter().map(|row| row.meta.service_id.clone()).collect();
    let ids: Vec<_> = ids.iter().map(ServiceId::as_str).collect();
    let report = read_once(vec![says(holding("c1", tasks, rows, vec![listing(&ids)]))], &service(text));
    assert!(report.complete, "{:?}", report.missing);
    (report.rows.iter().map(|row| row.meta.service_id.to_string()).collect(), report.warnings)
}

#[test]
fn of_two_services_with_a_name_the_one_with_live_tasks_is_meant() {
    let rows = vec![web("old", 1, 1_000), web("young", 0, 2_000)];
    let (ids, warnings) = taken(rows, vec![web_task("t1", "old")], "web");
    assert_eq!((ids, warnings), (vec!["old".into()], vec![r#"service "web" is old here, not young"#.into()]));
}

#[test]
fn without_live_tasks_the_newest_is_meant() {
    let (ids, _) = taken(vec![web("old", 0, 1_000), web("young", 0, 2_000)], vec![], "web");
    assert_eq!(ids, ["young"]);
}

#[test]
fn an_id_is_meant_before_a_name() {
    // A plain container's service has its name as its id; a Swarm service may be called the same.
    let rows = vec![web("web", 0, 1_000), web("young", 1, 2_000)];
    let (ids, warnings) = taken(rows, vec![web_task("t1", "young")], "web");
    assert_eq!((ids, warnings.len()), (vec!["web".into()], 1));
    let (ids, warnings) = taken(vec![web("old", 0, 1_000), web("young", 0, 2_000)], vec![], "old");
    assert_eq!((ids, warnings.len()), (vec!["old".into()], 0));
}

#[test]
fn a_node_that_joined_again_is_meant_before_its_former_id() {
    let renamed = |id: &str, since: u64, fresh: bool| {
        with(node(id, &[]), |node| {
            let meta = Arc::make_mut(&mut node.meta);
            (meta.node_name, meta.since) = ("host".into(), since);
            node.fresh = fresh;
        })
    };
    let answers =
        vec![says(holding("c1", vec![], vec![], vec![renamed("former", 2_000, false), renamed("now", 1_000, true)]))];
    let report = read_once(answers, &of_node("host"));
    assert_eq!(report.nodes.iter().map(|node| node.meta.node_id.as_str()).collect::<Vec<_>>(), ["now"]);
    assert!(report.complete, "the former node's silence is not asked about");
    assert_eq!(report.warnings, [r#"node "host" is now here, not former"#]);
}

#[test]
fn a_task_goes_by_id_name_or_a_beginning_of_its_id_that_is_its_alone() {
    let tasks = || {
        vec![
            task("abcd1", "web", "n1"),
            task("abcd2", "web", "n1"),
            ended(task("abcd3", "web", "n1")),
            task("abcd", "web", "n1"),
        ]
    };
    let read = |text: &str| read_once(vec![says(holding("c1", tasks(), vec![], vec![]))], &single(text));
    assert_eq!(ids(&read("abcd1")), ["abcd1"]);
    assert_eq!(ids(&read("web.1.abcd2")), ["abcd2"]);
    let exact = read("abcd");
    assert_eq!((ids(&exact), exact.warnings.len()), (vec!["abcd"], 1));
    let report = read_once(vec![says(holding("c1", tasks()[..3].to_vec(), vec![], vec![]))], &single("abcd"));
    assert_eq!(ids(&report), ["abcd1", "abcd2"], "the ended one is not meant while others live");
    assert_eq!(report.warnings, [r#""abcd" is the beginning of 2 task ids: give more of it"#]);
}

#[test]
fn a_container_made_anew_under_its_name_is_meant_before_the_ended_one() {
    let named = |id: &str| with(task(id, "db", "n1"), |task| Arc::make_mut(&mut task.meta).task_name = "db-1".into());
    let answers = vec![says(holding("c1", vec![ended(named("first")), named("second")], vec![], vec![]))];
    assert_eq!(ids(&read_once(answers, &single("db-1"))), ["second"]);
}

#[test]
fn a_listed_service_whose_name_nobody_told_may_be_the_one_asked_for() {
    let listed = || says(holding("c1", vec![], vec![], vec![listing(&["s1", "s2"])]));
    let of = |row: RowView| says(holding("c2", vec![], vec![row], vec![]));
    let mut join = Join::new(Bounds::default());
    let report = join.read(vec![listed(), of(web("s1", 0, 1_000))], &service("web"), NOW);
    assert_eq!(missing(&report), [("service s2 on node host-n1", "no member that answered holds it")]);

    // Its id is asked for, once; then its name is known and it is not the one.
    let mut unnamed = |text: &str| join.unnamed([].iter(), &service(text), NOW);
    assert!(unnamed("s2").is_empty(), "an id needs no name");
    let ids = unnamed("web");
    assert_eq!(ids.iter().map(ServiceId::as_str).collect::<Vec<_>>(), ["s2"]);
    let question = rows_of(&ids);
    let s2 = with(row("n1", "other", 0), |row| Arc::make_mut(&mut row.meta).service_id = ServiceId::new("s2").unwrap());
    let held = holding("c2", vec![web_task("t1", "s2")], vec![s2], vec![]);
    let answer = answer_of(&held, &question);
    assert_eq!((answer.tasks.len(), answer.rows.len()), (0, 1), "rows alone");
    assert!(join.unnamed([answer].iter(), &service("web"), NOW).is_empty());
    assert!(join.read(vec![listed(), of(web("s1", 0, 1_000))], &service("web"), NOW).complete);
}

#[test]
fn a_stack_is_asked_for_by_name_and_needs_all_names() {
    let stack = ask(Selector { stack: Some("demo".into()), ..Selector::default() });
    let told = [holding("c1", vec![], vec![], vec![listing(&["s1"])])];
    let unnamed = |ask: &swarmstats::view::Ask| Join::new(Bounds::default()).unnamed(told.iter(), ask, NOW).len();
    assert_eq!(unnamed(&stack), 1);
    assert_eq!((unnamed(&everything()), unnamed(&of_node("n1"))), (0, 0), "all of them are asked for");
    assert_eq!(unnamed(&single("s1")), 0);
}

#[test]
fn many_unnamed_services_are_asked_for_at_once() {
    let many = |n: usize| rows_of(&(0..n).map(|i| ServiceId::new(format!("s{i}")).unwrap()).collect());
    assert_eq!(many(MAX_SELECTORS).selectors.len(), MAX_SELECTORS);
    let all = many(MAX_SELECTORS + 1);
    assert_eq!(all.check(), Ok(()));
    let held = holding("c1", vec![task("t1", "web", "n1")], vec![row("n1", "web", 1)], vec![]);
    let answer = answer_of(&held, &all);
    assert_eq!((answer.tasks.len(), answer.rows.len()), (0, 1));
}
