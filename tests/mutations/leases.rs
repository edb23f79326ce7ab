//! Rules 14 to 17: at most one process emits a key at any moment (L3).

use crate::fixture::*;
use crate::{Checked, emitting, needs, violated};
use std::sync::Arc;
use swarmstats::aggregate::Stored;
use swarmstats::message::Batch;
use swarmstats::model::{Key, MemberId, TaskId, TaskMeta};
use swarmstats::outbox::Outbox;
use swarmstats::rules::Rule;

/// Two copies of each key, and a task that the first owner emits.
struct Pair {
    swarm: Swarm,
    burn: Arc<TaskMeta>,
    first: MemberId,
    second: MemberId,
}

fn key(task: &TaskMeta) -> Key {
    Key::Task(TaskId::new(task.task_id.as_str()).unwrap())
}

impl Pair {
    fn new(replicas: u8) -> Pair {
        let (mut swarm, burn) = (Swarm::with_replicas(&["a", "b"], replicas), task("t1", "burn", 1));
        for value in [100, 101] {
            swarm.round(vec![cpu(&burn, value)]);
        }
        let owners: Vec<MemberId> = ring(&["a", "b"]).owners_and_reserve(&key(&burn)).cloned().collect();
        let (first, second) = (owners[0].clone(), owners[1].clone());
        assert_eq!(emitting(&swarm, &key(&burn)), std::slice::from_ref(&first));
        Pair { swarm, burn, first, second }
    }

    /// The first owner freezes with a batch in its socket that it will read when it thaws.
    fn freeze_first(&mut self) -> Batch {
        self.swarm.observe(vec![cpu(&self.burn, 102)], vec![]);
        let batch = self.swarm.outbox.next_batch(&self.first, self.swarm.now).unwrap();
        self.swarm.tell_one(&self.second);
        batch
    }

    /// So many rounds that only the second owner hears of.
    fn rounds_without_first(&mut self, n: u64) {
        for value in 0..n {
            self.swarm.observe(vec![cpu(&self.burn, 110 + value)], vec![]);
            self.swarm.tell_one(&self.second);
        }
    }

    /// L3, now.
    fn one_emitter(&self) -> Checked {
        match emitting(&self.swarm, &key(&self.burn)) {
            emitting if emitting.len() > 1 => violated(format!("L3: the task is emitted by {emitting:?}")),
            _ => Ok(()),
        }
    }

    fn is_emitted_by(&self, member: &MemberId) -> bool {
        emitting(&self.swarm, &key(&self.burn)) == std::slice::from_ref(member)
    }
}

#[test]
fn rule_14_a_lease_is_counted_from_the_echoed_token_not_from_arrival() {
    needs(Rule::EchoedToken, || {
        let mut pair = Pair::new(2);
        let batch = pair.freeze_first();
        pair.rounds_without_first(10);
        assert!(pair.is_emitted_by(&pair.second), "it took over");
        // The first thaws, and reads "you are primary" from its queue.
        let stream = pair.swarm.stream(&pair.first);
        pair.swarm.collectors.get_mut(&pair.first).unwrap().batch(&stream, &batch, pair.swarm.now).unwrap();
        pair.one_emitter()
    });
}

#[test]
fn rule_15_at_a_ring_change_the_new_owner_waits_for_the_old_one() {
    needs(Rule::WaitForHolder, || {
        let mut pair = Pair::new(1);
        pair.swarm.outbox.set_ring(ring(&[pair.second.as_str()]));
        // The new owner is told first, while nothing reaches the old one and its lease goes on.
        pair.rounds_without_first(1);
        pair.one_emitter()?;
        pair.swarm.tell();
        pair.rounds_without_first(1);
        assert!(pair.is_emitted_by(&pair.second), "once the old one has heard, it goes on at the new one");
        Ok(())
    });
}

#[test]
fn rule_16_a_new_shipper_waits_for_the_leases_of_the_one_before_it() {
    needs(Rule::WaitAfterStart, || {
        let mut pair = Pair::new(1);
        // The shipper dies; the next one sees another ring, and reaches the new owner at once.
        let cfg = swarmstats::outbox::OutboxConfig {
            started: STARTED + 60_000,
            started_monotonic: pair.swarm.now,
            ..shipper_of("n1", 2)
        };
        pair.swarm.outbox = Outbox::new(cfg, ring(&[pair.second.as_str()]));
        pair.swarm.open(&pair.second).unwrap();
        pair.rounds_without_first(1);
        pair.one_emitter()?;
        pair.rounds_without_first(4);
        assert!(pair.is_emitted_by(&pair.second), "after L");
        Ok(())
    });
}

#[test]
fn rule_17_whoever_was_last_told_to_emit_is_told_to_stop() {
    needs(Rule::Revoke, || {
        let mut pair = Pair::new(2);
        let batch = pair.freeze_first();
        pair.rounds_without_first(10);
        // The first thaws on the same stream, acknowledges, and gets a batch with a fresh token.
        let (stream, now) = (pair.swarm.stream(&pair.first), pair.swarm.now);
        let stored = pair.swarm.collectors.get_mut(&pair.first).unwrap().batch(&stream, &batch, now).unwrap();
        let Stored::Acked { ack, .. } = stored else { panic!("{stored:?}") };
        pair.swarm.outbox.acked(&pair.first, stream.k, &ack, now);
        pair.swarm.observe(vec![cpu(&pair.burn, 130)], vec![]);
        pair.swarm.tell_one(&pair.first);
        pair.one_emitter()?;
        for value in [131, 132] {
            pair.swarm.round(vec![cpu(&pair.burn, value)]);
            pair.one_emitter()?;
        }
        assert!(pair.is_emitted_by(&pair.first), "it is the first owner, and gets it back");
        Ok(())
    });
}
