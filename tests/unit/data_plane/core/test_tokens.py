import base64
from dataclasses import replace

import pytest

from data_plane.core.browsing import from_token, to_token
from data_plane.core.errors import RefusedError
from data_plane.core.queue import Queue
from data_plane.core.sealing import NotSealedHereError
from data_plane.core.tokens import from_text, queue_seal, to_text
from tests.unit.data_plane.wire import ORDERS

POSITION = b"a position of an engine"


def test_a_token_has_one_spelling() -> None:
    for length in range(1, 30):
        sealed = b"\xff" * length
        token = to_text(7, sealed)
        assert from_text(7, token) == sealed
        of_before = base64.urlsafe_b64encode(b"\x07" + sealed).decode().rstrip("=")
        assert from_text(7, of_before) == sealed
        others = [token + "=", token + "A", token[:-1], token.replace("/", "_"), token + "\n"]
        # Bits of the last character that stand for nothing.
        others += [token[:-1] + last for last in "ABCDwxyz0189-_" if last != token[-1]]
        for other in {*others} - {of_before}:
            try:
                assert from_text(7, other) != sealed
            except NotSealedHereError:
                continue


@pytest.mark.parametrize("token", ["", "A", "=", "====", "Bw", "é", "Bw==", "B w", "\x00" * 8])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(NotSealedHereError):
        from_text(8, token)


def test_a_purpose_has_a_seal_of_its_own() -> None:
    sealed = queue_seal(ORDERS, "one").seal(b"x")
    assert queue_seal(ORDERS, "one").unseal(sealed) == b"x"
    with pytest.raises(NotSealedHereError):
        queue_seal(ORDERS, "other").unseal(sealed)


def test_a_token_of_browsing_is_its_queues() -> None:
    token = to_token(ORDERS, POSITION)
    assert from_token(ORDERS, token) == POSITION
    others = (
        replace(ORDERS, name="order"),
        replace(ORDERS, uid="00112233445566fe"),
        replace(ORDERS, secret=bytes(32)),
    )
    for other in others:
        assert_refused(other, token)


def test_a_token_of_browsing_cannot_be_changed() -> None:
    token = to_token(ORDERS, POSITION)
    for place, letter in enumerate(token):
        assert_refused(ORDERS, token[:place] + ("B" if letter != "B" else "C") + token[place + 1 :])
        assert_refused(ORDERS, token[:place])
    assert_refused(ORDERS, "A" * 20_000)


def assert_refused(queue: Queue, token: str) -> None:
    with pytest.raises(RefusedError, match=r"^Invalid or expired next token\.$"):
        from_token(queue, token)
