//! What the rows of a table can be, and what CPU % can be of. Pure.

use crate::json::What;
use clap::ValueEnum;

/// What the rows are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum View {
    /// Sums over a service's tasks.
    #[default]
    Service,
    /// Single tasks.
    Task,
    /// Sums over the tasks of a node, and the node itself.
    Node,
    /// Sums over the tasks of a stack.
    Stack,
    /// The tasks of services, as `docker service ps` lists them.
    Ps,
}

impl View {
    /// All of them.
    pub const ALL: [View; 5] = [View::Service, View::Task, View::Node, View::Stack, View::Ps];

    /// What a router is asked for.
    pub fn what(self) -> What {
        match self {
            View::Service => What::Services,
            View::Task | View::Ps => What::Tasks,
            View::Node => What::Nodes,
            View::Stack => What::Stacks,
        }
    }

    /// A row, in one word.
    pub fn word(self) -> &'static str {
        self.what().singular()
    }

    /// The command that shows it.
    pub fn command(self) -> &'static str {
        if self == View::Ps { "ps" } else { self.word() }
    }

    /// Whether a row is a single task.
    pub fn is_of_tasks(self) -> bool {
        matches!(self, View::Task | View::Ps)
    }
}

/// What CPU % is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum Base {
    /// One CPU, as docker stats has it: 100 % is one CPU busy.
    #[default]
    Cpu,
    /// All CPUs of the node.
    Node,
    /// The tasks' own CPU limits.
    Limit,
}
