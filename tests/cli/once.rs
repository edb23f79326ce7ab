//! One answer: the tables, the questions behind them, what is missing, what goes wrong, and how Docker calls.

use crate::fake::{Does, FakeRouter, INCOMPLETE, SERVICES, SERVICES_TABLE, code, swarmstats, text};
use crate::fixtures;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use swarmstats::json::{self, Shape, What};
use swarmstats::stat;
use swarmstats::view::{Missing, Report};

#[test]
fn a_table_once() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let output = router.run("--no-stream");
    assert_eq!((text(&output.stdout), text(&output.stderr), code(&output)), (SERVICES_TABLE, "", 0));
    assert_eq!(router.asked(), ["/v1/services?stats=none"]);
}

/// The other tests' documents are by hand; here they are as the project's own router writes them.
#[test]
fn the_routers_own_documents_are_understood() {
    use fixtures::{node, row, stale, task, with};
    let nameless = with(task("t3", "db", "n2"), |task| {
        let meta = Arc::make_mut(&mut task.meta);
        (meta.task_name, meta.node_name) = ("".into(), "".into());
    });
    let limited = with(task("t1", "web", "n1"), |task| task.values.set(stat::MEMORY_LIMIT, 400));
    let report = Report {
        tasks: vec![limited, stale(task("t2", "web", "n2"), 9_000), nameless],
        rows: vec![row("n1", "web", 1), row("n2", "web", 1), row("n2", "db", 1)],
        nodes: vec![node("n1", &["web"]), node("n2", &["web", "db"])],
        complete: false,
        missing: vec![Missing { what: "task t2".into(), why: "not read for 9 s".into() }],
        warnings: vec![],
        swarm: None,
    };
    let router = FakeRouter::start(move |path| {
        let what = match path.split(['/', '?']).nth(2).unwrap() {
            "services" => What::Services,
            "tasks" => What::Tasks,
            "nodes" => What::Nodes,
            _ => What::Stacks,
        };
        Does::Answer(
            "200 OK",
            json::document(
                &report,
                &Shape { what, stats: stat::TASKS, points: false, owners: &|_| vec![], ring_id: None },
            ),
        )
    });
    let shown = |line: &str| {
        let output = router.run(&format!("{line} --no-stream"));
        assert_eq!((text(&output.stderr), code(&output)), ("", 3), "{line}");
        let stdout = text(&output.stdout);
        assert!(stdout.ends_with("\n\nincomplete: task t2: not read for 9 s\n"), "{stdout}");
        stdout.lines().skip(1).take_while(|line| !line.is_empty()).map(squeezed).collect::<Vec<_>>()
    };
    // One CPU busy and 100 B used by each; only t1 has a limit.
    let db = "db 1/1 100.00% 100B / -- -- -- / -- -- / -- --";
    assert_eq!(shown("service"), [db, "web 1/2 100.00% 100B / 400B 25.00% -- / -- -- / -- --"]);
    assert_eq!(
        shown("task"),
        [
            "t3 t3 n2 100.00% 100B / -- -- -- / -- -- / -- --",
            "t1 web.1 host-n1 100.00% 100B / 400B 25.00% -- / -- -- / -- --",
            "t2 web.1 host-n2 100.00% 100B / -- -- -- / -- -- / -- -- 9s",
        ]
    );
    assert_eq!(
        shown("node"),
        [
            "host-n1 1/1 100.00% 100B / 400B 25.00% -- / -- -- / -- --",
            "host-n2 1/2 100.00% 100B / -- -- -- / -- -- / -- --"
        ]
    );
    assert_eq!(shown("stack"), ["demo 2/3 200.00% 200B / -- 25.00% -- / -- -- / -- --"]);
}

/// A line with one space wherever there are several.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_view_asks_its_own_path_and_names_are_encoded() {
    let router = FakeRouter::start(|path| {
        let view = path.split(['/', '?']).nth(2).unwrap();
        Does::Answer("200 OK", format!(r#"{{"complete": true, "{view}": []}}"#))
    });
    for line in ["service web compose/p/db", "task", "node n1", "stack shop", "web"] {
        assert_eq!(code(&router.run(&format!("--no-stream {line}"))), 0, "{line}");
    }
    assert_eq!(
        router.asked(),
        [
            "/v1/services/web?stats=none",
            "/v1/services/compose%2Fp%2Fdb?stats=none",
            "/v1/tasks?stats=none",
            "/v1/nodes/n1?stats=none",
            "/v1/stacks/shop?stats=none",
            "/v1/services/web?stats=none"
        ]
    );
}

#[test]
fn json_is_the_routers_own_document_on_one_line() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let output = router.run("--no-stream --format json web api");
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 2, "one for each name");
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let (mut said, shown) = (value(SERVICES), value(lines[0]));
    said["services"].as_array_mut().unwrap().reverse();
    assert_eq!(shown, said, "in the table's order, and nothing else is different");
    assert_eq!(router.asked(), ["/v1/services/web", "/v1/services/api"], "with all stats");
    assert_eq!(code(&output), 0);
}

#[test]
fn what_is_missing_is_said_and_is_exit_code_3() {
    let router = FakeRouter::saying("200 OK", INCOMPLETE);
    let output = router.run("task --no-stream");
    assert_eq!(
        text(&output.stdout),
        "\
TASK ID        NAME    NODE         CPU %   MEM USAGE / LIMIT       MEM %     NET I/O         BLOCK I/O         PIDS   AGE
9mnpnzenvg8p   web.1   worker-3        --          -- / --             --       -- / --           -- / --         --   12s

incomplete: node worker-3: no sample for 12 s
warning: two services are called cache
"
    );
    assert_eq!(code(&output), 3);
    assert_eq!(code(&router.run("task --no-stream --format json")), 3);
}

