//! What each option does, against answers by hand: the contract of the JSON, with every figure there is.

use crate::fake::{Does, FakeRouter, SERVICES, code, text};
use serde_json::Value;

/// Tasks of two services: one fresh and limited, one paused and unhealthy, one stale, one killed for want of memory.
const TASKS: &str = r#"{"complete": true, "missing": [], "warnings": [], "swarm": {"age_seconds": 2.0}, "tasks": [
  {"id": "9mnpnzenvg8p8tdbtq4wvbkcz", "name": "shop_web.1.9mnpnzenvg8p8tdbtq4wvbkcz", "stack": "shop",
   "service_id": "s2", "service_name": "shop_web", "node_id": "n1", "node_name": "worker-1", "slot": "1",
   "container_id": "c0ffee00c0ffee00", "image": "nginx:1.27", "labels": {"tier": "front"},
   "state": "running", "health": "healthy", "tasks": {"fresh": 1, "known": 1}, "age_seconds": 0.5,
   "since": "2026-01-01T00:00:00.000Z", "figures": {"cpu_percent": 80.0, "cpu_percent_of_node": 20.0,
   "cpu_percent_of_limit": 160.0, "memory_used_bytes": 1610612736, "memory_limit_bytes": 2147483648,
   "memory_percent": 75.0, "network_receive_bytes": 539000, "network_transmit_bytes": 606000,
   "block_read_bytes": 0, "block_written_bytes": 13300, "pids": 12, "memory_swap_bytes": 1048576,
   "network_receive_bytes_per_second": 1500, "network_transmit_bytes_per_second": 20.5,
   "block_read_bytes_per_second": 0, "block_written_bytes_per_second": null, "cpu_throttled_percent": 12.5,
   "pressure_cpu_percent": 1.25, "pressure_memory_percent": 0, "pressure_io_percent": null, "oom_kills": 0, "restarts": 3}},
  {"id": "0kz7nzenvg8p8tdbtq4wvbkcz", "name": "shop_web.2.0kz7nzenvg8p8tdbtq4wvbkcz", "stack": "shop",
   "service_id": "s2", "service_name": "shop_web", "node_id": "n2", "node_name": "worker-2", "labels": {"tier": "front"},
   "state": "paused", "health": "unhealthy", "tasks": {"fresh": 1, "known": 1}, "age_seconds": 0.5,
   "figures": {"cpu_percent": 0.0, "memory_used_bytes": 1048576, "pids": 3}},
  {"id": "1kz7nzenvg8p8tdbtq4wvbkcz", "name": "db.1.1kz7nzenvg8p8tdbtq4wvbkcz", "stack": null, "service_id": "s3",
   "service_name": "db", "node_id": "n2", "node_name": "worker-2", "labels": {}, "state": "stale",
   "tasks": {"fresh": 0, "known": 1}, "age_seconds": 12.2, "figures": {"cpu_percent": null}},
  {"id": "2kz7nzenvg8p8tdbtq4wvbkcz", "name": "shop_web.1.2kz7nzenvg8p8tdbtq4wvbkcz", "stack": "shop",
   "service_id": "s2", "service_name": "shop_web", "node_id": "n1", "node_name": "worker-1", "labels": {},
   "state": "ended", "exit_code": 137, "tasks": {"fresh": 0, "known": 0}, "age_seconds": 150.0,
   "figures": {"cpu_percent": null, "memory_used_bytes": 2147483648, "oom_kills": 1}}]}"#;

fn tasks() -> FakeRouter {
    FakeRouter::saying("200 OK", TASKS)
}

/// The lines of a table, with one space where there are several.
fn squeezed(output: &std::process::Output) -> Vec<String> {
    let lines = text(&output.stdout).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect()
}

