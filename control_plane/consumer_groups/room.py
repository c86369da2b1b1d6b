"""How many consumer groups an account may have, and how many members each of them."""

from dataclasses import dataclass
from typing import NamedTuple

from data_plane.core.limits import ACCOUNT_GROUPS_MAX, GROUP_MEMBERS_MAX
from data_plane.core.quotas import UNLIMITED
from data_plane.ports import AccountQuotas


class GroupLimits(NamedTuple):
    """Groups in a region, and members of a group."""

    groups: int
    members: int


@dataclass(frozen=True, slots=True)
class GroupRoom:
    """What accounts may have by their `quotas` (None: nobody has one)."""

    quotas: AccountQuotas | None = None

    async def limits(self, account: str) -> GroupLimits:
        """What the account may have: what its quotas do not say is as much as by default.

        Raises CellUnavailableError.
        """
        allowed = UNLIMITED if self.quotas is None else await self.quotas.find_quotas(account)
        return GroupLimits(
            allowed.defined.groups or ACCOUNT_GROUPS_MAX,
            allowed.defined.members or GROUP_MEMBERS_MAX,
        )
