//! Nothing is kept for ever: a day of tasks, services and nodes that come and go, then quiet.

use crate::fixture::*;
use std::collections::BTreeMap;
use swarmstats::aggregate::Sizes;
use swarmstats::model::{MemberId, Values};
use swarmstats::outbox::{Ended, Outbox, OutboxSizes};
use swarmstats::stat::CPU;

const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;

#[test]
fn a_day_of_churn_then_row_keep_of_quiet_leaves_every_map_at_its_base_size() {
    let ids = [member("a"), member("b")];
    let mut collectors: BTreeMap<MemberId, _> = ids.iter().map(|id| (id.clone(), process(id.as_str(), 1, 0))).collect();
    let outbox = |node: &str, at| {
        let started = STARTED + at / 1_000_000;
        let mut cfg = shipper_of(node, 1);
        (cfg.interval, cfg.lease, cfg.started, cfg.started_monotonic) = (MINUTE, 3 * MINUTE, started, at);
        Outbox::new(cfg, ring(&["a", "b"]))
    };
    // Two nodes stay; a third is another one every two hours.
    let mut nodes = BTreeMap::from([("n1".to_owned(), outbox("n1", 0)), ("n2".to_owned(), outbox("n2", 0))]);
    let mut largest = Sizes::default();
    let mut streams: BTreeMap<(String, MemberId), swarmstats::aggregate::StreamId> = BTreeMap::new();
    let (end_of_churn, end) = (DAY / MINUTE, DAY / MINUTE + 60 + 60 + 15);
    for minute in 1..=end {
        let now = minute * MINUTE;
        if minute < end_of_churn && minute % 120 == 60 {
            nodes.retain(|id, _| id == "n1" || id == "n2");
            nodes.insert(format!("m{minute}"), outbox(&format!("m{minute}"), now));
        } else if minute == end_of_churn {
            nodes.retain(|id, _| id == "n1" || id == "n2");
        }
        for (id, outbox) in &mut nodes {
            // Each node has a task of 20 min length of each of three services, and services are renewed every 3 h.
            let meta = |slot: u64, number: u64| {
                let mut meta =
                    (*task(&format!("{id}-{slot}-{number}"), &format!("s{slot}-{}", minute / 180), 0)).clone();
                meta.node_id = swarmstats::model::NodeId::new(id).unwrap();
                std::sync::Arc::new(meta)
            };
            let (number, running) = (minute / 20, minute < end_of_churn);
            let readings =
                (0..3).filter(|_| running).map(|slot| read(&meta(slot, number), &[(CPU, minute % 20 * 100)]));
            let over = (0..3).filter(|_| minute % 20 == 0 && number > 0).map(|slot| {
                let mut meta = (*meta(slot, number - 1)).clone();
                meta.service_id = service(&format!("s{slot}-{}", (minute - 1) / 180));
                Ended { meta: meta.into(), values: None }
            });
            outbox.observe(now, Values::default(), readings.collect::<Vec<_>>(), over.collect::<Vec<_>>());
            for to in outbox.destinations() {
                let collector = collectors.get_mut(&to).unwrap();
                let stream = streams.entry((id.clone(), to.clone())).or_insert_with(|| {
                    let hello = outbox.hello(&to);
                    let hi = collector.hello(&hello, now).unwrap();
                    outbox.greeted(&to, hello.k, &Ok(hi), now, STARTED);
                    swarmstats::aggregate::StreamId::of(&hello)
                });
                while let Some(batch) = outbox.next_batch(&to, now) {
                    match collector.batch(stream, &batch, now).unwrap() {
                        swarmstats::aggregate::Stored::Acked { ack, .. } => outbox.acked(&to, stream.k, &ack, now),
                        swarmstats::aggregate::Stored::Void => panic!("the stream is current"),
                    }
                }
            }
        }
        for collector in collectors.values_mut() {
            let scrape = collector.scrape(now);
            collector.scraped(&scrape.mark, now);
            collector.expire(now);
            let sizes = collector.sizes();
            largest.tasks = largest.tasks.max(sizes.tasks);
            largest.rows = largest.rows.max(sizes.rows);
            largest.ledger = largest.ledger.max(sizes.ledger);
        }
    }
    // Three nodes at most with three tasks each run at once, and what is over is kept for ten minutes.
    assert!((3..=9 * 3).contains(&largest.tasks), "{largest:?}");
    assert!((3..=40).contains(&largest.rows) && (3..=20).contains(&largest.ledger), "{largest:?}");
    for collector in collectors.values() {
        assert_eq!(collector.sizes(), Sizes { nodes: 2, ..Sizes::default() });
    }
    for outbox in nodes.values() {
        assert_eq!(outbox.sizes(), OutboxSizes { peers: 2, ..OutboxSizes::default() });
    }
}