/// The words of a template for each row.
fn shown(router: &FakeRouter, line: &str, template: &str) -> Vec<String> {
    let output = router.client(line).args(["--no-stream", "--format", template]).output().unwrap();
    assert_eq!(text(&output.stderr), "", "{line}");
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn ps_lists_the_tasks_of_services_as_docker_service_ps_does() {
    let router = tasks();
    let output = router.run("ps shop_web --no-stream");
    let lines = squeezed(&output);
    assert_eq!(lines[0], "ID NAME NODE STATE HEALTH UP CPU % MEM USAGE / LIMIT MEM % NET I/O BLOCK I/O PIDS");
    assert_eq!(lines[1], "1kz7nzenvg8p db.1 worker-2 stale 12s -- -- -- -- / -- -- -- / -- -- / -- --");
    assert!(lines[2].starts_with("9mnpnzenvg8p shop_web.1 worker-1 running healthy "), "{lines:?}");
    assert!(lines[2].ends_with("d 80.00% 1.5GiB / 2GiB 75.00% 539kB / 606kB 0B / 13.3kB 12"), "{lines:?}");
    assert_eq!(lines[3], "0kz7nzenvg8p shop_web.2 worker-2 paused unhealthy -- 0.00% 1MiB / -- -- -- / -- -- / -- 3");
    assert_eq!((lines.len(), code(&output)), (4, 0), "what has ended is not asked for");
    assert_eq!(router.asked(), ["/v1/tasks?service=shop_web&stats=none"]);
}

#[test]
fn all_shows_ended_tasks_with_their_last_figures_and_exit_code() {
    let lines = squeezed(&tasks().run("ps shop_web --all --no-stream --filter state=ended"));
    assert_eq!(lines[0], "ID NAME NODE STATE HEALTH UP EXIT CPU % MEM USAGE / LIMIT MEM % NET I/O BLOCK I/O PIDS");
    assert_eq!(lines[1], "2kz7nzenvg8p shop_web.1 worker-1 ended -- -- 137 OOM -- 2GiB / -- -- -- / -- -- / -- --");
    let lines = squeezed(&tasks().run("task --all --no-stream"));
    assert_eq!(lines.len(), 5);
    assert!(lines.iter().any(|line| line.contains("137 OOM") && line.ends_with("ended 2m")), "{lines:?}");
}

#[test]
fn ps_of_a_service_nobody_knows_is_exit_code_2() {
    let router = FakeRouter::saying("200 OK", r#"{"complete": true, "tasks": []}"#);
    let output = router.run("ps nope");
    assert_eq!((text(&output.stderr), code(&output)), ("docker-swarmstats: no service \"nope\" has tasks\n", 2));
}

#[test]
fn ps_of_a_service_without_tasks_is_an_empty_table() {
    let router = FakeRouter::start(|path| {
        Does::Answer(
            "200 OK",
            match path.starts_with("/v1/services/web") {
                true => r#"{"complete": true, "services": [{"id": "s1", "name": "web"}]}"#,
                false => r#"{"complete": true, "tasks": []}"#,
            }
            .into(),
        )
    });
    for line in ["ps web --no-stream", "task web --no-stream"] {
        let output = router.run(line);
        assert_eq!((text(&output.stderr), code(&output)), ("", 0), "{line}");
        assert!(text(&output.stdout).ends_with("\nno tasks\n"), "{output:?}");
    }
}

#[test]
fn a_row_stands_in_one_document_only() {
    let output = tasks().run("task shop_web 9mnp --no-stream --format json");
    let ids: Vec<String> = text(&output.stdout)
        .lines()
        .flat_map(|line| serde_json::from_str::<Value>(line).unwrap()["tasks"].as_array().unwrap().clone())
        .map(|task| task["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        (ids.len(), text(&output.stdout).lines().count()),
        (4, 2),
        "the fake answers all four to each name: {ids:?}"
    );
}

#[test]
fn services_that_swarm_has_removed_are_shown_to_those_who_ask() {
    let services = r#"{"complete": true, "swarm": {"age_seconds": 1}, "services": [
        {"id": "s1", "name": "gone", "tasks": {"fresh": 0, "known": 0, "desired": null}},
        {"id": "s2", "name": "idle", "tasks": {"fresh": 0, "known": 0, "desired": 0}},
        {"id": "s3", "name": "left", "tasks": {"fresh": 0, "known": 1, "desired": null}}]}"#;
    let names = |document: &str, line| shown(&FakeRouter::saying("200 OK", document), line, "{{.Name}}").join(" ");
    assert_eq!(names(services, ""), "idle left");
    assert_eq!(names(services, "--all"), "gone idle left");
    assert_eq!(names(services, "gone"), "gone idle left", "whatever the router answers to a name");
    assert_eq!(names(&services.replace(r#""swarm": {"age_seconds": 1},"#, ""), ""), "gone idle left", "nobody knows");
}

#[test]
fn rows_are_sorted_by_any_figure_either_way() {
    let names =
        |line: &str| shown(&tasks(), &format!("task --all {line}"), "{{.ID}}").join(" ").replace("nzenvg8p", "");
    assert_eq!(names(""), "1kz7 2kz7 9mnp 0kz7", "by name, then id");
    assert_eq!(names("--sort cpu"), "9mnp 0kz7 1kz7 2kz7", "absent last");
    assert_eq!(names("--sort -cpu"), "0kz7 9mnp 1kz7 2kz7", "absent last");
    assert_eq!(names("--sort mem"), "2kz7 9mnp 0kz7 1kz7");
    assert_eq!(names("--sort pids --reverse"), "0kz7 9mnp 1kz7 2kz7");
    assert_eq!(names("--sort age"), "2kz7 1kz7 9mnp 0kz7");
    assert_eq!(names("--sort node"), "2kz7 9mnp 1kz7 0kz7");
}

#[test]
fn filters_select_here_and_the_router_is_asked_for_what_it_can_select() {
    let ids = |line: &str| shown(&tasks(), &format!("task {line}"), "{{.ID}}").join(" ").replace("nzenvg8p", "");
    assert_eq!(ids("--filter name=web"), "9mnp 0kz7");
    assert_eq!(ids("--filter name=*.1"), "1kz7 9mnp");
    assert_eq!(ids("-f cpu>50 -f mem>1GiB -f mem%>70 -f pids>10"), "9mnp");
    assert_eq!(ids("--filter health=unhealthy"), "0kz7");
    assert_eq!(ids("--filter state=stale --filter state=paused"), "1kz7 0kz7");

    let router = tasks();
    router.run("task --no-stream --filter stack=shop --filter node=worker-1 --filter label=tier=front");
    assert_eq!(router.asked(), ["/v1/tasks?stack=shop&node=worker-1&label=tier%3Dfront&stats=none"]);
    let output = tasks().run("task --no-stream --filter name=nothing");
    assert!(text(&output.stdout).ends_with("\nno tasks pass the filters; 3 do not\n"), "{output:?}");
}

#[test]
fn bad_filters_are_all_named_with_the_keys_there_are() {
    let output = tasks().run("task --filter foo=1 --filter cpu>much");
    let said = text(&output.stderr);
    assert!(
        said.contains("\"foo=1\"") && said.contains("\"cpu>much\"") && said.contains("keys for tasks: name, id,"),
        "{said}"
    );
    assert_eq!(code(&output), 64);
}

#[test]
fn rates_stand_instead_of_totals_and_the_base_of_cpu_percent_is_named() {
    let lines = squeezed(&tasks().run("task 9mnp --no-stream --filter id=9mnp --rates --of node"));
    assert_eq!(
        lines,
        [
            "TASK ID NAME NODE CPU % (of node) MEM USAGE / LIMIT MEM % NET I/O PER S BLOCK I/O PER S PIDS",
            "9mnpnzenvg8p shop_web.1 worker-1 20.00% 1.5GiB / 2GiB 75.00% 1.5kB / 20.5B 0B / -- 12",
        ]
    );
    let lines = squeezed(&tasks().run("task --no-stream --of limit --filter cpu>100"));
    assert!(
        lines[0].contains("CPU % (of limit)") && lines[1].contains("160.00%"),
        "a filter is of what is shown: {lines:?}"
    );
}

#[test]
fn wide_and_no_trunc() {
    let lines = squeezed(&tasks().run("task --no-stream --filter id=9mnp --wide --no-trunc"));
    assert!(lines[0].ends_with("PIDS SWAP THROTTLED PSI CPU PSI MEM PSI IO OOM RESTARTS"), "{lines:?}");
    assert!(lines[1].ends_with("12 1MiB 12.50% 1.25% 0.00% -- 0 3"), "{lines:?}");
    assert!(lines[1].starts_with("9mnpnzenvg8p8tdbtq4wvbkcz shop_web.1.9mnpnzenvg8p8tdbtq4wvbkcz "), "{lines:?}");
}

#[test]
fn a_template_is_a_line_for_each_row() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    assert_eq!(shown(&router, "", "{{.Name}}: {{.CPUPerc}}"), ["api: 75.20%", "web: 0.03%"]);
    assert_eq!(shown(&router, "", r"{{upper .Name}}\t{{.Tasks}}"), ["API\t1/1", "WEB\t2/2"]);
    let lines = shown(&router, "", "{{json .}}");
    let web: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(
        (&web["Name"], &web["MemUsage"], &web["PIDs"]),
        (&"web".into(), &"2.352MiB / 982.5MiB".into(), &"2".into())
    );
    assert_eq!(
        shown(&router, "", "table {{.Name}}\t{{.MemUsage}}\t{{.PIDs}}"),
        [
            "NAME      MEM USAGE / LIMIT     PIDS",
            "api       24B / --              10",
            "web       2.352MiB / 982.5MiB   2"
        ]
    );
}

#[test]
fn csv_is_a_header_once_and_numbers_in_base_units() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let output = router.run("--count 2 --interval 100ms --format csv");
    let lines: Vec<Vec<&str>> = text(&output.stdout).lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines.len(), code(&output)), (5, 0), "a header and twice two rows");
    let at = |name: &str| lines[0].iter().position(|heading| *heading == name).unwrap();
    let column = |name: &str| [lines[1][at(name)], lines[2][at(name)]];
    assert_eq!(column("name"), ["api", "web"]);
    assert_eq!(column("memory_used_bytes"), ["24", "2466251"]);
    assert_eq!(column("network_receive_bytes"), ["", "539000"]);
    assert_eq!(column("cpu_percent"), ["75.2", "0.03"]);
    assert_eq!(lines[1][1..], lines[3][1..]);
    assert!(lines[1][0] < lines[3][0], "rounds are told apart by their time");
}

