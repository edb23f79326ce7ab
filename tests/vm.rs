//! The real shipper on real kernels with cgroup v2, in two emulated machines: figures beside `docker stats`, the engine's
//! own records and the kernel's files. `./dev vm run` runs the machines, `cargo test --test vm -- --nocapture` judges
//! what they recorded; lab/vm.sh says what the machines are, lab/vm/guest.sh what runs in them and how it is recorded.
#![allow(clippy::unwrap_used)]

#[path = "vm/docker.rs"]
mod docker;
#[path = "vm/kernel.rs"]
mod kernel;
#[path = "vm/record.rs"]
mod record;

#[path = "vm/figures.rs"]
mod figures;
#[path = "vm/kinds.rs"]
mod kinds;
#[path = "vm/unit.rs"]
mod unit;