#[test]
fn a_wrong_name_is_exit_code_2_with_the_routers_reason() {
    let router = FakeRouter::saying("404 Not Found", r#"{"error": "no service is called \"\u001b[2Jx\""}"#);
    let output = router.run("x --no-stream");
    assert_eq!((text(&output.stdout), code(&output)), ("", 2));
    assert_eq!(text(&output.stderr), "docker-swarmstats: no service is called \"\\u{1b}[2Jx\"\n");

    let router =
        FakeRouter::saying("409 Conflict", r#"{"error": "9mnp is ambiguous", "candidates": ["9mnpa", "9mnpb"]}"#);
    let output = router.run("task 9mnp");
    assert_eq!(text(&output.stderr), "docker-swarmstats: 9mnp is ambiguous: 9mnpa, 9mnpb\n");
    assert_eq!(code(&output), 2, "also when it was to be a live view");
}

#[test]
fn a_tasks_name_may_be_a_services() {
    const DARK: &str = r#"{"complete": false, "missing": [{"what": "node n", "why": "silent"}], "tasks": []}"#;
    let router = FakeRouter::start(|path| match path {
        "/v1/tasks?service=web&stats=none" => Does::Answer("200 OK", INCOMPLETE.into()),
        "/v1/tasks?service=nope&stats=none" => Does::Answer("200 OK", r#"{"complete": true, "tasks": []}"#.into()),
        "/v1/tasks/dark?stats=none" | "/v1/tasks?service=dark&stats=none" => Does::Answer("200 OK", DARK.into()),
        _ => Does::Answer("404 Not Found", r#"{"error": "no task \"nope\" is known"}"#.into()),
    });
    assert!(text(&router.run("task web --no-stream").stdout).contains("web.1"));
    let output = router.run("task nope --no-stream");
    let said = "docker-swarmstats: no task \"nope\" is known, and no service of that name has tasks\n";
    assert_eq!((text(&output.stderr), code(&output)), (said, 2));
    assert_eq!(code(&router.run("task dark --no-stream")), 3, "nobody can say that it does not exist");
}

#[test]
fn no_router_no_answer() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap(); // closed again at once
    let output = swarmstats(&format!("--host http://{address}")).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.starts_with(&format!("docker-swarmstats: cannot reach a router at http://{address}: ")), "{said}");
    assert!(said.contains("--host") && said.contains("SWARMSTATS_HOST"), "names the remedy: {said}");
    assert_eq!((text(&output.stdout), code(&output)), ("", 1));
}

#[test]
fn a_router_that_keeps_silent_is_not_waited_for_longer_than_5_seconds() {
    let router = FakeRouter::start(|_| Does::Nothing);
    let start = Instant::now();
    let output = router.run("--no-stream");
    assert!(start.elapsed() >= Duration::from_secs(5) && start.elapsed() < Duration::from_secs(15));
    assert!(text(&output.stderr).contains("did not answer within 5 s"), "{output:?}");
    assert_eq!(code(&output), 1);
}

#[test]
fn an_answer_that_is_none_is_exit_code_1() {
    let broken_off: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{\"complete\": true, \"services\": [";
    for (does, said) in [
        (Does::Send(b"\x16\x03\x01 no HTTP at all \x1b[2J\r\n\r\n"), "did not answer as a router does"),
        (Does::Send(b""), "did not answer as a router does"),
        (Does::Send(broken_off), "did not answer as a router does"),
        (Does::Answer("200 OK", "<html>It works!</html>".into()), "the answer is not a router's"),
        (Does::Answer("200 OK", r#"{"complete": true, "tasks": []}"#.into()), "no list of services"),
        (Does::Answer("404 Not Found", "<html>".into()), "answered 404 Not Found without a reason"),
        (Does::Answer("503 Service Unavailable", r#"{"error": "starting"}"#.into()), "Unavailable: starting"),
        (Does::Flood(65), "larger than 64 MiB"),
    ] {
        let router = FakeRouter::start(move |_| does.clone());
        for line in ["--no-stream", "--no-stream --format json"] {
            let output = router.run(line);
            assert!(text(&output.stderr).contains(said), "{said}: {output:?}");
            assert!(!output.stderr.contains(&0x1b));
            assert_eq!((text(&output.stdout), code(&output)), ("", 1), "{said}");
        }
    }
}

#[test]
fn what_is_not_understood_is_exit_code_64() {
    for line in ["--interval 2", "--format yaml", "--host r:7770", "swarmstats --nope"] {
        let output = swarmstats(line).output().unwrap();
        assert_eq!((text(&output.stdout), code(&output)), ("", 64), "{line}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn docker_sees_a_plugin() {
    let output = swarmstats("docker-cli-plugin-metadata").output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((code(&output), &said["SchemaVersion"]), (0, &"0.1.0".into()));
    for key in ["Vendor", "Version", "ShortDescription"] {
        assert!(said[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {said}");
    }
}

#[test]
fn docker_calls_a_plugin_with_its_own_flags_first() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let output = router.run("--context c -H tcp://192.0.2.1:2375 -D swarmstats service --no-stream web");
    assert_eq!((text(&output.stdout), code(&output)), (SERVICES_TABLE, 0));
    assert_eq!(router.asked(), ["/v1/services/web?stats=none"]);
    for line in ["swarmstats --help", "help swarmstats"] {
        let output = swarmstats(line).output().unwrap();
        assert!(text(&output.stdout).contains("Usage: docker swarmstats [OPTIONS] [NAME]..."), "{line}");
        assert_eq!(code(&output), 0);
    }
}
