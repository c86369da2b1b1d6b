"""What the bag engine keeps bounded, and why."""

from data_plane.stored.bounds import SEGMENT_MESSAGES_MAX

BLOCK_FULL_MESSAGES = 64
BLOCK_INDEXES = 128
"""The segment that reaches this fills its block; so a block has at most 127 messages."""

FETCH_ITEMS_MAX = 10
FETCH_ROUNDS_MAX = 20
"""Pages that one receive reads at most before it answers with what it has."""

LEASE_ATTEMPTS_MAX = 4
"""How often a front end chooses again from a block that others changed under it."""

WINDOW_ENTRIES_MAX = 2000
WINDOW_MESSAGES_MAX = 4000
"""Beyond these the oldest entries get a marker and leave the front end's memory."""

SEGMENTS_HELD_BYTES_MAX = 4 * 1024 * 1024
"""Of messages in the window that wait to be received; the others are read again for that."""

IDLE_BLOCKS_MAX = 8
PUT_BEHIND_RECEIVES = 3
"""A message that comes back keeps its place till then: SQS's number (its ApproximateAgeOf...)."""

DUE_ENTRIES_MAX = 4 * WINDOW_MESSAGES_MAX
"""Live entries of the heap of visibility timeouts are at most one for a message in the window."""

MARKERS_AT_ONCE_MAX = 16
LOW_WATER_MESSAGES = 64
"""The durable low-water mark follows after this many messages (or when the lane is empty)."""

COLLECT_AFTER_US = 20_000_000
COLLECT_BLOCKS_MAX = 64
READY_AGE_US_MAX = 5_000_000
"""Prefetched messages are looked at again after this time, well before blocks are collected."""

OVERTAKEN_US_MAX = 120_000_000
"""An answer to what was asked for so long before is no overtaken one: the clock was set back."""

CALLS_REMEMBERED_MAX = 100_000
UNSURE_CALLS_MAX = 1_000
"""Failed sends that a front end keeps, up to a segment each, for the seconds until SDKs retry."""

SAME_KEY_US_MAX = COLLECT_AFTER_US // 2
"""So long after a segment could be received first, nobody has collected it, nor will have before a
request of then arrives: it may be stored under its key again."""

CALL_LOOKBACK_US = 300_000_000
CALL_LOOKBACK_SEGMENTS_MAX = 2_000
COPY_LOOKBACK_US = 10_000_000
COPY_LOOKBACK_SEGMENTS_MAX = 2_000
"""How far a move that was cut off is looked for in its target; one not found is stored again."""

LATE_APPENDS_MAX = 4
"""How often an item that must be found is appended again when it came late."""

FOREIGN_LEASE_GUARD_MS = 250
"""Leases of other front ends are taken over this much later, for clocks that differ."""

BROWSE_NOTES_MAX = 64
"""Blocks of which a walk remembers what it has shown: 27 bytes each in the token of a page."""

LANES_MAX = 10_000
"""Queues whose lanes a front end remembers."""

GROUP_WAITING_MIN = 30
GROUP_SHARE = 10
"""A group that holds 30 messages and a tenth of those in flight is noisy: SQS's thresholds."""

DEEPER_LANE_FACTOR = 10
"""So much more of a group may wait in lane 1 than in lane 0 before it goes to lane 2."""

REDRIVEN_LANE = 1
"""Where messages of groups go that are moved back: a fixed lane, so that copies meet."""

GROUPS_COUNTED_MAX = 256
"""Groups with more than so small a part of the messages are found by counting so many."""

GROUPS_PLACED_MAX = 256
GROUPS_TOLD_MAX = 64
DELIVERIES_WATCHED_MAX = 1_024
"""What is in flight of each group is judged by so many deliveries, the latest ones."""

RECENT_US = 30_000_000
"""Consumers' time counts as recent for once to twice as long."""

NOISY_AFTER_US = 1_000_000
"""Only messages that have waited for so long let their group count as noisy."""

NOISY_FOR_US = 10_000_000
TELL_AGAIN_US = 5_000_000
PROGRESS_EVERY_US = 1_000_000
KNOWN_FOR_US = 10_000_000
KNOWN_WHILE_OVER_US = 1_000_000
"""What front ends tell each other of groups: how old it may be for a send, in what case."""

ASIDE_LOOK_EVERY_US = 1_000_000
"""So often a lane looks which messages need not let others pass any more."""

DELAYED_BEHIND_US = 10_000_000
"""Delayed messages count as waiting with those visible so shortly before them."""

VISIBILITY_TOTAL_MS_MAX = 43_200_999
"""Twelve hours from the receive on, in whole seconds: 43,200 may be asked for right after it."""

assert TELL_AGAIN_US < NOISY_FOR_US  # noqa: S101 - likewise
assert READY_AGE_US_MAX * 2 < COLLECT_AFTER_US  # noqa: S101 - a relation between constants
assert SEGMENT_MESSAGES_MAX + BLOCK_FULL_MESSAGES <= BLOCK_INDEXES  # noqa: S101 - likewise
