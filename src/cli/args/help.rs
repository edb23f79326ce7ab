//! What `--help` tells beyond the flags: what is shown, examples, where routers are looked for, exit codes.

/// The points of a history where no number is given; clap wants a text.
pub(super) const HISTORY: &str = "30";

pub(super) const ALL: &str = "\
Without a command, names are services. TASKS k/n: k of n tasks are fresh and counted; `of m`: Swarm wants m.
Figures are docker stats': CPU 100% is one CPU (see --of); MEM is usage less the inactive page cache;
NET I/O is received / sent, BLOCK I/O read / written; -- could not be read, which is not zero.
AGE stands only where figures are not fresh, and is how old they are.
On a terminal the table is redrawn in place and fits it; elsewhere it is plain text, one after the other.
Sorted by a figure, a row of a live table moves when it exceeds another by a tenth, or for three answers on end.

Filters: KEY=VALUE or KEY!=VALUE of texts (name: a part of it; * and ? match), KEY>NUMBER of figures (also >= < <= =).
Filters of one key are alternatives, different keys must all hold. A wrong one is answered with all keys there are.

Templates are a part of Go's (no if, range, printf), as docker stats has them: {{.Name}} {{.ID}} {{.Container}} {{.CPUPerc}} {{.MemUsage}} {{.MemPerc}}
{{.NetIO}} {{.BlockIO}} {{.PIDs}}, ours ({{.Service}} {{.Node}} {{.Stack}} {{.Tasks}} {{.State}} {{.Health}} {{.Age}} …;
a wrong one is answered with all there are), json, upper, lower, title, split, join, pad, truncate, print, println, and |.
--format json is the router's own document on one line, with the rows of the table and numbers in base units.
--format csv has the same columns for every view, in base units; the first is the time of the answer.

Examples:
  docker swarmstats                                every service, live
  docker swarmstats web api --history              two services with their last values
  docker swarmstats ps web --all                   the tasks of one service, ended ones too
  docker swarmstats task --sort cpu --filter stack=shop --filter 'cpu>50'
  docker swarmstats node --no-stream --of node     every node, once
  docker swarmstats --format 'table {{.Name}}\\t{{.CPUPerc}}'
  docker swarmstats --format json | jq -c '.services[] | [.name, .figures.cpu_percent]'

The router is the first of these:
  --host; SWARMSTATS_HOST; plugins.swarmstats.host in Docker's config.json (plugins.swarmstats.format is the default
  format); port 7770 of the machine that docker -H, --context, DOCKER_HOST, DOCKER_CONTEXT or the current context names
  by tcp:// or ssh://; 127.0.0.1:7770; port 7770 of this swarm's managers as the local engine knows them.

Exit status:
  0   answered, nothing missing; or the live view was ended (Ctrl-C)
  1   no router there, or no answer that could be used; --count N: none N times on end
  2   no such service, task, node or stack, or more than one
  3   --no-stream or --count: answered, but not everything; the `incomplete:` lines say what is missing and why
  64  the command line was not understood";

pub(super) const TOP: &str = "\
NAMEs are services; a view (service, task, node, stack) as the first is where it begins. `?` lists the keys.
It needs a terminal, and leaves it as it found it, even when killed.

Examples:
  docker swarmstats top                   services, by name
  docker swarmstats top node --sort cpu   nodes, the busiest first
  docker swarmstats top task --rates --interval 2s";

pub(super) const SERVICE: &str = "\
Examples:
  docker swarmstats service web api        two services, live
  docker swarmstats service --sort mem     the greatest first
  docker swarmstats service --filter stack=shop --filter 'mem%>80' --no-stream
  docker swarmstats service --history=60   with the last 60 values of CPU and memory";

pub(super) const TASK: &str = "\
NAME is a task's id (4 characters are enough) or name, or a service's name: all its tasks.

Examples:
  docker swarmstats task web                       the tasks of one service
  docker swarmstats task 9mnp --no-trunc           one task
  docker swarmstats task --filter node=worker-3 --sort cpu
  docker swarmstats task --filter label=tier=front --rates";

pub(super) const NODE: &str = "\
NODE CPU and NODE MEM are the machine's own, whoever uses it; CPU % and MEM are sums over its tasks; RESERVED is what
Swarm has promised to tasks, of what there is. --wide: load, disk, swap, network, disks and pressure of the machine.

Examples:
  docker swarmstats node                      every node, live
  docker swarmstats node worker-3 --wide      one, with all there is of the machine
  docker swarmstats node --sort load --no-stream";

pub(super) const STACK: &str = "\
Examples:
  docker swarmstats stack                     every stack, live
  docker swarmstats stack shop --format csv --no-stream";

pub(super) const PS: &str = "\
UP is for how long a task has been running, by this machine's clock.

Examples:
  docker swarmstats ps web                    the tasks of web
  docker swarmstats ps web --all              ended ones too, with exit code and OOM
  docker swarmstats ps web --filter health=unhealthy --no-stream";

pub(super) const COMPLETION: &str = "\
Docker's own completion asks the plugin by itself: `docker swarmstats <TAB>` needs no script of ours.

Examples:
  docker-swarmstats completion bash > /etc/bash_completion.d/docker-swarmstats
  docker-swarmstats completion zsh > \"${fpath[1]}/_docker-swarmstats\"
  docker-swarmstats completion fish > ~/.config/fish/completions/docker-swarmstats.fish";
