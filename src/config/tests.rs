//! What the golden files under `tests/data/config` do not show: defaults, units, and that no text can hurt.

use super::*;
use crate::model::MemberId;
use std::time::Duration;

fn host() -> MemberId {
    MemberId::new("this-host").unwrap()
}

fn shipper(text: &str) -> Result<Shipper, Mistakes> {
    Shipper::parse(text, &host())
}

fn collectord(text: &str) -> Result<Collectord, Mistakes> {
    Collectord::parse(text, &host())
}

fn the_mistake<T: fmt::Debug>(result: Result<T, Mistakes>) -> String {
    let mistakes = result.unwrap_err();
    assert_eq!(mistakes.list.len(), 1, "{mistakes}");
    mistakes.to_string()
}

#[test]
fn the_reference_files_are_the_defaults() {
    let text = include_str!("../../config/shipper.yaml");
    assert_eq!(shipper(text).unwrap(), shipper("").unwrap());
    let text = include_str!("../../config/collectord.yaml");
    assert_eq!(collectord(text).unwrap(), collectord("").unwrap());
}

/// The keys a text has, at any depth, comments aside.
fn keys(text: &str) -> Vec<&str> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim().trim_start_matches("- "))
        .filter_map(|line| line.split_once(':').map(|(key, _)| key))
        .collect()
}

#[test]
fn the_reference_files_name_every_key() {
    let (_, shipper) = read::parse_noting_keys(include_str!("../../config/shipper.yaml"), |root| {
        root.section(|section| Shipper::read(section, &host()))
    });
    let (_, collectord) = read::parse_noting_keys(include_str!("../../config/collectord.yaml"), |root| {
        root.section(|section| Collectord::read(section, &host()))
    });
    for (known, text) in [
        (shipper, include_str!("../../config/shipper.yaml")),
        (collectord, include_str!("../../config/collectord.yaml")),
    ] {
        let named = keys(text);
        for place in known.iter().filter(|place| !["members.file", "members.dns"].contains(&place.as_str())) {
            assert!(named.contains(&place.rsplit('.').next().unwrap()), "{place} is not in the reference");
        }
    }
}

#[test]
fn the_two_defaults_meet_on_one_machine() {
    let (Members::Static(asked), Members::Static(itself)) =
        (shipper("").unwrap().members, collectord("").unwrap().members)
    else {
        panic!("the defaults are lists");
    };
    assert_eq!(asked, itself);
    assert_eq!(asked[0].id.as_str(), "this-host");
    assert_eq!(asked[0].addr.to_string(), "127.0.0.1:7770");
}

#[test]
fn durations_and_sizes_have_units() {
    let relist = |text: &str| shipper(&format!("relist: {text}")).map(|config| config.relist);
    assert_eq!(relist("1500ms").unwrap(), Duration::from_millis(1500));
    assert_eq!(relist("2m").unwrap(), Duration::from_secs(120));
    for wrong in ["2", "2 m", "1m30s", "-1s", "1.5s", "s", "99999999999999999999s", "18446744073709551615h", "[2s]"] {
        assert!(the_mistake(relist(wrong)).contains("is not a duration"), "{wrong}");
    }
    assert_eq!(the_mistake(relist("11m")), "line 1, column 1: relist: 11m is out of bounds; write from 1s to 10m");
    let size =
        |text: &str| shipper(&format!("limits: {{max_message: {text}}}")).map(|config| config.limits.max_message);
    assert_eq!(size("64KiB").unwrap(), 65_536);
    assert_eq!(size("16MiB").unwrap(), 16_777_216);
    assert!(the_mistake(size("8MB")).contains("\"8MB\" is not a size; write a number and KiB, MiB or GiB"));
    assert!(the_mistake(size("1GiB")).contains("\"1GiB\" is out of bounds; write from 64KiB to 64MiB"));
}

#[test]
fn an_endpoint_can_be_switched_off() {
    assert_eq!(collectord("metrics: {listen: none}").unwrap().metrics, None);
    assert_eq!(collectord("api: {listen: '[::]:80'}").unwrap().api.unwrap().to_string(), "[::]:80");
}

