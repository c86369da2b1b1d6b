"""What the stream engine keeps bounded, and why."""

from data_plane.core.limits import RECORD_KIB_MAX

SLOT_RECORDS_MAX = 500
"""As many as PutRecords takes: a call for one shard is one slot."""

SLOT_BYTES_MAX = 1024 * 1024
"""A slot is read whole. A record that is bigger has one to itself."""

APPEND_ATTEMPTS_MAX = 16
"""How often an append that others were faster than is tried at the next offset."""

TTL_SLACK_S = 3_600
KEPT_S_MIN = 86_400
"""A slot stays for so long, and for the slack, at least."""

ANCHOR_US = 3_600_000_000
"""How often an anchor says where a log ends."""

ANCHOR_SURE_US = KEPT_S_MIN * 1_000_000
"""An anchor as old as this does not say any more what was appended behind it, and is gone."""

OFFSETS_SKIPPED = 1 << 32
"""More than can have been appended behind an anchor without anybody there to renew it."""

REPEATS_US = 300_000_000
REPEATS_SLOTS_MAX = 1_000
REPEATS_BYTES_MAX = 64 * 1024 * 1024
"""How far back a call that is repeated is looked for in the cell."""

PARTS_HELD_MAX = 1_000
"""Parts of calls that a front end remembers of each shard, as long as all of them have room.

More than one slot has: what it appends itself is no reason to look for calls in the cell.
"""

PART_BYTES = 500
"""What one of them takes in memory, if it is the only one of its call."""

PARTS_HELD_TOGETHER_BYTES_MAX = 32 * 1024 * 1024
"""What those of all shards of a front end take: 67 shards have as many as one may."""

PRODUCERS_MAX = 1_000
"""Producers that number their records, of a shard: a slot that lists all has 59 KB of them."""

PRODUCED_BYTES = 59
CALL_BYTES_MAX = 82
"""What a slot has of a producer, and of an SDK call at most."""

SLOT_PRODUCERS_MAX = PRODUCERS_MAX + SLOT_RECORDS_MAX
"""Producers that come at the same time are let in by the same count: each with a record at least.
"""

BESIDE_BODY_BYTES = 8 * 1024
"""What else an item has: attributes of some bytes; in a dead letter its group, names, a trace."""

RECORD_TEXT_BYTES_MAX = -(-RECORD_KIB_MAX * 1024 // 3) * 4
"""Of a record that is no text, in base64, as the message that a queue over a stream makes of it."""

ITEM_BYTES_MAX = (
    RECORD_TEXT_BYTES_MAX + SLOT_PRODUCERS_MAX * PRODUCED_BYTES + CALL_BYTES_MAX + BESIDE_BODY_BYTES
)
"""No item of docs/storage.md is bigger: the greatest is such a message as a dead letter, and the
next one the slot of such a record that lists all producers."""

PRODUCER_SLOTS_MAX = 64
"""As many slots are read to know the producers of a shard: each so many-th lists all."""

SHARDS_PRODUCED_MAX = 128
"""Shards of which a front end remembers the producers."""

SHARDS_MAX = 4_000
"""Shards that a front end remembers."""

READ_ITEMS_MAX = 100
READ_BYTES_MAX = 10 * 1024 * 1024
READ_RECORDS_MAX = 10_000
"""Of one GetRecords (Kinesis); at least one record comes, whatever its size."""

LONG_TERM_US = 7 * 86_400_000_000
"""Reads of records that are older are priced apart (AWS: long-term data retrieval)."""

EVERYONE = 1 << 30
"""All who wait for something to read."""
