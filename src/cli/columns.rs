//! Which columns a view shows.
//!
//! docker stats' figures in its order, before them what a row is, after them what was asked for besides. A node's are the
//! machine's first, as they are why one looks at nodes, and give way last. Columns that only some swarms can fill (a
//! machine's own figures, what is reserved) stand only where one row has them. Pure.

use crate::cli::field::{self, Field};
use crate::cli::row::Row;
use crate::cli::view::{Base, View};

/// What to show of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Show {
    /// What the rows are.
    pub view: View,
    /// What CPU % is of.
    pub of: Base,
    /// Network and block I/O per second instead of since the start.
    pub rates: bool,
    /// Swap, throttling, pressure, OOM kills and restarts besides.
    pub wide: bool,
    /// Ended tasks too.
    pub all: bool,
    /// Ids and names in full.
    pub no_trunc: bool,
    /// A history of so many points.
    pub history: Option<usize>,
}

impl Show {
    /// The columns for these rows, from left to right.
    pub fn columns(&self, rows: &[Row]) -> Vec<&'static Field> {
        let mut columns: Vec<&'static Field> = match self.view {
            View::Service | View::Stack => vec![&field::NAME, &field::TASKS],
            View::Task => vec![&field::TASK_ID, &field::NAME, &field::NODE],
            View::Node if rows.iter().any(|row| row.status.is_some()) => {
                vec![&field::NAME, &field::STATUS, &field::TASKS]
            }
            View::Node => vec![&field::NAME, &field::TASKS],
            View::Ps => {
                vec![&field::ID, &field::NAME, &field::NODE, &field::STATE, &field::HEALTH, &field::UP]
            }
        };
        if rows.iter().any(|row| row.exit_code.is_some()) {
            columns.push(&field::EXIT);
        }
        if self.machines(rows) {
            columns.extend([&field::NODE_CPU, &field::NODE_MEM]);
        }
        columns.push(match self.of {
            Base::Cpu => &field::CPU,
            Base::Node => &field::CPU_OF_NODE,
            Base::Limit => &field::CPU_OF_LIMIT,
        });
        columns.push(if self.view == View::Node { &field::MEM_ON_NODE } else { &field::MEM });
        columns.push(&field::MEM_PERCENT);
        columns.extend(if self.rates { [&field::NET_RATE, &field::BLOCK_RATE] } else { [&field::NET, &field::BLOCK] });
        columns.push(&field::PIDS);
        if self.history.is_some() {
            columns.extend([&field::CPU_HISTORY, &field::MEM_HISTORY]);
        }
        if self.view == View::Node {
            self.of_machines(rows, &mut columns);
        }
        if self.wide {
            columns.extend([&field::SWAP, &field::THROTTLED]);
            if !self.machines(rows) {
                columns.extend([&field::PSI_CPU, &field::PSI_MEM, &field::PSI_IO]);
            }
            columns.extend([&field::OOM, &field::RESTARTS]);
        }
        // A list of tasks says it with their states.
        if self.view != View::Ps && rows.iter().any(|row| row.stale().is_some()) {
            columns.push(&field::AGE);
        }
        columns
    }

    /// Whether these are machines with figures of their own.
    fn machines(&self, rows: &[Row]) -> bool {
        self.view == View::Node && rows.iter().any(|row| row.machine.figures.cpu_percent_of_node.is_some())
    }

    fn of_machines(&self, rows: &[Row], columns: &mut Vec<&'static Field>) {
        if rows.iter().any(|row| row.reserved.cpu_cores.is_some() || row.reserved.memory_bytes.is_some()) {
            columns.extend([&field::RESERVED_CPU, &field::RESERVED_MEM]);
        }
        if self.wide && self.machines(rows) {
            columns.extend([&field::LOAD, &field::DISK, &field::NODE_SWAP, &field::NODE_NET, &field::NODE_BLOCK]);
            columns.extend([&field::NODE_PSI_CPU, &field::NODE_PSI_MEM, &field::NODE_PSI_IO]);
        }
    }
}
