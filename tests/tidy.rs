//! The house keeps its own rules: layers, file heads, sizes, where a package may be named, and that each is really used.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers, lowest first; a module may use its own layer and those before it.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "rules",
            "stat",
            "model",
            "message",
            "view",
            "swarm",
            "codec",
            "shard",
            "outbox",
            "aggregate",
            "join",
            "figures",
            "subscriptions",
            "config",
        ],
    ),
    ("adapters", &["wire", "json", "status", "metrics", "retry"]),
    (
        "shell",
        &[
            "clock",
            "serve",
            "discovery",
            "router",
            "source",
            "manager",
            "collector",
            "shipper",
            "grpc",
            "http",
            "scrape",
            "collectord",
            "shipperd",
            "cli",
        ],
    ),
];

fn sources(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A file's code: without comments, and without its unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn module(path: &Path) -> String {
    let first = path.strip_prefix("src").unwrap().iter().next().unwrap().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_string()
}

fn layer(module: &str) -> usize {
    let place = LAYERS.iter().position(|(_, modules)| modules.contains(&module));
    place.unwrap_or_else(|| panic!("module {module} is in no layer: add it to tests/tidy.rs and ARCHITECTURE.md"))
}

/// `crate::a` and the first words of `crate::{a, b}`.
fn used(code: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut start = true;
            for (place, c) in list.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => start = true,
                    c if c.is_whitespace() => {}
                    _ if start && depth == 0 => {
                        found.push(word(&list[place..]));
                        start = false;
                    }
                    _ => {}
                }
            }
        } else {
            found.push(word(rest));
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

#[test]
fn imports_point_down_only() {
    let mut wrong = Vec::new();
    for path in sources("src").into_iter().filter(|path| path != Path::new("src/lib.rs")) {
        let from = module(&path);
        for to in used(&code(&path)).into_iter().filter(|to| *to != from) {
            let is_module = LAYERS.iter().any(|(_, modules)| modules.contains(&to.as_str()));
            if is_module && layer(&to) > layer(&from) {
                wrong.push(format!(
                    "{}: {from} ({}) uses {to} ({})",
                    path.display(),
                    LAYERS[layer(&from)].0,
                    LAYERS[layer(&to)].0
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows point up:\n{}", wrong.join("\n"));
}

#[test]
fn the_core_has_no_io_clock_randomness_or_async() {
    let banned = [
        "std::fs",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "std::time::Instant",
        "SystemTime",
        "tokio::",
        "async ",
        ".await",
        "rand::",
        "std::env",
        "HashMap",
        "HashSet",
    ];
    let mut wrong = Vec::new();
    for path in sources("src").into_iter().filter(|path| path != Path::new("src/lib.rs")) {
        if layer(&module(&path)) == 0 {
            let code = code(&path);
            wrong.extend(
                banned.iter().filter(|word| code.contains(**word)).map(|word| format!("{}: {word}", path.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "the core is not pure:\n{}", wrong.join("\n"));
}

#[test]
fn every_file_opens_with_its_sentence_and_is_small() {
    let mut wrong = Vec::new();
    for path in [sources("src"), sources("bin"), sources("tests"), sources("benches")].concat() {
        let text = fs::read_to_string(&path).unwrap();
        if !text.starts_with("//! ") {
            wrong.push(format!("{} does not open with its sentence (`//! …`)", path.display()));
        }
        let lines = text.split("\n#[cfg(test)]\n").next().unwrap_or_default().lines().count();
        // A module of tests is all tests.
        if path.starts_with("src") && !path.ends_with("tests.rs") && lines > 460 {
            wrong.push(format!("{} has {lines} lines before its tests", path.display()));
        }
    }
    for bin in ["bin/collectord.rs", "bin/shipper.rs", "bin/docker-swarmstats.rs"] {
        let lines = fs::read_to_string(bin).unwrap().lines().count();
        if lines >= 100 {
            wrong.push(format!("{bin} has {lines} lines, a bin has fewer than 100"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The user's eight packages, with where each may be named and a call site that must be there.
const PACKAGES: &[(&str, &[&str], &str)] = &[
    ("tokio", &[], "tokio::select!"),
    ("tonic", &["src/grpc", "src/wire", "src/grpc.rs", "src/wire.rs"], "tonic::async_trait"),
    ("prost", &["src/grpc", "src/wire", "src/grpc.rs", "src/wire.rs"], "prost::Message::encoded_len"),
    ("hashring", &["src/shard.rs"], "hashring::HashRing"),
    ("prometheus", &["src/metrics"], "prometheus::core::"),
    ("serde_yaml", &["src/config"], "serde_yaml::"),
    ("tracing", &[], "tracing::warn!"),
    ("backoff", &["src/retry.rs"], "backoff::"),
];

#[test]
fn each_package_is_really_used_and_named_where_it_may_be() {
    let files: BTreeMap<PathBuf, String> = sources("src").into_iter().map(|path| (path.clone(), code(&path))).collect();
    for (package, places, call) in PACKAGES {
        let named = |code: &&String| {
            code.match_indices(&format!("{package}::"))
                .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'))
        };
        assert!(files.values().any(|code| code.contains(call)), "{package} is not used: no `{call}` in src");
        if places.is_empty() {
            continue;
        }
        let strays: Vec<_> = files
            .iter()
            .filter(|(path, code)| !places.iter().any(|place| path.starts_with(place)) && named(code))
            .map(|(path, _)| path.display().to_string())
            .collect();
        assert!(strays.is_empty(), "{package} is named in {strays:?}; it belongs to {places:?}");
    }
}

#[test]
fn nothing_committed_names_a_registry_host_or_a_path_of_a_machine() {
    let listed = std::process::Command::new("git").args(["ls-files"]).output().unwrap();
    assert!(listed.status.success(), "git lists the files");
    // Written apart, so that this file is none of its own findings.
    let banned =
        [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("crates.", "io/"), concat!("deb.debian", ".org")];
    let mut wrong = Vec::new();
    for path in String::from_utf8(listed.stdout).unwrap().lines().filter(|path| *path != "Cargo.lock") {
        let Ok(text) = fs::read_to_string(path) else { continue };
        wrong.extend(banned.iter().filter(|word| text.contains(**word)).map(|word| format!("{path}: {word}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_test_target_is_a_suite_of_dev() {
    let dev = fs::read_to_string("dev").unwrap();
    let missing: Vec<_> = fs::read_dir("tests")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "rs"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| !dev.contains(&format!("--test {name}")))
        .collect();
    assert!(missing.is_empty(), "./dev test runs all tests, but not {missing:?}");
}

/// The ids in the names of all test functions: `fn b041_b049_…`.
fn named_faults() -> std::collections::BTreeSet<String> {
    let is_id = |word: &&str| {
        let digits = word.strip_prefix(['b', 'p']).unwrap_or_default();
        (2..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit())
    };
    let mut found = std::collections::BTreeSet::new();
    for path in [sources("src"), sources("tests")].concat() {
        for line in fs::read_to_string(path).unwrap().lines() {
            let name = line.trim_start().trim_start_matches("async ").strip_prefix("fn ").unwrap_or_default();
            found.extend(name.split('_').take_while(is_id).map(str::to_owned));
        }
    }
    found
}

#[test]
fn every_known_fault_of_others_has_a_test_that_names_it() {
    let list = fs::read_to_string("tests/data/faults.txt").unwrap();
    let lines = || list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pending: Vec<&str> = lines().filter_map(|line| line.strip_prefix("pending ")).collect();
    let known: Vec<&str> =
        lines().filter(|line| !line.starts_with("pending ")).map(|line| line.split(' ').next().unwrap()).collect();
    assert!(pending.iter().all(|id| known.contains(id)), "pending names what is no row");
    println!("rows whose tests are still to come: {pending:?}");
    let named = named_faults();
    let missing: Vec<_> = known.iter().filter(|id| !named.contains(**id) && !pending.contains(id)).collect();
    assert!(missing.is_empty(), "no test is named after {missing:?}");
    let done: Vec<_> = pending.iter().filter(|id| named.contains(**id)).collect();
    assert!(done.is_empty(), "{done:?} have their tests: take their `pending` lines out of tests/data/faults.txt");
    let strange: Vec<_> = named.iter().filter(|id| !known.contains(&id.as_str())).collect();
    assert!(strange.is_empty(), "tests name {strange:?}, which are no rows of tests/data/faults.txt");
}
