"""KMS as universes have it: keys that are disabled, denied or throttled for a while, far away."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from data_plane.ports import MasterKeysError, WrappedKey
from tests.simulation.faulty_cell import FaultyCell
from tests.simulation.scheduler import Scheduler
from tests.simulation.sealed import plain_key

CLOSED_HOW = ("Disabled", "AccessDenied", "Throttling", "KMSInvalidState")


@dataclass
class KeyService:
    """All keys there are. Those that are `closed` serve nobody until then, and say how.

    `refused_us` says when it refused.
    """

    scheduler: Scheduler
    closed: dict[str, tuple[int, str]] = field(default_factory=dict)
    refused_us: list[int] = field(default_factory=list)

    def refusal(self, key_id: str) -> MasterKeysError | None:
        """Why a key does not serve now."""
        until_us, how = self.closed.get(key_id, (0, ""))
        if until_us <= self.scheduler.now_us:
            return None
        self.refused_us.append(self.scheduler.now_us)
        return MasterKeysError(how, f"{key_id} does not serve")

    async def generate(
        self, context: Mapping[str, str], key_id: str
    ) -> tuple[bytes, WrappedKey] | MasterKeysError:
        """See MasterKeys; refusals are returned, as they come back the same way."""
        refusal = self.refusal(key_id)
        return refusal or (plain_key(key_id), WrappedKey(key_id, _wrapped(context)))

    async def unwrap(self, key: WrappedKey, context: Mapping[str, str]) -> bytes | MasterKeysError:
        """Likewise."""
        if key.wrapped != _wrapped(context):
            return MasterKeysError("InvalidCiphertext", "it does not open")
        return self.refusal(key.master_key) or plain_key(key.master_key)


class FaultyMasterKeys:
    """Implements MasterKeys for one front end, whose `way` to them is that to the registry."""

    def __init__(self, service: KeyService, way: FaultyCell) -> None:
        self._service = service
        self._way = way

    async def generate(
        self, context: Mapping[str, str], key_id: str = ""
    ) -> tuple[bytes, WrappedKey]:
        answer = await self._way.call(lambda: self._service.generate(context, key_id))
        if isinstance(answer, MasterKeysError):
            raise answer
        return answer

    async def wrap(self, plain: bytes, context: Mapping[str, str]) -> WrappedKey:
        raise NotImplementedError("queues generate their keys")

    async def unwrap(self, key: WrappedKey, context: Mapping[str, str]) -> bytes:
        answer = await self._way.call(lambda: self._service.unwrap(key, context))
        if isinstance(answer, MasterKeysError):
            raise answer
        return answer

    def is_current(self, key: WrappedKey) -> bool:  # noqa: ARG002
        return True


def _wrapped(context: Mapping[str, str]) -> bytes:
    return repr(sorted(context.items())).encode()
