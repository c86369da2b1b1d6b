"""What the data plane must know of a queue; the control plane writes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from data_plane.core.limits import KMS_DATA_KEY_REUSE_S_DEFAULT
from data_plane.core.partitions import arn_of

AT_MOST_ONCE: Final = "atMostOnce"
AT_LEAST_ONCE: Final = "atLeastOnce"
EXACTLY_ONCE: Final = "exactlyOnce"
DELIVERY_GUARANTEES: Final = (AT_MOST_ONCE, AT_LEAST_ONCE, EXACTLY_ONCE)
"""Values of the attribute TidegateDeliveryGuarantee (docs/promises.md)."""


TRIM_HORIZON: Final = "TRIM_HORIZON"
LATEST: Final = "LATEST"
AT_TIMESTAMP: Final = "AT_TIMESTAMP"
STARTING_POSITIONS: Final = (TRIM_HORIZON, LATEST, AT_TIMESTAMP)
"""Values of the attribute TidegateStartingPosition (docs/streams.md)."""


DIGESTS_BY_UID: Final = 1
"""Of queues made before digests had secrets: so their groups' messages stay in order."""

DIGESTS_BY_SECRET: Final = 2


DATA_KEY_KEPT_S: Final = 60 * 86_400
"""A message is stored for 29 days at most after its key was made: that serves for a day, and the
longest delay and the longest retention are 14 days each."""

KINESIS_MARK: Final = "!"
"""Before the name of a queue of the Kinesis API: no queue of SQS has such a name."""

KINESIS_ID: Final = "QueueId"
"""The attribute that says which queue of the Kinesis API it is."""

NOT_STORED: Final = 0
"""Version of a queue that its first message would create; stored ones count from 1."""


class Generation(NamedTuple):
    """A FIFO queue's logs from `since_s` on, until the next generation's: so many partitions."""

    number: int
    partitions: int
    since_s: int


FIRST_GENERATION: Final = Generation(0, 1, 0)


@dataclass(frozen=True, slots=True)
class RedrivePolicy:
    """Where messages go that were received `receive_count_max` times and not deleted."""

    account: str
    region: str
    dead_letter_queue: str
    receive_count_max: int


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue's definition as of some version.

    `uid` names this incarnation (a queue created again under the same name has another one) and is
    16 hexadecimal digits. Messages sent at or before `purged_us` count as purged. `attributes` are
    those that were set, as SQS spells them; the typed fields have their defaults applied. Without
    a `redrive` policy it has no dead-letter queue. Of a FIFO queue's `generations` the last one
    takes what is sent; the others are read first. From `secret` (32 bytes; b"" where nothing needs
    it) follow the keys of everything that is sealed or hashed for this incarnation; for names of
    groups and deduplication ids `digest_version` says how (docs/storage.md, "Digests"). A queue
    over a stream, whose uid is `stream_uid` ("": it has messages of its own), has what is there
    above `purged_us`, and above `expired_us`: up to there all had expired before the stream's
    retention was raised. In one of the Kinesis API what was received `dies_after` times is a dead
    letter (0: nothing is); one that is seen as `of_dead` has those alone, and otherwise none.
    """

    account: str
    region: str
    name: str
    uid: str
    cell: str
    version: int
    created_s: int
    modified_s: int
    fifo: bool
    visibility_timeout_s: int
    delay_s: int
    message_bytes_max: int
    retention_s: int
    receive_wait_s: int
    purged_us: int
    attributes: Mapping[str, str]
    tags: Mapping[str, str] = field(default_factory=dict)
    redrive: RedrivePolicy | None = None
    generations: tuple[Generation, ...] = (FIRST_GENERATION,)
    secret: bytes = field(default=b"", repr=False)
    digest_version: int = DIGESTS_BY_SECRET
    stream_uid: str = ""
    expired_us: int = 0
    dies_after: int = 0
    of_dead: bool = False

    @property
    def is_kinesis(self) -> bool:
        """Whether it is a queue of the Kinesis API."""
        return self.name.startswith(KINESIS_MARK)

    @property
    def reads_stream(self) -> bool:
        """Whether its messages are the records of a stream."""
        return bool(self.stream_uid)

    @property
    def is_log(self) -> bool:
        """Whether the log engine serves it: FIFO queues, and those over streams."""
        return self.fifo or self.reads_stream

    @property
    def stream_arn(self) -> str:
        """The stream that it reads, as it was named."""
        return self.attributes.get("TidegateStreamArn", "")

    @property
    def arn(self) -> str:
        """Amazon Resource Name."""
        if self.is_kinesis:
            resource = f"queue/{self.attributes.get(KINESIS_ID, '')}"
            return arn_of("kinesis", self.region, self.account, resource)
        return arn_of("sqs", self.region, self.account, self.name)

    @property
    def bound_name(self) -> str:
        """What seals and data keys of it are bound to (docs/storage.md): an ARN of `aws`."""
        return f"arn:aws:sqs:{self.region}:{self.account}:{self.name}"

    @property
    def key_context(self) -> Mapping[str, str]:
        """What its data keys are wrapped for."""
        return {"tidegate:account": self.account, "tidegate:queue": self.bound_name}

    @property
    def master_key_id(self) -> str:
        """The KMS key that its messages are sealed under ("": the service's own)."""
        return self.attributes.get("KmsMasterKeyId", "")

    @property
    def data_key_reuse_s(self) -> int:
        """For how long a data key of KMS's serves."""
        period = self.attributes.get("KmsDataKeyReusePeriodSeconds", KMS_DATA_KEY_REUSE_S_DEFAULT)
        return int(period)

    @property
    def data_key_kept_s(self) -> int:
        """For how long a data key is stored."""
        return DATA_KEY_KEPT_S

    @property
    def is_sealed(self) -> bool:
        """Whether its messages are sealed where it has no KMS key."""
        return bool(self.secret) and self.attributes.get("SqsManagedSseEnabled") != "false"

    @property
    def is_stored(self) -> bool:
        """Whether it exists; else its first message would create it."""
        return self.version != NOT_STORED

    @property
    def delivery_guarantee(self) -> str:
        """One of DELIVERY_GUARANTEES."""
        return self.attributes.get("TidegateDeliveryGuarantee", AT_LEAST_ONCE)

    @property
    def is_fenced(self) -> bool:
        """Whether only the latest receiver of a message may delete it or change its visibility."""
        return self.delivery_guarantee != AT_LEAST_ONCE
