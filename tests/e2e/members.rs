//! Members that freeze, die, come and go.

use crate::rig::{Answer, Daemon, Folder, free_address, get, member, series, until};
use crate::scripted::{Scripted, figures};
use crate::subscribe::ring;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use swarmstats::model::{Key, TaskId};

fn ids(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("task{i:04}")).collect()
}

fn key(id: &str) -> Key {
    Key::Task(TaskId::new(id).unwrap())
}

/// The ids of a document's tasks, with whether each is fresh.
fn tasks(answer: &Answer) -> BTreeSet<(String, bool)> {
    let json = answer.json();
    let tasks = json["tasks"].as_array().unwrap().iter();
    tasks.map(|task| (task["id"].as_str().unwrap().into(), task["tasks"]["fresh"] == 1)).collect()
}

fn all_fresh<'a>(ids: impl IntoIterator<Item = &'a String>) -> BTreeSet<(String, bool)> {
    ids.into_iter().map(|id| (id.clone(), true)).collect()
}

#[tokio::test]
async fn a_frozen_or_killed_member_is_named_by_both_other_routers_by_their_deadline() {
    let (mut daemons, members) = ring(3, "query_deadline: 800ms").await;
    let mut shipper = Scripted::new("node-1", &members);
    for id in ids(30) {
        shipper.run("web", &id, figures(1, 1));
    }
    shipper.settle().await;
    let of_c3: BTreeSet<String> =
        ids(30).into_iter().filter(|id| *shipper.ring().primary(&key(id)) == member("c3")).collect();
    assert!((1..30).contains(&of_c3.len()));
    for daemon in &daemons {
        let answer = get(daemon.api, "/v1/tasks").await;
        assert_eq!(answer.json()["complete"], true, "{}", answer.body);
        assert_eq!(tasks(&answer), all_fresh(&ids(30)));
    }
    let named = async |daemons: &[Daemon]| {
        for daemon in &daemons[..2] {
            for _ in 0..3 {
                let begun = Instant::now();
                let answer = get(daemon.api, "/v1/tasks").await;
                let took = begun.elapsed();
                assert!(took < Duration::from_millis(1500), "{took:?}");
                let json = answer.json();
                assert_eq!(json["complete"], false);
                let missing = json["missing"].as_array().unwrap();
                assert!(missing.iter().any(|part| part["what"] == "member c3"), "{missing:?}");
                let others = ids(30).into_iter().filter(|id| !of_c3.contains(id)).collect::<Vec<_>>();
                assert_eq!(tasks(&answer), all_fresh(&others));
            }
        }
    };
    daemons[2].signal(Signal::STOP);
    named(&daemons).await;
    daemons[2].signal(Signal::CONT);
    for daemon in &daemons[..2] {
        until("the thawed member is heard", async || get(daemon.api, "/v1/tasks").await.json()["complete"] == true)
            .await;
    }
    daemons[2].kill();
    named(&daemons).await;
}