/// A node's figures of its own, and what is reserved there.
const NODES: &str = r#"{"complete": true, "nodes": [
  {"id": "n1", "name": "worker-1", "tasks": {"fresh": 2, "known": 2}, "figures": {"cpu_percent": 100.0, "pressure_cpu_percent": 9},
   "machine": {"figures": {"cpu_percent_of_node": 42.5, "load1": 1.5, "memory_used_bytes": 3221225472,
     "memory_limit_bytes": 8589934592, "filesystem_used_bytes": 10737418240, "filesystem_size_bytes": 107374182400,
     "network_receive_bytes_per_second": 1000, "network_transmit_bytes_per_second": 2000, "pressure_cpu_percent": 0.5}},
   "capacity": {"cpu_cores": 4.0, "memory_bytes": 8589934592}, "reserved": {"cpu_cores": 1.25, "memory_bytes": 2147483648},
   "status": "ready", "availability": "drain", "role": "worker"},
  {"id": "n2", "name": "worker-2", "tasks": {"fresh": 0, "known": 0, "desired": 1}, "figures": {}, "machine": null, "status": "down"}]}"#;

#[test]
fn nodes_show_the_machine_and_what_is_reserved() {
    let lines = squeezed(&FakeRouter::saying("200 OK", NODES).run("node --no-stream"));
    let heading = "NAME STATUS TASKS NODE CPU NODE MEM / TOTAL CPU % MEM USAGE / LIMIT MEM % NET I/O BLOCK I/O PIDS";
    assert_eq!(lines[0], format!("{heading} RESERVED CPU RESERVED MEM"));
    assert!(lines[1].starts_with("worker-1 drain 2/2 42.50% 3GiB / 8GiB 100.00% "), "{lines:?}");
    assert!(lines[1].ends_with(" 1.25 / 4 2GiB / 8GiB"), "{lines:?}");
    assert!(lines[2].starts_with("worker-2 down 0/0 of 1 "), "{lines:?}");
    let lines = squeezed(&FakeRouter::saying("200 OK", NODES).run("node --no-stream --wide --sort load"));
    let heading = "RESERVED MEM LOAD DISK USED / SIZE NODE SWAP NODE NET PER S NODE BLOCK PER S";
    assert!(
        lines[0].contains(&format!("{heading} NODE PSI CPU NODE PSI MEM NODE PSI IO SWAP THROTTLED OOM RESTARTS")),
        "{lines:?}"
    );
    assert!(
        lines[1].contains(" 1.50 10GiB / 100GiB -- / -- 1kB / 2kB -- / -- 0.50% -- -- "),
        "the pressure is the machine's: {lines:?}"
    );
}

