//! Two real Prometheus servers: both see the same, promtool has nothing to say, and a task that ended is gone for both.

use crate::env::{Check, Finally, INTERVAL, lab, text, wait_for};
use crate::http;
use crate::servers::{SERVERS, Sample};
use crate::unrest::all_right;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    process::{Command, Stdio},
    thread::{scope, sleep},
    time::Duration,
};
use swarmstats::source::parse;

/// Everything that is said of tasks and services.
const FIGURES: &str = r#"{__name__=~"swarmstats_(task|service)_.*"}"#;
/// A figure that grows with time alone.
const AGE: &str = "swarmstats_task_sample_age_seconds";

#[test]
fn promtool_finds_nothing() {
    let (lab, mut check) = (lab(), Check::default());
    let shippers = lab.shippers().iter().map(|url| url.replace(":7773", ":7772/metrics"));
    let clusters = lab.metrics().iter().map(|url| format!("{url}?scope=cluster"));
    for url in lab.metrics().iter().cloned().chain(clusters).chain(shippers) {
        let page = http::get(&url).unwrap().body;
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool (package prometheus)");
        promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let series = page.lines().filter(|line| !line.starts_with('#')).count();
        println!("{url}: {series} series, promtool: {} ({} bytes said)", output.status, said.len());
        check.that(output.status.success() && said.is_empty(), || format!("{url}: {said}"));
    }
    check.done();
}

#[test]
fn two_servers_see_the_same_series_and_at_rest_the_same_values() {
    let lab = lab();
    let load: Vec<(usize, String)> = (lab.tasks(0).iter())
        .map(|task| (lab.node(text(task, "node_name")), text(task, "container_id").to_owned()))
        .collect();
    let all = |verb: &str| {
        scope(|scope| {
            for node in 0..lab.nodes().len() {
                let ids: Vec<&str> = load.iter().filter(|(at, _)| *at == node).map(|(_, id)| id.as_str()).collect();
                let (words, lab) = (format!("{verb} {}", ids.join(" ")), &lab);
                scope.spawn(move || lab.docker(node, &words));
            }
        });
    };
    let seen = || -> Vec<BTreeMap<BTreeMap<String, String>, f64>> {
        let server = |server: &crate::servers::Server| server.query(FIGURES, None).into_iter().collect();
        SERVERS.iter().map(server).collect()
    };
    // Under load the values differ by when each server came by, the series do not.
    let under_load = seen();
    let labels = |samples: &BTreeMap<BTreeMap<String, String>, f64>| samples.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(labels(&under_load[0]), labels(&under_load[1]));
    println!("{} series of tasks and services with the same labels in both", under_load[0].len());
    let thaw = Finally(|| all("unpause"));
    all("pause");
    sleep(Duration::from_secs(7)); // both have come by again
    let different = || -> Vec<(Sample, f64)> {
        let seen = seen();
        let of_time = |labels: &BTreeMap<String, String>| labels["__name__"] == AGE;
        let other = |labels: &BTreeMap<String, String>| seen[1].get(labels).copied().unwrap_or(f64::NAN);
        let pairs = seen[0].iter().filter(|(labels, _)| !of_time(labels));
        let pairs = pairs.map(|(labels, value)| ((labels.clone(), *value), other(labels)));
        pairs.filter(|((_, one), other)| one != other).collect()
    };
    let mut looks = 0;
    let equal = wait_for("equal values in both", Duration::from_secs(25), || {
        let different = different();
        // What moved while the load came to rest; the later looks are alike.
        let shown = if looks % 50 == 0 { 3 } else { 0 };
        different.iter().take(shown).for_each(|((labels, one), other)| println!("  {labels:?}: {one} and {other}"));
        looks += 1;
        different.is_empty()
    });
    drop(thaw);
    println!("equal values {equal:.1?} after the load had stopped and both had come by");
}

#[test]
fn a_task_that_ended_is_gone_for_both() {
    let lab = lab();
    let task = lab.tasks(0).into_iter().find(|task| task["service_name"] == "lab_burn").unwrap();
    let (id, container) = (text(&task, "id"), text(&task, "container_id"));
    let node = lab.node(text(&task, "node_name"));
    std::sync::LazyLock::force(&SERVERS);
    lab.docker(node, &format!("kill {container}"));
    let state: Value = lab.engine_get(node, &format!("/containers/{container}/json")).json();
    let end = parse::rfc3339(text(&state["State"], "FinishedAt")).unwrap() as f64 / 1e9;
    sleep(Duration::from_secs(13)); // two scrapes of each and a little
    for (server, name) in SERVERS.iter().zip(["a", "b"]) {
        let last = |query: &str| server.times(query).into_iter().fold(f64::NAN, f64::max);
        let newest = last(&format!("swarmstats_task_cpu_seconds_total{{task_id=\"{id}\"}}[2m]"));
        let now = server.query(&format!("{{__name__=~\"swarmstats_task_.*\",task_id=\"{id}\"}}"), None);
        println!("server {name}: last sample {:+.2} s from the task's end, {} series now", newest - end, now.len());
        assert!(newest <= end + 2.0 * INTERVAL.as_secs_f64(), "shown {} s after its end", newest - end);
        assert!(now.is_empty(), "{now:?}");
    }
    let again = wait_for("Swarm has put another in its place", Duration::from_secs(40), || lab.services_run());
    let right = all_right(&lab, INTERVAL * 3);
    println!("Swarm had another task in its place after {again:.1?} more, every router right {right:.1?} later");
    lab.no_panic();
}
