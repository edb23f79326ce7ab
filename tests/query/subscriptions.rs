//! What one GetStats stream is subscribed to: pushes at the asked interval, none after removal.

use crate::fixtures::*;
use swarmstats::subscriptions::{SubscribeError, Subscription, Subscriptions};
use swarmstats::view::{Ask, AskError, MAX_SELECTORS, Scope, Selector};

const MS: u64 = 1_000_000;

fn every(interval: u64, id: u64) -> Subscription {
    Subscription { id, ask: service("burn"), scope: Scope::Cluster, interval }
}

fn due(subscriptions: &mut Subscriptions, now: u64) -> Vec<u64> {
    std::iter::from_fn(|| subscriptions.due(now)).map(|push| push.id).collect()
}

#[test]
fn the_first_push_is_due_at_once_and_the_next_at_the_interval() {
    let mut subscriptions = Subscriptions::new(64);
    subscriptions.add(every(500, 1), NOW).unwrap();
    assert_eq!(due(&mut subscriptions, NOW), [1]);
    assert_eq!(subscriptions.next_due(), Some(NOW + 500 * MS));
    assert!(due(&mut subscriptions, NOW + 499 * MS).is_empty());
    // Answered late; the next is due as if it had not been.
    assert_eq!(due(&mut subscriptions, NOW + 530 * MS), [1]);
    assert_eq!(subscriptions.next_due(), Some(NOW + 1_000 * MS));
}

#[test]
fn time_that_was_slept_through_is_not_made_up_for() {
    let mut subscriptions = Subscriptions::new(64);
    subscriptions.add(every(100, 1), NOW).unwrap();
    assert_eq!(due(&mut subscriptions, NOW + 60 * SECOND + 50 * MS), [1]);
    assert_eq!(subscriptions.next_due(), Some(NOW + 60 * SECOND + 100 * MS), "one push, and on at the old beat");
}

#[test]
fn nothing_is_due_after_a_removal() {
    let mut subscriptions = Subscriptions::new(64);
    subscriptions.add(every(100, 1), NOW).unwrap();
    subscriptions.add(every(200, 2), NOW).unwrap();
    assert_eq!(due(&mut subscriptions, NOW), [1, 2]);
    assert!(subscriptions.remove(1) && !subscriptions.remove(1));
    assert_eq!(due(&mut subscriptions, NOW + SECOND), [2]);
    assert!(subscriptions.contains(2) && !subscriptions.contains(1));
}

#[test]
fn interval_zero_is_answered_once() {
    let mut subscriptions = Subscriptions::new(64);
    subscriptions.add(every(0, 3), NOW).unwrap();
    let push = subscriptions.due(NOW).unwrap();
    assert!(push.done && push.ask == service("burn"));
    assert_eq!((subscriptions.next_due(), subscriptions.contains(3)), (None, false));
}

#[test]
fn an_id_added_again_is_replaced() {
    let mut subscriptions = Subscriptions::new(64);
    subscriptions.add(every(60_000, 1), NOW).unwrap();
    due(&mut subscriptions, NOW);
    subscriptions.add(Subscription { ask: everything(), ..every(100, 1) }, NOW + SECOND).unwrap();
    let push = subscriptions.due(NOW + SECOND).unwrap();
    assert_eq!((push.ask, subscriptions.due(NOW + SECOND)), (everything(), None));
}

#[test]
fn what_is_no_question_is_refused() {
    let mut subscriptions = Subscriptions::new(64);
    let mut add = |ask: Ask, interval| subscriptions.add(Subscription { ask, ..every(interval, 1) }, NOW).unwrap_err();
    let empty = Selector::default();
    assert_eq!(add(Ask::of(Vec::new()), 0), SubscribeError::Ask(AskError::Empty));
    let one_empty = Ask::of(vec![Selector::everything(), empty]);
    assert_eq!(add(one_empty, 0), SubscribeError::Ask(AskError::Empty), "it would mean everything unsaid");
    assert_eq!(add(everything(), 99), SubscribeError::Interval(99));
    assert_eq!(add(service(&"x".repeat(256)), 0), SubscribeError::Ask(AskError::TooLong(256)));
    let many = Ask::of(vec![Selector::everything(); MAX_SELECTORS + 1]);
    assert_eq!(add(many, 0), SubscribeError::Ask(AskError::TooMany(MAX_SELECTORS + 1)));
    assert_eq!(subscriptions.next_due(), None);
    for id in 0..64 {
        subscriptions.add(every(100, id), NOW).unwrap();
    }
    assert_eq!(subscriptions.add(every(100, 99), NOW), Err(SubscribeError::TooMany(64)));
    assert_eq!(subscriptions.add(every(200, 5), NOW), Ok(()), "replacing needs no room");
}
