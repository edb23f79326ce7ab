//! Completion as Docker's command asks for it: `__complete swarmstats WORDS… BEGINNING`.

use crate::fake::{Does, FakeRouter, INCOMPLETE, SERVICES, code, swarmstats, text};
use std::time::{Duration, Instant};

/// The lines of the answer to a command line; its last word is what is typed so far.
fn complete(router: &FakeRouter, asked: &str, words: &[&str]) -> Vec<String> {
    let output = router.client(asked).arg("swarmstats").args(words).output().unwrap();
    assert_eq!((text(&output.stderr), code(&output)), ("", 0));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn commands_flags_values_and_names_are_completed() {
    let router = FakeRouter::start(|path| {
        Does::Answer("200 OK", if path.starts_with("/v1/tasks") { INCOMPLETE } else { SERVICES }.into())
    });
    let of = |words: &[&str]| complete(&router, "__complete", words);
    assert_eq!(of(&["st"]), ["stack\tSums over each stack's tasks", ":4"]);
    assert_eq!(of(&["we"]), ["web\tservice", ":4"]);
    assert_eq!(of(&["task", "9"]), ["9mnpnzenvg8p\tweb.1.9mnpnzenvg8p8tdbtq4wvbkcz", ":4"]);
    assert_eq!(of(&["task", "--no-s"]), ["--no-stream\tPrint one answer and exit", ":4"]);
    assert_eq!(of(&["--sort", "thr"]), ["throttled", ":4"]);
    assert_eq!(of(&["--sort=thr"]), ["throttled", ":4"]);
    assert_eq!(of(&["--filter", "hea"]), [":6"], "services have no health");
    assert_eq!(of(&["task", "--filter", "hea"]), ["health=", ":6"]);
    assert_eq!(of(&["task", "--filter", "service=w"]), ["service=web\tservice", ":4"]);
    assert_eq!(complete(&router, "__completeNoDesc", &["ps", "a"]), ["api", ":4"]);
}

#[test]
fn a_router_that_keeps_silent_costs_half_a_second_and_no_message() {
    let router = FakeRouter::start(|_| Does::Nothing);
    let start = Instant::now();
    assert_eq!(complete(&router, "__complete", &["ps", ""]), [":4"]);
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    let output = swarmstats("__complete swarmstats --of n").output().unwrap();
    assert_eq!(text(&output.stdout), "node\n:4\n");
}
