//! The shipper under systemd, by the project's own unit file.

use crate::record::Record;

#[test]
fn the_unit_runs_as_nobody_in_particular_and_without_any_right() {
    let record = Record::of("systemd");
    let unit = record.text("unit");
    let property = |name: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    assert_eq!((property("ActiveState"), property("SubState")), ("active".into(), "running".into()));
    assert_eq!(property("NRestarts"), "0");
    assert_eq!(property("UnitFileState"), "enabled");
    assert!(property("After").contains("docker.service"), "{}", property("After"));
    let status = record.text("shipper.status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        line.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    println!("Uid {}, CapEff {}, Seccomp {}", field("Uid"), field("CapEff"), field("Seccomp"));
    assert!(!field("Uid").split('\t').any(|user| user == "0"), "{}", field("Uid"));
    for capabilities in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(capabilities).trim_start_matches('0'), "", "{capabilities}");
    }
    assert_eq!((&*field("NoNewPrivs"), &*field("Seccomp")), ("1", "2"));
}

#[test]
fn systemd_has_nothing_against_the_unit_file() {
    let record = Record::of("systemd");
    let (verify, security) = (record.text("verify"), record.text("security"));
    println!("{security}");
    assert!(!verify.contains("swarmstats-shipper"), "{verify}");
    let overall = security.lines().find(|line| line.contains("Overall exposure level")).expect("a verdict");
    // 0 is nothing, 10 everything.
    let exposure: f64 = overall.split_whitespace().find_map(|word| word.parse().ok()).expect("a level");
    assert!(exposure < 2.5, "{overall}");
}