#[test]
fn a_role_must_outlive_two_intervals_and_two_round_trips() {
    assert!(shipper("{interval: 5s, takeover_after: 11s}").is_ok());
    assert_eq!(
        the_mistake(shipper("interval: 5s")),
        "line 1, column 1: interval: takeover_after 3s is below 2 × interval 5s + 2 × max_round_trip 500ms; \
         write takeover_after: 11s or more"
    );
}

#[test]
fn members_come_from_one_source() {
    let dns = collectord("members: {dns: {name: tasks.collectord}}").unwrap().members;
    let expected = Dns {
        name: "tasks.collectord".into(),
        port: 7770,
        every: Duration::from_secs(5),
        misses: 3,
        wait_for_members: 1,
        wait_at_most: Duration::from_secs(30),
    };
    assert_eq!(dns, Members::Dns(expected));
    let file = shipper("members: {file: /etc/members.yaml}").unwrap().members;
    assert_eq!(file, Members::File("/etc/members.yaml".into()));
    assert_eq!(
        the_mistake(shipper("members:\n  file: /m.yaml\n  dns: {name: x}\n")),
        "line 1, column 1: members: several sources of members; keep one of static, file and dns"
    );
}

#[test]
fn a_members_file_is_read_like_the_section() {
    let members = parse_members("- {id: a, addr: 'h-1.example:1', node: n}\n- id: 2\n  addr: '[fd00::1]:2'\n").unwrap();
    let shown: Vec<String> = members.iter().map(|m| format!("{} {} {:?}", m.id, m.addr, m.node)).collect();
    assert_eq!(shown, ["a h-1.example:1 Some(n)", "2 [fd00::1]:2 None"]);
    assert!(the_mistake(parse_members("[]")).contains("no members"));
    assert!(the_mistake(parse_members("{a: b}")).contains("where a list belongs"));
    // On one machine an id may be guessed, in a file that many read it may not.
    assert_eq!(the_mistake(parse_members("- addr: 127.0.0.1:1")), "line 1, column 3: [0]: no `id`; add `id: …`");
}

#[test]
fn text_that_is_no_yaml_is_one_mistake_with_its_place() {
    let text = "interval: 1s\n\tlevel: all\n";
    assert!(the_mistake(shipper(text)).starts_with("line 2, column 1: "), "{}", the_mistake(shipper(text)));
    assert!(the_mistake(shipper("a: 1\n---\nb: 1\n")).contains("more than one document"));
    assert!(the_mistake(shipper("- a\n")).contains("a list where keys belong"));
    assert!(the_mistake(shipper(&"#".repeat(MAX_TEXT + 1))).contains("256 KiB"));
}

#[test]
fn a_log_filter_that_is_taken_is_one_that_tracing_takes() {
    for good in ["info", "off,swarmstats::router=debug", "warn,h2=error,swarmstats=trace"] {
        assert_eq!(&*shipper(&format!("log: {good}\n")).unwrap().log, good);
        assert!(tracing_subscriber::EnvFilter::try_new(good).is_ok(), "{good}");
    }
    // The last three are no filters to tracing either, the others mean something nobody wants.
    for bad in ["loud", "swarmstats", "=info", "info,", "a b=info", "a[{b=\"[\"}]=info", "a[b=info", "a=b=info"] {
        let mistake = the_mistake(shipper(&format!("log: '{bad}'\n")));
        assert!(mistake.starts_with("line 1, column 1: log: ") && mistake.contains("no log filter"), "{mistake}");
    }
}

#[test]
fn mistakes_are_told_up_to_a_bound() {
    let text: String = (0..80).map(|i| format!("nonsense{i}: 1\n")).collect();
    let mistakes = shipper(&text).unwrap_err();
    assert_eq!((mistakes.list.len(), mistakes.more), (50, 30));
    assert_eq!(mistakes.list[49].line, 50);
}

