//! `docker-swarmstats`: the Docker CLI plugin, which is also a command of its own.

use std::process::ExitCode;
use swarmstats::cli::{self, args};

fn main() -> ExitCode {
    // Docker runs every plugin for each `docker --help`: what needs no router is answered before there is a runtime.
    let command = match args::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(early) => return early.say(),
    };
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(cli::run(&command));
            runtime.shutdown_background(); // a name lookup that hangs is not waited for
            code
        }
        Err(why) => {
            eprintln!("docker-swarmstats: cannot start: {why}");
            ExitCode::FAILURE
        }
    }
}
