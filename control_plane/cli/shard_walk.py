"""Reading the shards of a stream: those that others became behind these, in the order of keys."""

from collections.abc import Iterator, Mapping
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError  # noqa: A004 - theirs

from control_plane.cli.connection import CONNECTIONS_MAX
from control_plane.cli.stream_position import OLDEST, StreamPosition
from data_plane.core.limits import RECEIVE_WAIT_S_MAX
from data_plane.protocol.stream_shapes import WAIT
from data_plane.system import sleep

LOOK_S: Final = 1.0
"""How often `follow` lets its caller see to other things."""

_ROUND_S: Final = 1.0
"""How often each shard is asked where there are more than connections that could wait."""

_PAUSE_S: Final = 1.0
_SERVER_ERROR: Final = 500
_THROTTLED: Final = frozenset({"ThrottlingException", "ProvisionedThroughputExceededException"})

Record = Mapping[str, Any]


def shards_of(client: Any, stream: str) -> list[dict[str, Any]]:
    """All shards that have records, or may get some, in order of their numbers."""
    found: list[dict[str, Any]] = []
    # boto3's paginator names the stream again with each token, which Kinesis refuses.
    asked = {"StreamName": stream}
    while asked:
        page = client.list_shards(**asked)
        found += page["Shards"]
        asked = {"NextToken": page["NextToken"]} if page.get("NextToken") else {}
    return found


def parents_of(shard: Mapping[str, Any]) -> list[str]:
    """The shards that it came from."""
    named = (shard.get("ParentShardId"), shard.get("AdjacentParentShardId"))
    return [parent for parent in named if parent]


class ShardWalk:
    """How far the shards of a stream are read; a child follows once all its parents are read out.

    From a position on in all shards, or in one `shard` and those that it became.
    """

    def __init__(
        self, client: Any, stream: str, position: StreamPosition, shard: str | None = None
    ) -> None:
        self._client = client
        self._stream = stream
        self._position = position
        self._done: set[str] = set()
        self.iterators: dict[str, str | None] = {}
        """Of each shard that is being read where to go on; None: at its beginning."""
        only = shard or position.shard
        if only is not None:
            self._known = {only}
            begun = [only]
        else:
            shards = shards_of(client, stream)
            self._known = {one["ShardId"] for one in shards}
            begun = [one["ShardId"] for one in shards if self._is_first(one)]
        for one in begun:
            self.iterators[one] = self._iterator(one, position)

    def _is_first(self, shard: Mapping[str, Any]) -> bool:
        if not self._position.is_latest:
            return self._known.isdisjoint(parents_of(shard))
        is_open = "EndingSequenceNumber" not in shard["SequenceNumberRange"]
        if not is_open:
            self._done.add(shard["ShardId"])
        return is_open

    def page(self, shard: str, iterator: str | None, **asked: Any) -> dict[str, Any]:
        """What GetRecords answers from there on; changes nothing here."""
        if iterator is None:
            # All of it, or from the same time on, which may lie behind the child's beginning.
            by_time = "Timestamp" in self._position.iterator
            iterator = self._iterator(shard, self._position if by_time else OLDEST)
        page: dict[str, Any] = self._client.get_records(ShardIterator=iterator, **asked)
        return page

    def went(self, shard: str, page: Mapping[str, Any]) -> None:
        """Note that a page of a shard was read."""
        following = page.get("NextShardIterator")
        if following is not None:
            self.iterators[shard] = following
            return
        del self.iterators[shard]
        self._done.add(shard)
        for child in page.get("ChildShards", []):
            if self._done.issuperset(self._known.intersection(child["ParentShards"])):
                self._known.add(child["ShardId"])
                self.iterators[child["ShardId"]] = None

    def _iterator(self, shard: str, position: StreamPosition) -> str:
        answer = self._client.get_shard_iterator(
            StreamName=self._stream, ShardId=shard, **position.iterator
        )
        return str(answer["ShardIterator"])


def stored(walk: ShardWalk, *, page_max: int) -> Iterator[tuple[str, Record]]:
    """What is stored now, shard by shard, with the shard of each record."""
    at_tip: set[str] = set()
    while ahead := [shard for shard in walk.iterators if shard not in at_tip]:
        shard = ahead[0]
        page = walk.page(shard, walk.iterators[shard], Limit=page_max)
        walk.went(shard, page)
        if page["MillisBehindLatest"] == 0:
            at_tip.add(shard)
        for record in page["Records"]:
            yield shard, record


class _Asked(NamedTuple):
    """A page that somebody is to fetch, after a pause."""

    shard: str
    iterator: str | None
    wait_s: int
    pause_s: float = 0.0


class Got(NamedTuple):
    """Records of a shard; or why there is no answer, which may pass."""

    shard: str
    records: list[Record]
    failure: Exception | None = None


def follow(walk: ShardWalk) -> Iterator[Got | None]:
    """What comes, from now on, of all shards at once; None once a second while nothing does.

    A server that does not answer is asked again. Raises what else GetRecords does.
    """
    asked: SimpleQueue[_Asked] = SimpleQueue()
    answers: SimpleQueue[tuple[_Asked, dict[str, Any] | Exception]] = SimpleQueue()
    under_way: set[str] = set()
    workers = 0
    while walk.iterators:
        at_once = min(CONNECTIONS_MAX, len(walk.iterators))
        wait_s, pause_s = RECEIVE_WAIT_S_MAX, 0.0
        if at_once < len(walk.iterators):
            wait_s, pause_s = 0, _ROUND_S * at_once / len(walk.iterators)
        for shard in [one for one in walk.iterators if one not in under_way]:
            asked.put(_Asked(shard, walk.iterators[shard], wait_s, pause_s))
            under_way.add(shard)
            if workers < min(CONNECTIONS_MAX, len(under_way)):
                Thread(target=_fetch, args=(walk, asked, answers), daemon=True).start()
                workers += 1
        try:
            one, answer = answers.get(timeout=LOOK_S)
        except Empty:
            yield None
            continue
        if isinstance(answer, Exception):
            if not _passes(answer):
                raise answer
            asked.put(one._replace(pause_s=_PAUSE_S))
            yield Got(one.shard, [], answer)
        else:
            under_way.discard(one.shard)
            walk.went(one.shard, answer)
            yield Got(one.shard, answer["Records"])


def _fetch(
    walk: ShardWalk,
    asked: "SimpleQueue[_Asked]",
    answers: "SimpleQueue[tuple[_Asked, dict[str, Any] | Exception]]",
) -> None:
    while True:
        one = asked.get()
        sleep(one.pause_s)
        try:
            page = walk.page(one.shard, one.iterator, **{WAIT: one.wait_s})
        except Exception as error:  # noqa: BLE001 - it is raised where the answers are read
            answers.put((one, error))
        else:
            answers.put((one, page))


def _passes(failure: Exception) -> bool:
    """Whether to ask again: the server is away, or has too much to do."""
    if isinstance(failure, ClientError):
        status = failure.response["ResponseMetadata"]["HTTPStatusCode"]
        return status >= _SERVER_ERROR or failure.response["Error"]["Code"] in _THROTTLED
    return isinstance(failure, HTTPClientError | ConnectionError)
