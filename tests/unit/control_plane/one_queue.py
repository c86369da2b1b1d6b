"""Whether a service, however it was opened, holds accounts to what they may define."""

from typing import Final

import pytest

from control_plane.service import RunningService
from data_plane.core.errors import RefusedError

_ACCOUNT: Final = "444455556666"


async def hold_to_one_queue(service: RunningService) -> None:
    """A second queue is refused where there may be one."""
    await service.accounts.create_account("tenant", _ACCOUNT, {"account_queues": 1})

    async def create(name: str) -> None:
        place = {"account": _ACCOUNT, "region": "eu-west-1", "name": name}
        wanted = service.registry.define(**place, attributes={}, tags={}, now_us=1)
        await service.registry.create(wanted, {}, 1)

    await create("one")
    with pytest.raises(RefusedError, match="has 1 queues, and its quota is 1"):
        await create("two")
