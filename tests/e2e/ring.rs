//! `docker swarmstats ring` against real collectors: their state and shares, a key's owners and emitter, plans that come
//! true, views that differ.

use crate::rig::{Daemon, Folder, free_address, get, until};
use crate::scripted::{Scripted, figures};
use crate::subscribe::{knows_a_ring, ring};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// The command against a router: exit code, stdout and stderr.
fn ask(router: &Daemon, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docker-swarmstats"));
    command.arg("ring").args(words).args(["--host", &format!("http://{}", router.api)]);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(router: &Daemon, words: &[&str]) -> Value {
    let (_, out, err) = ask(router, &[words, &["--format", "json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shipper_that_sees_another_ring_is_said_of_the_members_it_tells() {
    let (daemons, members) = ring(2, "").await;
    let mut shippers = [Scripted::new("node-1", &members), Scripted::new("node-2", &members[..1])];
    for shipper in &mut shippers {
        let id = format!("task-of-{}", shipper.node);
        shipper.run("web", &id, figures(1, 1));
        shipper.settle().await;
    }
    let (code, table, _) = ask(&daemons[1], &[]);
    assert_eq!(code, 3, "{table}");
    assert!(
        table.contains("member c1 is told by shippers that see another ring (1): `doctor` names them\n"),
        "{table}"
    );
    assert!(!table.contains("member c2 is told") && !table.contains("all members agree"), "{table}");
    shippers[1].set_members(&members);
    shippers[1].settle().await;
    let (code, table, _) = ask(&daemons[1], &[]);
    assert!(code == 0 && table.contains("all members agree"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ring_is_shown_with_states_shares_and_who_emits() {
    let (mut daemons, members) = ring(3, "query_deadline: 600ms").await;
    let mut shipper = Scripted::new("node-1", &members);
    for number in 0..20 {
        shipper.run("web", &format!("task{number:04}"), figures(1, 1));
    }
    shipper.settle().await;
    let (code, table, _) = ask(&daemons[0], &[]);
    println!("{table}");
    assert_eq!(code, 0, "{table}");
    assert!(table.contains("3 members, 16384 shards, 1 copy, all members agree"), "{table}");
    assert!(!table.contains('\x1b'), "a pipe gets no escape code");
    let document = json(&daemons[1], &[]);
    let list = document["members"].as_array().unwrap();
    let sum = |name: &str| list.iter().map(|member| member[name].as_f64().unwrap()).sum::<f64>();
    assert_eq!((sum("primary_shards"), sum("tasks"), sum("emitted_tasks")), (16384.0, 20.0, 20.0), "{document}");
    assert!(list.iter().all(|member| member["state"] == "active" && member["ring_id"] == document["ring_id"]));
    // Where a task belongs, and who emits it: its one owner.
    let of_task = json(&daemons[0], &["where", "task0007"]);
    assert_eq!(of_task["key"]["owners"], of_task["key"]["emitting"], "{of_task}");
    // So do the node's own figures and its row of the service.
    let of_node = json(&daemons[0], &["where", "name-of-node-1"]);
    assert_eq!(of_node["key"]["owners"], of_node["key"]["emitting"], "{of_node}");
    let of_row = get(daemons[1].api, "/v1/ring?live=true&key=row:node-1:id-of-web").await.json();
    assert_eq!(of_row["key"]["owners"], of_row["key"]["emitting"], "{of_row}");
    let (code, of_service, _) = ask(&daemons[0], &["where", "web"]);
    assert_eq!((code, of_service.lines().count()), (0, 21), "{of_service}");
    assert_eq!(ask(&daemons[0], &["where", "nobody"]).0, 2);
    assert_eq!(ask(&daemons[0], &["diff"]).0, 0);
    // One is killed: shown as such, by the deadline.
    daemons[2].kill();
    let begun = Instant::now();
    let (code, table, _) = ask(&daemons[0], &[]);
    println!("{table}");
    assert_eq!(code, 3);
    assert!(table.contains("unreachable") && table.contains("member c3 does not answer"), "{table}");
    assert!(begun.elapsed() < Duration::from_secs(3));
    // What was on it alone is not unknown: it is not heard of.
    let of_c3 = (0..20).map(|n| format!("task{n:04}")).find_map(|task| {
        let (code, told, _) = ask(&daemons[0], &["where", &task]);
        (code != 0).then_some((code, told))
    });
    let (code, told) = of_c3.expect("c3 had a task");
    assert!(code == 3 && told.contains("incomplete: ") && told.contains("member c3 did not answer"), "{told}");
    let (code, told, _) = ask(&daemons[0], &["where", "web"]);
    assert!(code == 3 && told.contains("task web.1") && told.contains("of 20 tasks of service web"), "{told}");
    assert!(!told.contains("incomplete: task web"), "{told}");
    let (code, told, _) = ask(&daemons[0], &["diff"]);
    assert!(code == 3 && told.contains("member c3 did not answer"), "{told}");
    assert!(
        told.contains("the router asked, c1, c2 see the same ring"),
        "of those that answer it is told, too: {told}"
    );
    let (code, told, _) = ask(&daemons[0], &["diff", "c1", "c3"]);
    assert!(code == 3 && told.contains("member c3 did not answer"), "{told}");
    let (code, _, error) = ask(&daemons[0], &["diff", "c9"]);
    assert!(code == 2 && error.contains("no member c9 is known here"), "{error}");
    for (query, said) in [("of=", "parameter of is empty"), ("of=c1&of=c2", "parameter of is given twice")] {
        let refused = get(daemons[0].api, &format!("/v1/ring?{query}")).await;
        assert!(refused.status == 400 && refused.body.contains(said), "{}", refused.body);
    }
}

/// Somebody else's name in its config: at the address of c2 answers c1.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_somebody_else_is_told_by_ring_and_diff() {
    let (folder, one, two) = (Folder::new(), free_address(), free_address());
    let list = folder.write("m.yaml", &format!("- {{id: c1, addr: '{one}'}}\n- {{id: c2, addr: '{two}'}}\n"));
    let config = format!("members: {{file: '{}'}}", list.display());
    let first = Daemon::collectord_at("c1", one, &config).await;
    let other = Daemon::collectord_at("c1", two, &config).await;
    knows_a_ring(&first).await;
    knows_a_ring(&other).await;
    for words in [&[][..], &["diff"], &["diff", "c1", "c2"]] {
        let (code, told, error) = ask(&first, words);
        assert!(code == 3 && told.contains("at its address answers member c1"), "{words:?}: {code} {told}{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_comes_true_and_views_that_differ_are_told() {
    let (folder, one, two) = (Folder::new(), free_address(), free_address());
    let (alone, other) = (format!("- {{id: c1, addr: '{one}'}}\n"), format!("- {{id: c2, addr: '{two}'}}\n"));
    let path = folder.write("one.yaml", &alone);
    let first = Daemon::collectord_at("c1", one, &format!("members: {{file: '{}'}}", path.display())).await;
    let both = folder.write("both.yaml", &(alone.clone() + &other));
    let second = Daemon::collectord_at("c2", two, &format!("members: {{file: '{}'}}", both.display())).await;
    knows_a_ring(&first).await;
    knows_a_ring(&second).await;
    let plan = json(&first, &["plan", "+c2"])["plan"].clone();
    assert_eq!((&plan["members"], &plan["ideal_primary_shards"]), (&2.into(), &8192.into()), "{plan}");
    let (code, table, _) = ask(&first, &["plan", "+1"]);
    println!("{table}");
    assert!(code == 0 && table.starts_with("2 members instead of 1: "), "{table}");
    let (code, _, error) = ask(&first, &["plan", "-1"]);
    assert!(code == 64 && error.contains("1 of 1 members: none would stay"), "{error}");
    for (change, code, said) in [
        ("+c1", 64, "c1 is a member already"),
        ("-c9", 2, "no member c9 is on the ring"),
        ("+2000", 64, "2000 members; from 1 to 100 can be planned"),
        ("+99999999999999999999", 64, "from 1 to 100 can be planned"),
        ("7", 64, "is no change"),
    ] {
        let (exit, _, error) = ask(&first, &["plan", change]);
        assert!(exit == code && error.contains(said), "{change}: {exit}, {error}");
    }
    // The second sees both, the first itself alone.
    let (code, told, _) = ask(&second, &["diff"]);
    println!("{told}");
    assert_eq!(code, 3);
    assert!(told.contains("member c2: seen by the router asked, not by c1"), "{told}");
    // What was planned is what comes.
    folder.write("one.yaml", &(alone + &other));
    until("the first sees both", async || {
        get(first.api, "/v1/ring").await.json()["members"].as_array().map_or(0, Vec::len) == 2
    })
    .await;
    let now = get(first.api, "/v1/ring").await.json();
    assert_eq!(now["ring_id"], plan["ring_id"]);
    let shares: Vec<_> = now["members"].as_array().unwrap().iter().map(|member| &member["primary_shards"]).collect();
    let planned: Vec<_> =
        plan["shares"].as_array().unwrap().iter().map(|share| &share["primary_shards_after"]).collect();
    assert_eq!(shares, planned);
    assert_eq!(ask(&second, &["diff", "c1", "c2"]).0, 0);
}
