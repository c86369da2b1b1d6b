"""What the log engine keeps bounded, and why."""

WINDOW_US = 300_000_000
"""Duplicates are recognised for this long, in the log's own time (SQS: five minutes)."""

BLOCK_FULL_MESSAGES = 64
"""The slot that reaches this fills its block; so a block has at most 127 messages."""

APPEND_ATTEMPTS_MAX = 16
"""How often an append that others were faster than is tried at the next slot."""

TAIL_AGE_US_MAX = 60_000_000
"""Before an append, a tail that was seen longer ago is looked at again."""

APPEND_AGE_US_MAX = 300_000_000
COLLECT_AFTER_US = 600_000_000
"""What is done is collected later than any append may count that did not see it."""

START_VALID_S = 3_600
"""A log begins at the slot that was chosen this long ago at most: its record cannot be gone yet."""

SLOT_TTL_SLACK_S = START_VALID_S

PAGE_SLOTS = 256
PAGE_ENTRIES = 2_048
PAGE_BYTES = 4 * 1024 * 1024
"""A deduplication page is written when so much lies behind the last: what a cold start reads."""

PAGES_PER_QUERY = 12

FETCH_ITEMS_MAX = 10
FETCH_ROUNDS_MAX = 20
"""Pages of the log that one receive reads at most before it answers with what it has."""

SCAN_MESSAGES_MAX = 120_000
"""Messages not done that a front end looks through to find groups to deliver (as SQS does)."""

CLAIM_ATTEMPTS_MAX = 4
CLAIM_AGE_US_MAX = 5_000_000
"""A state that was seen longer ago is read again before messages of its block are claimed."""

SEGMENTS_HELD_BYTES_MAX = 4 * 1024 * 1024
SEGMENTS_HELD_MAX = 256
"""Slots whose bodies a partition keeps in memory, to deliver from them."""

OPENED_RECORD_BYTES = 600
"""What a record of a stream takes in memory as a message, beside its data and its key."""

REFRESH_BLOCKS_MAX = 100
REFRESH_US = 200_000
"""How often a receive that finds its groups blocked asks whether other front ends freed them."""

LEASES_US = 5_000_000
"""How often a receive that finds enough asks whether other front ends freed what is in flight."""

OTHERS_US = 60_000_000
"""How often a receive that finds enough asks which records died, or were restored, elsewhere."""

MOVED_ON_MAX = 3
"""How often a send follows the ends of logs to where they go on."""

ASIDE_MS = 1_000
"""For so long groups stay aside whose keys were not to be had."""

FOREIGN_LEASE_GUARD_MS = 250
"""Leases of other front ends are taken over this much later, for clocks that differ."""

LOW_WATER_MESSAGES = 64
RANGES_MAX = 64
RANGES_LOOKED_AT_MAX = 512
RANGE_SLOTS_MIN = 16
"""A shorter range of slots that are done saves nobody a read."""

COLLECT_BLOCKS_MAX = 256
PARTITIONS_MAX = 4_000
"""Partitions that a front end remembers."""

IDLE_US_MAX = 900_000_000
"""What is remembered of a partition that nobody has used for so long is forgotten."""

ATTEMPT_US = 300_000_000
"""A ReceiveRequestAttemptId is recognised for this long."""

VISIBILITY_TOTAL_MS_MAX = 43_200_999
"""Twelve hours from the receive on, in whole seconds: 43,200 may be asked for right after it."""

assert APPEND_AGE_US_MAX * 2 <= COLLECT_AFTER_US  # noqa: S101 - a relation between constants
assert TAIL_AGE_US_MAX < APPEND_AGE_US_MAX  # noqa: S101 - likewise