#[test]
fn a_slip_is_told_once_with_what_to_write() {
    for (text, expected) in [
        ("roles: router", "roles: \"router\" where a list belongs; write [a, b], or a `- ` line for each"),
        (
            "members: []",
            "members: a list where keys belong; write `static: [{id: c1, addr: 10.0.0.1:7770}]`, `file: /path` or `dns: {name: …}`",
        ),
        (
            "members: {dns: tasks.c}",
            "members.dns: \"tasks.c\" where keys belong; write `dns: {name: tasks.collectord}`",
        ),
        (
            "api: {listen: 127.0.0.1:7771}",
            "api.listen: the API (127.0.0.1:7771) and /metrics (127.0.0.1:7771) on one port; write another port, or none",
        ),
        (
            "metrics: {listen: 0.0.0.0:7770}",
            "metrics.listen: the API (127.0.0.1:7770) and /metrics (0.0.0.0:7770) on one port; write another port, or none",
        ),
        (
            "api: {listen: none}",
            "api.listen: a collector that nobody can send to; give it an address, or take `collector` out of `roles`",
        ),
        (
            "members: {wait_for_members: 3, static: [{id: host-1, addr: 10.0.0.1:7770}]}",
            "members.wait_for_members: only DNS is waited for; a list or a file names all members before any of them runs; take it out, or write it below `dns:`",
        ),
        (
            "members: {file: /m.yaml, wait_at_most: 9s}",
            "members.wait_at_most: only DNS is waited for; a list or a file names all members before any of them runs; take it out, or write it below `dns:`",
        ),
        (
            "members: {dns: {name: 'tasks.c:7770'}}",
            "members.dns.name: \"tasks.c:7770\" has a port in it; write `name: tasks.c` and `port: 7770`",
        ),
        (
            "members: {dns: {name: -bad..name}}",
            "members.dns.name: \"-bad..name\" is no name to look up; write one as in tasks.collectord",
        ),
        (
            "{member: a, members: {static: [{id: a, addr: 127.0.0.1:1}, {id: b, addr: 127.0.0.1:2}]}, api: {listen: 127.0.0.1:2}}",
            "api.listen: 127.0.0.1:2 is the address of member b; this is a, listed at 127.0.0.1:1; write `member: b`, or listen at 127.0.0.1:1",
        ),
        (
            "{member: c, members: {static: [{id: a, addr: 127.0.0.1:1}]}}",
            "member: this collector's id c is not among the members; list it, or write `member:` as it is listed",
        ),
        ("query_deadline: 0s", "query_deadline: 0s is out of bounds; write from 50ms to 1m"),
    ] {
        let mistake = the_mistake(collectord(text));
        assert!(mistake.ends_with(expected), "{text}: {mistake}");
    }
    assert!(collectord("{api: {listen: 127.0.0.1:1}, metrics: {listen: 127.0.0.2:1}}").is_ok());
    assert!(collectord("{roles: [router], api: {listen: none}, members: {file: /m}}").is_ok());
    let mistake = the_mistake(shipper("takeover_after: 1s"));
    assert!(mistake.contains("takeover_after: 1s is below"), "{mistake}");
}

mod any_text {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_config_or_mistakes_within_the_text(text in "[a-z:{}\\[\\]\"'#&*!|>\\- \n\t0-9]{0,200}") {
            for mistakes in [shipper(&text).err(), collectord(&text).err(), parse_members(&text).err()].into_iter().flatten() {
                for mistake in mistakes.list {
                    prop_assert!(mistake.line >= 1 && mistake.line <= text.lines().count() + 1, "{mistake}");
                }
            }
        }

        #[test]
        fn with_known_keys_too(
            keys in proptest::collection::vec(prop::sample::select(vec!["interval", "labels", "members", "static", "- id", "addr", "limits", "log"]), 0..12),
            values in proptest::collection::vec("[ ]{0,4}[a-z0-9:.,{}\\[\\]]{0,12}", 12),
        ) {
            let text: String = keys.iter().zip(values).map(|(key, value)| format!("{key}: {value}\n")).collect();
            for mistakes in [shipper(&text).err(), collectord(&text).err()].into_iter().flatten() {
                prop_assert!(mistakes.list.iter().all(|m| m.line <= text.lines().count() + 1), "{mistakes}");
            }
        }
    }
}

#[test]
fn what_comes_back_is_found_within_two_intervals() {
    let pause =
        |interval: &str| shipper(&format!("interval: {interval}\ntakeover_after: 1m\n")).unwrap().longest_pause();
    assert_eq!(pause("1s"), Duration::from_secs(2));
    assert_eq!(pause("100ms"), Duration::from_secs(1), "no need to hurry more than that");
    assert_eq!(pause("10s"), Duration::from_secs(5), "nobody shall wait long");
}
