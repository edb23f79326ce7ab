#!/usr/bin/python3
"""Makes ring.csv: the placement of src/shard.rs written a second time, from its description alone.

Usage: ring.py > ring.csv (needs Debian's python3-xxhash). The ring's id, the XXH3-64 of the lines of all 16,384
shards, then every 64th line.
"""
from struct import pack
from xxhash import xxh3_64_intdigest as xxh3

SHARDS, VNODES, REPLICAS = 16384, 512, 2
MEMBERS = [("collector.1", "n1"), ("collector.2", "n1"), ("collector.3", "n2"), ("collector.4", None), ("edge", "n3")]

points = sorted((xxh3(m.encode() + b"\0" + pack("<H", i)), m) for m, _ in MEMBERS for i in range(VNODES))
start = {s: xxh3(b"shard\0" + pack("<H", s)) for s in range(SHARDS)}
turns = sorted(range(SHARDS), key=start.get)
node = dict(MEMBERS)
walks = {}
for s in turns:
    after = [m for h, m in points if h >= start[s]][:200]
    walks[s] = list(dict.fromkeys(after + [m for _, m in points[:200]]))
    assert len(walks[s]) == len(MEMBERS)


def cap(copies):
    total = copies * SHARDS
    return max(total * 105 // (100 * len(MEMBERS)), -(-total // len(MEMBERS)))


held = dict.fromkeys(node, 0)
row = {}
for s in turns:
    row[s] = [next(m for m in walks[s] if held[m] < cap(1))]
    held[row[s][0]] += 1
for s in turns:
    for at in range(1, REPLICAS + 1):
        free = [m for m in walks[s] if m not in row[s]]
        room = [m for m in free if at >= REPLICAS or held[m] < cap(REPLICAS)]
        apart = [m for m in room if node[m] is None or node[m] not in [node[c] for c in row[s]]]
        m = (apart or room or free)[0]
        held[m] += at < REPLICAS
        row[s].append(m)

lines = [",".join([str(s)] + row[s]) + "\n" for s in range(SHARDS)]
digest = pack("<IHHB", 1, SHARDS, VNODES, REPLICAS) + "".join(f"{m}\0{n or ''}\0" for m, n in MEMBERS).encode()
print("# ring %016x" % xxh3(digest))
print("# xxh3 of all lines: %016x" % xxh3("".join(lines).encode()))
print("shard,primary,second,reserve")
print("".join(lines[::64]), end="")
