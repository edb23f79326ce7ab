//! Running the doctor, and fakes.

use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Nobody listens there.
pub(crate) const NOWHERE: &str = "http://127.0.0.1:9";

/// What the doctor found.
pub(crate) struct Found {
    pub(crate) findings: Vec<Value>,
    pub(crate) code: i32,
}

impl Found {
    /// The finding of a code.
    pub(crate) fn of(&self, code: &str) -> Option<&Value> {
        self.findings.iter().find(|finding| finding["code"] == code)
    }

    /// Checks that a fault is named, with why and remedy, and that what it says has these words; gives its text.
    #[track_caller]
    pub(crate) fn names(&self, code: &str, severity: &str, words: &[&str]) {
        let finding = self.of(code).unwrap_or_else(|| panic!("no {code} in {:#?}", self.findings));
        assert_eq!(finding["severity"], severity, "{finding:#}");
        let said = |key: &str| finding[key].as_str().unwrap_or_default();
        assert!(!said("why").is_empty() && !said("remedy").is_empty(), "{finding:#}");
        words.iter().for_each(|word| assert!(said("what").contains(word), "{word}: {finding:#}"));
        if severity == "fail" {
            assert_eq!(self.code, 1, "something failed");
        }
    }

    #[track_caller]
    pub(crate) fn lacks(&self, code: &str) {
        assert_eq!(self.of(code), None);
    }
}

/// The real command, with nothing of this test's environment that it listens to.
pub(crate) fn command(program: &Path, line: &str) -> Command {
    let mut command = Command::new(program);
    for name in ["SWARMSTATS_HOST", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CLI_PLUGIN_SOCKET", "DOCKER_API_VERSION"] {
        command.env_remove(name);
    }
    command
        .env("DOCKER_CONFIG", "/nowhere")
        .args(["doctor", "--format", "json"])
        .args(line.split_whitespace())
        .stdin(Stdio::null());
    command
}

/// Runs it; whatever hangs, it is done within 5 s.
pub(crate) async fn doctor(line: &str) -> Found {
    found(command(Path::new(env!("CARGO_BIN_EXE_docker-swarmstats")), line)).await
}

pub(crate) async fn found(mut command: Command) -> Found {
    let begun = Instant::now();
    // Fakes of this test answer meanwhile.
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    // A second on top for a machine that is busy with other tests.
    assert!(begun.elapsed() < Duration::from_secs(6), "it took {:?}", begun.elapsed());
    let said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    Found { findings: said["findings"].as_array().unwrap().clone(), code: output.status.code().unwrap() }
}

/// A fake that answers every request alike: a status line's rest, headers, a body.
pub(crate) async fn fake(status: &str, headers: &str, body: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer =
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                // Whoever hangs up first may.
                let _read = stream.read(&mut [0; 4096]).await;
                let _written = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    address
}
