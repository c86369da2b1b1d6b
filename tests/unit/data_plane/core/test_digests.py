from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

import pytest

from data_plane.core.digests import (
    attempt_hash,
    call_hash,
    deduplication_hash,
    group_hash,
    group_tag,
)
from data_plane.core.queue import DIGESTS_BY_UID, Queue
from data_plane.core.sealing import derive
from tests.unit.data_plane.wire import ORDERS

EARLIER = replace(ORDERS, digest_version=DIGESTS_BY_UID)
UID = ORDERS.uid.encode()


def keyed(key: bytes, name: str, size: int = 16, person: bytes = b"") -> bytes:
    return blake2b(name.encode(), digest_size=size, key=key, person=person).digest()


def test_digests_are_keyed_with_the_secret_for_their_purpose() -> None:
    def key(purpose: str) -> bytes:
        return derive(ORDERS.secret, purpose)

    assert group_hash(ORDERS, "g") == keyed(key("groups"), "g")
    assert group_tag(ORDERS, "g") == keyed(key("tags"), "g", 8)
    assert deduplication_hash(ORDERS, "g", "d") == keyed(key("deduplication"), "g\nd")
    assert attempt_hash(ORDERS, "a") == keyed(key("attempts"), "a")
    assert call_hash(ORDERS, "c") == keyed(key("calls"), "c")


def test_those_of_earlier_queues_stay_as_they_were() -> None:
    assert group_hash(EARLIER, "g") == keyed(UID, "g", person=b"g")
    assert group_tag(EARLIER, "g") == keyed(UID, "g", 8)
    assert deduplication_hash(EARLIER, "", "d") == keyed(UID, "\nd", person=b"d")
    assert attempt_hash(EARLIER, "a") == attempt_hash(ORDERS, "a")
    assert call_hash(EARLIER, "c") == call_hash(ORDERS, "c")


@pytest.mark.parametrize("digest", [group_hash, group_tag, attempt_hash, call_hash])
def test_queues_have_digests_of_their_own(digest: Callable[[Queue, str], bytes]) -> None:
    other = replace(ORDERS, secret=bytes(32))
    assert len({digest(ORDERS, "a"), digest(ORDERS, "b"), digest(other, "a")}) == 3


def test_a_queue_without_a_secret_has_no_digests() -> None:
    with pytest.raises(ValueError, match="a secret has 32 bytes, not 0"):
        group_hash(replace(ORDERS, secret=b""), "g")