#[tokio::test]
async fn a_watched_file_adds_and_removes_a_member_and_tasks_move_with_it() {
    let (folder, one, two) = (Folder::new(), free_address(), free_address());
    let (alone, both) = (format!("- {{id: c1, addr: '{one}'}}\n"), format!("- {{id: c2, addr: '{two}'}}\n"));
    let both = alone.clone() + &both;
    let path = folder.write("members.yaml", &alone);
    let more = format!("members: {{file: '{}'}}", path.display());
    let first = Daemon::collectord_at("c1", one, &more).await;
    let second = Daemon::collectord_at("c2", two, &more).await;
    let n_members =
        async |daemon: &Daemon| get(daemon.api, "/v1/ring").await.json()["members"].as_array().map_or(0, Vec::len);
    until("one member is seen", async || n_members(&first).await == 1).await;
    let (c1, c2) = (member("c1"), member("c2"));
    let mut shipper = Scripted::new("node-1", &[("c1", one)]);
    for id in ids(40) {
        shipper.run("web", &id, figures(1, 1));
    }
    shipper.settle().await;
    assert_eq!(tasks(&get(one, "/v1/tasks").await), all_fresh(&ids(40)));

    folder.write("members.yaml", &both);
    let begun = Instant::now();
    for daemon in [&first, &second] {
        until("two members are seen", async || n_members(daemon).await == 2).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    shipper.set_members(&[("c1", one), ("c2", two)]);
    let moved: Vec<String> = ids(40).into_iter().filter(|id| *shipper.ring().primary(&key(id)) == c2).collect();
    let stayed: Vec<String> = ids(40).into_iter().filter(|id| !moved.contains(id)).collect();
    assert!((5..35).contains(&moved.len()), "{}", moved.len());
    // The old owner is told first: until the new one has acknowledged them, both are told.
    shipper.observe();
    shipper.tell(&c1).await.unwrap();
    assert_eq!(tasks(&get(one, "/v1/tasks?scope=local").await), all_fresh(&ids(40)));
    // The new one has them with its first batch; then the old one forgets.
    shipper.tell(&c2).await.unwrap();
    shipper.settle().await;
    assert_eq!(tasks(&get(two, "/v1/tasks?scope=local").await), all_fresh(&moved));
    assert_eq!(tasks(&get(one, "/v1/tasks?scope=local").await), all_fresh(&stayed));
    for daemon in [&first, &second] {
        let answer = get(daemon.api, "/v1/tasks").await;
        assert_eq!((answer.json()["complete"].clone(), tasks(&answer)), (true.into(), all_fresh(&ids(40))));
    }

    folder.write("members.yaml", &alone);
    until("one member is seen again", async || n_members(&first).await == 1).await;
    shipper.set_members(&[("c1", one)]);
    shipper.settle().await;
    shipper.settle().await;
    assert_eq!(tasks(&get(one, "/v1/tasks?scope=local").await), all_fresh(&ids(40)));
    assert_eq!(tasks(&get(two, "/v1/tasks?scope=local").await), BTreeSet::new());
    let service = get(one, "/v1/services/web").await.json();
    assert_eq!(service["services"][0]["tasks"], serde_json::json!({"fresh": 40, "known": 40, "desired": null}));
}

/// What `/v1/ring` says of its members without asking them.
async fn states(daemon: &Daemon) -> Vec<String> {
    let ring = get(daemon.api, "/v1/ring").await.json();
    let state = |member: &serde_json::Value| member["state"].as_str().unwrap_or("-").to_string();
    ring["members"].as_array().unwrap().iter().map(state).collect()
}

#[tokio::test]
async fn the_state_of_each_member_of_a_list_is_known_without_asking_it() {
    let (daemons, _) = ring(3, "").await;
    let is = async |expected: [&str; 3]| states(&daemons[0]).await == expected;
    let waited = Instant::now();
    let until_is = async |expected: [&str; 3]| {
        // Three looks of five seconds and their deadlines.
        while !is(expected).await {
            assert!(waited.elapsed() < Duration::from_secs(90), "{:?}", states(&daemons[0]).await);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    until_is(["active", "active", "active"]).await;
    daemons[2].signal(Signal::STOP);
    until_is(["active", "active", "gone"]).await;
    let count = async |state: &str| series(daemons[0].metrics, &format!("swarmstats_router_members_{state}")).await;
    assert_eq!((count("active").await, count("gone").await), (Some(1.0), Some(1.0)));
    daemons[2].signal(Signal::CONT);
    until_is(["active", "active", "active"]).await;
}

#[tokio::test]
async fn a_members_file_that_cannot_be_read_is_told_with_the_ring_and_is_read_again_when_it_can() {
    let (folder, one) = (Folder::new(), free_address());
    let alone = format!("- {{id: c1, addr: '{one}'}}\n");
    let path = folder.write("members.yaml", &alone);
    let more = format!("members: {{file: '{}'}}", path.display());
    let mut daemon = Daemon::collectord_at("c1", one, &more).await;
    let ring = async || get(one, "/v1/ring").await.json();
    until("the ring is known", async || ring().await["members"][0]["id"] == "c1").await;
    assert!(ring().await["trouble"].is_null());
    // A FIFO: whoever opens it waits for a writer, and there is none.
    std::fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let told = async || ring().await["trouble"].as_str().is_some_and(|why| why.contains("it is no regular file"));
    until("the FIFO is told", told).await;
    assert_eq!(ring().await["members"][0]["id"], "c1");
    // A good file again, which leaves this collector out.
    folder.write("members.yaml", "- {id: c2, addr: '127.0.0.1:1'}\n");
    until("the good file is read", async || ring().await["members"][0]["id"] == "c2").await;
    assert!(ring().await["trouble"].is_null());
    daemon.signal(Signal::TERM);
    let (_, said) = daemon.ended(Duration::from_secs(20)).await;
    assert!(said.contains("WARN") && said.contains("this collector's id c1 is not among the members"), "{said}");
}

#[test]
fn a_check_reads_the_members_file_too() {
    let folder = Folder::new();
    let check = |list: &str| {
        let list = folder.write("members.yaml", list);
        let config = folder.write("c.yaml", &format!("member: c1\nmembers: {{file: '{}'}}\n", list.display()));
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_collectord"));
        let output = command.arg("--check").arg("--config").arg(config).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(check("- {id: c1, addr: '127.0.0.1:7770'}\n").0, Some(0));
    for (list, said) in [
        (
            "- {id: c2, addr: '127.0.0.1:1'}\n",
            "this collector's id c1 is not among the members: list it, or write `member:`",
        ),
        ("[]", "no members"),
        (
            "- {id: c1, addr: '127.0.0.1:1'}\n- {id: c2, addr: '127.0.0.1:7770'}\n",
            "127.0.0.1:7770 is the address of member c2; this is c1",
        ),
    ] {
        let (code, told) = check(list);
        assert!(code == Some(64) && told.contains(said), "{list}: {told}");
    }
}