#[test]
fn a_nodes_machine_is_in_csv_too_with_the_time_of_the_answer_first() {
    let output = FakeRouter::saying("200 OK", NODES).run("node --no-stream --format csv");
    let lines: Vec<Vec<&str>> = text(&output.stdout).lines().map(|line| line.split(',').collect()).collect();
    let of = |name: &str| lines[1][lines[0].iter().position(|heading| *heading == name).unwrap()];
    assert_eq!(lines[0][0], "time");
    assert!(lines[1][0].starts_with("20") && lines[1][0].ends_with('Z'), "RFC 3339: {lines:?}");
    assert_eq!(["status", "availability", "role"].map(of), ["ready", "drain", "worker"]);
    assert_eq!(["machine_load1", "machine_filesystem_size_bytes"].map(of), ["1.5", "107374182400"]);
    assert_eq!(["capacity_cpu_cores", "reserved_memory_bytes"].map(of), ["4", "2147483648"]);
}

/// A number as the table writes it, in bytes or per cent.
fn number(cell: &str) -> f64 {
    let digits = cell.find(|c: char| c.is_ascii_alphabetic() || c == '%').unwrap();
    let factor = match &cell[digits..] {
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => 1.0,
    };
    cell[..digits].parse::<f64>().unwrap() * factor
}

