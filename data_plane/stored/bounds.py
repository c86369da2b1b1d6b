"""What is kept bounded in everything stored, and why."""

SEGMENT_MESSAGES_MAX = 64
SEGMENT_BYTES_MAX = 256 * 1024
"""A segment is read whole to deliver any of its messages."""

COMPRESS_BYTES_MIN = 512
"""Below this, compression costs more than it saves."""

LONG_WORK_BYTES = 64 * 1024
"""More of messages is packed and opened in turns with what others do."""

BLOB_THRESHOLD_BYTES = 8 * 1024
"""Packed bodies that are bigger cost less in a blob store: see docs/cost.md."""

ITEM_BODY_BYTES_MAX = 384 * 1024
"""DynamoDB takes items of 400 KB: so much of a body and other bytes, and names and numbers."""

PUT_PATIENCE_US = 1_000_000
"""For how long a blob store is waited for by a body that an item can hold, too."""

BODY_BYTES_HELD_MAX = 8 * 1024 * 1024
"""Bodies that a front end keeps after it has fetched them, in bytes of messages."""

SEGMENTS_HELD_TOGETHER_BYTES_MAX = 32 * 1024 * 1024
"""Of messages that wait, of all lanes of standard queues, and as much of all logs' readers."""

PUT_TO_APPEND_US_MAX = 1_800_000_000
ORPHAN_AGE_US_MIN = 3_600_000_000
"""A younger blob may be one whose segment is still to come: half an hour for clocks to differ."""

WALK_EVERY_US = 21_600_000_000
SWEPT_NAMES_MAX = 500
DELETED_NAMES_MAX = 1_000
UNNEEDED_BODIES_MAX = 100_000
"""Beyond these, bodies of deleted messages stay until the sweep finds their segments expired."""

PARTITIONS_HELD_MAX = 4_096
"""Partitions whose part of what seals are bound to is kept."""

DATA_KEYS_PER_QUEUE_MAX = 64
QUEUES_WITH_DATA_KEYS_MAX = 4_096
"""Keys that a front end has at hand; what falls out is derived, or asked for, again."""

FAIR_LANES = 3
"""Lanes of a standard queue: the quiet one, and two for groups that have much waiting."""

QUERY_PAGE = 100
GET_MANY_MAX = 100
"""Items that a cell reads in one request (data_plane/ports.py)."""

BROWSE_ROUNDS_MAX = 4
BROWSE_ITEMS_MIN = 20
"""A page of browsing reads at most so many ranges; of so many items, if of no more messages."""

BROWSE_BYTES_MAX = 1_048_576
"""Of a page of several messages."""

DATA_TTL_SLACK_S = 3_600
STATE_TTL_SLACK_S = 7 * 86_400

IN_FLIGHT_UNSEEN_MAX = 12_000
"""Leases that a front end grants before it looks how many messages are in flight at all."""

IN_FLIGHT_LOOK_EVERY_US = 1_000_000

MOVE_LEASE_MS = 5_000
"""After this, others go on with a move that was begun. Shorter costs copies, never messages."""

assert PUT_TO_APPEND_US_MAX * 2 <= ORPHAN_AGE_US_MIN  # noqa: S101 - a relation between constants
