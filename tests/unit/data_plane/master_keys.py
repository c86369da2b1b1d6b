"""Master keys that a test holds in its hands: they can be away, or refuse."""

from collections import Counter
from collections.abc import Mapping

from data_plane.core.sealing import DataSeal, NotSealedHereError, place
from data_plane.ports import MasterKeysError, WrappedKey
from tests.unit.repeatable import SeededEntropy


class HeldKeys:
    """The port MasterKeys with a key for each id; `failure` is raised instead of an answer."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.failure: Exception | None = None
        self._entropy = SeededEntropy(seed=7)

    def _asked(self, operation: str) -> None:
        self.requests[operation] += 1
        if self.failure is not None:
            raise self.failure

    async def generate(
        self, context: Mapping[str, str], key_id: str = ""
    ) -> tuple[bytes, WrappedKey]:
        self._asked("generate")
        plain = self._entropy.random_bytes(32)
        return plain, _wrapped(plain, context, key_id, self._entropy.random_bytes(12))

    async def wrap(self, plain: bytes, context: Mapping[str, str]) -> WrappedKey:
        self._asked("wrap")
        return _wrapped(plain, context, "", self._entropy.random_bytes(12))

    async def unwrap(self, key: WrappedKey, context: Mapping[str, str]) -> bytes:
        self._asked("unwrap")
        try:
            return DataSeal(_key(key.master_key)).unseal(key.wrapped, _bound(context))
        except NotSealedHereError:
            raise MasterKeysError("InvalidCiphertext", "it does not open") from None

    def is_current(self, key: WrappedKey) -> bool:
        return key.master_key == "held:"


def _key(master_key: str) -> bytes:
    return master_key.encode().ljust(32)[:32]


def _bound(context: Mapping[str, str]) -> bytes:
    return place(*(part for pair in sorted(context.items()) for part in pair))


def _wrapped(plain: bytes, context: Mapping[str, str], key_id: str, nonce: bytes) -> WrappedKey:
    master_key = f"held:{key_id}"
    return WrappedKey(master_key, DataSeal(_key(master_key)).seal(nonce, plain, _bound(context)))
