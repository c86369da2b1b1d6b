"""Master keys that took the place of others, which still open what was sealed under them."""

from collections.abc import Mapping

from data_plane.keys import kms
from data_plane.keys.file import KeyFile
from data_plane.keys.kms import KmsKeys
from data_plane.ports import WrappedKey


class KmsAfterFile:
    """Implements `data_plane.ports.MasterKeys`: KMS wraps, the file opens what it has wrapped."""

    def __init__(self, newer: KmsKeys, older: KeyFile) -> None:
        self._newer = newer
        self._older = older

    async def generate(
        self, context: Mapping[str, str], key_id: str = ""
    ) -> tuple[bytes, WrappedKey]:
        """See KmsKeys."""
        return await self._newer.generate(context, key_id)

    async def wrap(self, plain: bytes, context: Mapping[str, str]) -> WrappedKey:
        """See KmsKeys."""
        return await self._newer.wrap(plain, context)

    async def unwrap(self, key: WrappedKey, context: Mapping[str, str]) -> bytes:
        """The key that was wrapped, by either."""
        wrapped_by_kms = key.master_key.startswith(kms.KIND)
        return await (self._newer if wrapped_by_kms else self._older).unwrap(key, context)

    def is_current(self, key: WrappedKey) -> bool:
        """See KmsKeys."""
        return self._newer.is_current(key)
