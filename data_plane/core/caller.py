"""Who calls: what a verified access key says of its bearer."""

from dataclasses import dataclass, field
from typing import Final

from data_plane.core.partitions import AWS

ROOT: Final = "root"


@dataclass(frozen=True, slots=True)
class Caller:
    """The principal of a request.

    `account` is the caller's own, 12 digits; `user` its user there ("": the account's root).
    `policies` are the user's identity policies as JSON documents; root needs none. A `service`
    ("sns.amazonaws.com") calls for others, and for an account only where a queue's policy lets it.
    `access_key_id` names the credentials in logs. `user_id` is the user's unique id ("AIDA..."),
    which a user of the same name that is made later does not have.
    """

    account: str
    user: str = ""
    service: str = ""
    access_key_id: str = ""
    policies: tuple[str, ...] = ()
    user_id: str = ""

    @property
    def is_root(self) -> bool:
        """Whether identity policies do not apply to it."""
        return not self.user and not self.service

    @property
    def sender(self) -> str:
        """The SenderId of its messages: the account's id of root, the unique id of a user."""
        return self.user_id or self.account

    @property
    def arn(self) -> str:
        """The principal's ARN; a service's is its name."""
        return self.arn_in(AWS)

    def arn_in(self, partition: str) -> str:
        """The principal's ARN as the regions of a partition have it."""
        if self.service:
            return self.service
        return f"arn:{partition}:iam::{self.account}:{f'user/{self.user}' if self.user else ROOT}"


@dataclass(frozen=True, slots=True)
class AccessKey:
    """An active access key: its secret, and whom it authenticates."""

    id: str
    secret: str = field(repr=False)
    caller: Caller
