//! Where the router is looked for: flags, the environment, Docker's configuration, and the engine of a manager.

use crate::fake::{FakeRouter, SERVICES, SERVICES_TABLE, code, swarmstats, text};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A configuration folder of Docker, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn with(name: &str, config: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("swarmstats-hosts-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("config.json"), config).unwrap();
        Folder(folder)
    }

    fn run(&self, line: &str) -> Command {
        let mut command = swarmstats(line);
        command.env("DOCKER_CONFIG", &self.0);
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn dockers_config_names_the_router_and_the_format() {
    let router = FakeRouter::saying("200 OK", SERVICES);
    let config = format!(
        r#"{{"auths": {{}}, "plugins": {{"swarmstats": {{"host": "http://{}", "format": "{{{{.Name}}}} {{{{.PIDs}}}}"}}}}}}"#,
        router.address
    );
    let folder = Folder::with("config", &config);
    let output = folder.run("--no-stream").output().unwrap();
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("api 10\nweb 2\n", ""));
    let output = folder.run("--no-stream --format table").output().unwrap();
    let said = format!("{SERVICES_TABLE}\nasked http://{}, which Docker's config.json names\n", router.address);
    assert_eq!(text(&output.stdout), said, "a flag wins, and the footer says whom it asked");

    let other = FakeRouter::saying("200 OK", SERVICES);
    folder.run("--no-stream").env("SWARMSTATS_HOST", format!("http://{}", other.address)).output().unwrap();
    folder.run(&format!("--no-stream --host http://{}", other.address)).output().unwrap();
    assert_eq!((router.asked().len(), other.asked().len()), (2, 2), "flag and environment win");
}

#[test]
fn a_broken_setting_is_said_and_is_exit_code_64() {
    for (name, config, said) in [
        ("json", "{", "config.json: EOF"),
        (
            "host",
            r#"{"plugins": {"swarmstats": {"host": "r:1"}}}"#,
            "plugins.swarmstats.host in Docker's config.json is \"r:1\"",
        ),
        ("format", r#"{"plugins": {"swarmstats": {"format": "{{.Nope}}"}}}"#, "at character 3: there is no .Nope"),
    ] {
        let output = Folder::with(name, config).run("--no-stream").output().unwrap();
        assert!(text(&output.stderr).contains(said), "{name}: {output:?}");
        assert_eq!(code(&output), 64, "{name}");
    }
}

/// Nothing listens at port 7770 of these addresses of documentation and loopback; the message says who was meant.
#[test]
fn the_router_is_beside_the_engine_docker_is_set_to_use() {
    let meant = |command: &mut Command| {
        let output = command.output().unwrap();
        let said = text(&output.stderr).to_owned();
        said.split(": ").nth(1).unwrap().replace("cannot reach a router at ", "")
    };
    let folder = Folder::with("context", r#"{"currentContext": "prod"}"#);
    let meta = folder.0.join("contexts/meta/00");
    fs::create_dir_all(&meta).unwrap();
    let context = r#"{"Name": "prod", "Metadata": {}, "Endpoints": {"docker": {"Host": "ssh://ops@127.0.0.77"}}}"#;
    fs::write(meta.join("meta.json"), context).unwrap();
    assert_eq!(meant(&mut folder.run("--no-stream")), "http://127.0.0.77:7770", "the current context");
    let mut command = folder.run("--no-stream");
    assert_eq!(meant(command.env("DOCKER_HOST", "tcp://127.0.0.78:2376")), "http://127.0.0.78:7770");
    let mut command = folder.run("-H tcp://127.0.0.79:2376 swarmstats --no-stream");
    assert_eq!(meant(command.env("DOCKER_HOST", "tcp://127.0.0.78:2376")), "http://127.0.0.79:7770", "docker -H");
}

#[test]
fn a_context_that_is_none_shows_no_other_swarm() {
    let folder = Folder::with("no-context", "{}");
    for line in ["--context prdo swarmstats --no-stream", "-cprdo swarmstats --no-stream"] {
        let output = folder.run(line).output().unwrap();
        let said = text(&output.stderr);
        assert!(said.starts_with("docker-swarmstats: context \"prdo\" not found in "), "{line}: {said}");
        assert_eq!(code(&output), 64, "{line}");
    }
}
