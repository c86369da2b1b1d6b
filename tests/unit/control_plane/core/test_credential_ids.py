import re

from control_plane.core.credential_ids import (
    AccessKeyIds,
    new_account_id,
    new_secret,
    new_user_id,
)
from data_plane.core.identifiers import is_account
from tests.unit.repeatable import SeededEntropy

OURS = AccessKeyIds(bytes(32))
OTHERS = AccessKeyIds(bytes([1]) * 32)


def test_they_look_as_those_of_aws_do() -> None:
    entropy = SeededEntropy()
    for _ in range(200):
        assert re.fullmatch(r"AKIA[A-Z2-7]{16}", OURS.new(entropy.random_bytes(10)))
        assert re.fullmatch(r"AIDA[A-Z2-7]{17}", new_user_id(entropy.random_bytes(15)))
        assert re.fullmatch(r"[A-Za-z0-9/+]{40}", new_secret(entropy.random_bytes(30)))
        account = new_account_id(entropy.random_bytes(16))
        assert is_account(account)
        assert account[0] != "0"


def test_all_the_randomness_of_a_secret_is_in_it() -> None:
    assert len({new_secret(bytes([byte]) + bytes(29)) for byte in range(256)}) == 256
    assert len({new_secret(bytes(29) + bytes([byte])) for byte in range(256)}) == 256


def test_a_registry_knows_its_own_ids() -> None:
    entropy = SeededEntropy()
    for _ in range(50):
        made = OURS.new(entropy.random_bytes(10))
        assert OURS.is_own(made)
        assert not OTHERS.is_own(made)
        for at in range(4, 20):
            for other in "A7":
                altered = f"{made[:at]}{other}{made[at + 1 :]}"
                assert OURS.is_own(altered) is (altered == made)


def test_what_is_no_id_is_none_of_ours() -> None:
    made = OURS.new(bytes(10))
    for text in ("", "any", "AKIA", made.lower(), made[:-1], f"{made}A", f"{made}\n", "ä" * 20):
        assert not OURS.is_own(text)
