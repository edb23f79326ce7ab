//! The hash of keys and the table of shards are contracts between versions: shippers, collectors and routers of
//! different builds must agree on every owner. Hashes were made with `xxhsum -H3`, `ring.csv` with `ring.py`.

use std::fmt::Write;
use swarmstats::model::{Key, MemberId, NodeId, ServiceId, TaskId};
use swarmstats::shard::{Member, Ring, SHARDS, shard};

#[test]
fn the_hash_of_keys_is_pinned() {
    let node = || NodeId::new("n1").unwrap();
    let vectors = [
        (Key::Task(TaskId::new("t1").unwrap()), 0xc906_7c2b_1da6_3d10_u64),
        (Key::Task(TaskId::new("15rbd495mv1iwreqyoxjz7oxq").unwrap()), 0x8936_58d1_1273_a732),
        (Key::Node(node()), 0x194f_0472_6f00_9de1),
        (Key::Row(node(), ServiceId::new("compose/shop/web").unwrap()), 0xc3f2_4d37_7b30_640e),
    ];
    for (key, hash) in vectors {
        assert_eq!(u64::from(shard(&key)), hash % 16_384, "{key:?}");
    }
}

#[test]
fn the_table_of_shards_is_pinned() {
    let members =
        [("edge", "n3"), ("collector.1", "n1"), ("collector.2", "n1"), ("collector.3", "n2"), ("collector.4", "")];
    let members = members.map(|(id, node)| Member { id: MemberId::new(id).unwrap(), node: NodeId::new(node).ok() });
    let ring = Ring::new(members, 2).unwrap();
    let lines: Vec<String> = (0..SHARDS)
        .map(|shard| {
            let mut line = shard.to_string();
            for member in ring.owners_and_reserve_of(shard) {
                write!(line, ",{member}").unwrap();
            }
            line + "\n"
        })
        .collect();
    let digest = xxhash_rust::xxh3::xxh3_64(lines.concat().as_bytes());
    let sample: String = lines.iter().step_by(64).map(String::as_str).collect();
    let found =
        format!("# ring {}\n# xxh3 of all lines: {digest:016x}\nshard,primary,second,reserve\n{sample}", ring.id());
    assert_eq!(found, include_str!("../data/ring.csv"));
}