#[test]
fn json_sums_to_the_table() {
    for line in ["task", "task --filter state=running", "task --all"] {
        let document: Value =
            serde_json::from_slice(&tasks().run(&format!("{line} --no-stream --format json")).stdout).unwrap();
        let sum = |name: &str| -> f64 {
            let tasks = document["tasks"].as_array().unwrap();
            tasks.iter().filter_map(|task| task["figures"][name].as_f64()).sum()
        };
        let (mut cpu, mut memory) = (0.0, 0.0);
        for cells in
            shown(&tasks(), line, "{{.CPUPerc}} {{.MemUsage}}").iter().map(|row| row.split(' ').collect::<Vec<_>>())
        {
            cpu += if cells[0] == "--" { 0.0 } else { number(cells[0]) };
            memory += if cells[1] == "--" { 0.0 } else { number(cells[1]) };
        }
        assert_eq!((cpu, memory), (sum("cpu_percent"), sum("memory_used_bytes")), "{line}");
    }
}

/// Two tasks of one service: one with a hole in its points.
const POINTS: &str = r#"{"complete": true, "tasks": [
  {"id": "t1", "service_id": "s2", "state": "running", "age_seconds": 0.1, "points": [
    {"seconds_before": 3.0, "stats": {"cpu_seconds_total": 10.0, "memory_used_bytes": 100}},
    {"seconds_before": 2.0, "stats": {"cpu_seconds_total": 10.7, "memory_used_bytes": 100}},
    {"seconds_before": 1.0, "stats": {"cpu_seconds_total": 10.8, "memory_used_bytes": 100}},
    {"seconds_before": 0.0, "stats": {"cpu_seconds_total": 11.5, "memory_used_bytes": 700}}]},
  {"id": "t2", "service_id": "s1", "state": "running", "age_seconds": 0.1, "points": [
    {"seconds_before": 4.0, "stats": {"cpu_seconds_total": 1.0, "memory_used_bytes": 7}},
    {"seconds_before": 3.0, "stats": {"cpu_seconds_total": 1.0, "memory_used_bytes": 7}},
    {"seconds_before": 1.0, "stats": {"cpu_seconds_total": 1.0, "memory_used_bytes": 7}},
    {"seconds_before": 0.0, "stats": {"cpu_seconds_total": 1.0, "memory_used_bytes": 7}}]}]}"#;

#[test]
fn a_history_is_a_bar_for_each_interval_and_a_gap_is_blank() {
    let router = FakeRouter::start(|path| {
        Does::Answer("200 OK", if path.starts_with("/v1/tasks") { POINTS } else { SERVICES }.into())
    });
    let output = router.run("--history=20 --no-stream");
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert!(lines[0].ends_with("PIDS   CPU HISTORY   MEM HISTORY"), "{lines:?}");
    assert!(lines[1].ends_with("▁  ▁         ██ ██"), "api, idle, with a gap: {lines:?}");
    assert!(lines[2].ends_with("█▂█          ▂▂▂█"), "web: 0.7, 0.1 and 0.7 CPU: {lines:?}");
    assert_eq!(
        router.asked(),
        ["/v1/services?stats=none", "/v1/tasks?points=20&stats=cpu_seconds_total,memory_used_bytes"]
    );
}

#[test]
fn a_router_that_does_not_know_stats_yet_is_asked_without() {
    let router = FakeRouter::start(|path| match path.contains("stats=") {
        true => Does::Answer("400 Bad Request", r#"{"error": "parameter \"stats\" is not known here"}"#.into()),
        false => Does::Answer("200 OK", SERVICES.into()),
    });
    let output = router.run("--count 2 --interval 100ms");
    assert_eq!((text(&output.stderr), code(&output)), ("", 0));
    assert_eq!(router.asked(), ["/v1/services?stats=none", "/v1/services", "/v1/services"], "and then never again");
}

#[test]
fn count_ends_after_so_many_answers_and_interval_is_between_them() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let start = std::time::Instant::now();
    let output = router.run("--count 3 --interval 200ms");
    assert_eq!((text(&output.stdout).matches("NAME").count(), code(&output)), (3, 0));
    assert!(start.elapsed() >= std::time::Duration::from_millis(400));
}
