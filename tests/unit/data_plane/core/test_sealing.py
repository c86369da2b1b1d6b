from collections.abc import Callable

import pytest

from data_plane.core.sealing import DataSeal, NotSealedHereError, TokenSeal, derive, place

SECRET = bytes(range(32))
NONCE = bytes(12)


def test_a_token_opens_where_it_belongs() -> None:
    seal = TokenSeal(SECRET, "handles", "a queue")

    assert seal.unseal(seal.seal(b"plain", b"here"), b"here") == b"plain"


def test_equal_tokens_are_equal_bytes() -> None:
    seal = TokenSeal(SECRET, "handles")

    assert seal.seal(b"plain", b"here") == seal.seal(b"plain", b"here")


@pytest.mark.parametrize(
    "other",
    [
        TokenSeal(SECRET, "handles", "another queue"),
        TokenSeal(SECRET, "tokens", "a queue"),
        TokenSeal(bytes(32), "handles", "a queue"),
    ],
)
def test_a_token_does_not_open_for_another_purpose_place_or_secret(other: TokenSeal) -> None:
    sealed = TokenSeal(SECRET, "handles", "a queue").seal(b"plain")

    with pytest.raises(NotSealedHereError):
        other.unseal(sealed)


def test_no_altered_bit_opens() -> None:
    token, data = TokenSeal(SECRET, "handles"), DataSeal(SECRET)
    openings: list[tuple[bytes, Callable[[bytes], bytes]]] = [
        (token.seal(b"plain", b"here"), lambda sealed: token.unseal(sealed, b"here")),
        (data.seal(NONCE, b"plain", b"here"), lambda sealed: data.unseal(sealed, b"here")),
    ]
    for sealed, unseal in openings:
        assert unseal(sealed) == b"plain"
        for bit in range(len(sealed) * 8):
            altered = bytearray(sealed)
            altered[bit // 8] ^= 1 << bit % 8
            with pytest.raises(NotSealedHereError):
                unseal(bytes(altered))


@pytest.mark.parametrize("length", [0, 1, 11, 12, 15, 16, 27])
def test_what_is_cut_short_does_not_open(length: int) -> None:
    with pytest.raises(NotSealedHereError):
        TokenSeal(SECRET, "handles").unseal(TokenSeal(SECRET, "handles").seal(b"p" * 20)[:length])
    with pytest.raises(NotSealedHereError):
        DataSeal(SECRET).unseal(DataSeal(SECRET).seal(NONCE, b"p" * 20, b"")[:length], b"")


def test_data_does_not_open_elsewhere() -> None:
    sealed = DataSeal(SECRET).seal(NONCE, b"plain", place("queue", b"segment 1"))

    with pytest.raises(NotSealedHereError):
        DataSeal(SECRET).unseal(sealed, place("queue", b"segment 2"))


def test_parts_do_not_run_into_each_other() -> None:
    assert place("ab", "c") != place("a", "bc")
    assert derive(SECRET, "ab", "c") != derive(SECRET, "a", "bc")
    assert derive(SECRET, "ab") != derive(SECRET, "ab", "")


def test_a_secret_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        derive(b"short", "handles")
