"""Which access keys an operator may choose for root."""

import pytest

from data_plane.core.root_key import RootKey, RootKeyError


@pytest.mark.parametrize("key_id", ["ci.", "AKIAIOSFODNN7EXAMPLE", "a" * 128])
def test_ids_that_signatures_can_carry(key_id: str) -> None:
    assert RootKey(key_id, "12345678").id == key_id


@pytest.mark.parametrize("key_id", ["", "ab", "a/b/c", "two words", "a" * 129, "käse"])
def test_other_ids_are_refused(key_id: str) -> None:
    with pytest.raises(RootKeyError, match=r"^root-access-key-id: it has 3 to 128"):
        RootKey(key_id, "12345678")


@pytest.mark.parametrize("secret", ["", "1234567", "a secret with spaces", "s" * 129, "gehäuse8"])
def test_weak_secrets_are_refused_and_not_told(secret: str) -> None:
    with pytest.raises(RootKeyError, match=r"^root-secret-access-key: it has 8 to 128") as refused:
        RootKey("root", secret)
    assert not secret or secret not in str(refused.value)


def test_the_secret_is_not_shown() -> None:
    assert "12345678" not in repr(RootKey("root", "12345678"))
