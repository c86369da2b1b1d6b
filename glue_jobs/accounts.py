"""Who may be billed: the accounts file, where there is one.

    {"schema": "tidegate.accounts/1", "operator": "000000000000",
     "accounts": {"111122223333": {"name": "Orders", "fair_queues": ["jobs"]}}}

With it, usage of an account that neither it nor the registry has is an error; the operator's own
account is known. Without it every account is billed by its id, and no queue is a fair one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from glue_jobs.arguments import JobError, json_of
from glue_jobs.records import ACCOUNT, FIFO_SUFFIX

OPERATOR: Final = "000000000000"
"""The operator's own account, where nothing names another."""

SCHEMA: Final = "tidegate.accounts/1"


@dataclass(frozen=True, slots=True)
class Accounts:
    """Names of accounts by their ids, and names of fair queues; `known`: there are no others."""

    known: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    fair_queues: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    operator: str = OPERATOR

    def with_names(self, names: Mapping[str, str]) -> "Accounts":
        """With names that the registry has of accounts; the file's own count."""
        return replace(self, names={**names, **self.names})

    def check(self, used: Iterable[str]) -> None:
        """Raise JobError where one of the accounts is unknown."""
        unknown = sorted(set(used) - {*self.names, self.operator}) if self.known else []
        if unknown:
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise JobError(
                f"account {unknown[0]}{more}: there is usage, and the accounts file lacks it"
            )


def read_accounts(text: bytes, name: str) -> Accounts:
    """Accounts from a file's text. Raises JobError."""
    try:
        said = json_of(text)
        if said["schema"] != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        its = {
            id_: (each["name"], each.get("fair_queues", []))
            for id_, each in said["accounts"].items()
        }
        operator = said.get("operator", OPERATOR)
        for id_ in (*its, operator):
            if not id_ or not ACCOUNT.fullmatch(id_):
                raise ValueError(f"{id_!r} is no account id of 12 digits")
        for _, queues in its.values():
            if not isinstance(queues, list):
                raise ValueError(f"fair_queues is {queues!r}, not a list of names")  # noqa: TRY004 - a wrong file
            if fifo := [name for name in queues if name.endswith(FIFO_SUFFIX)]:
                raise ValueError(f"{fifo[0]} is a FIFO queue, and none of the fair queues")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise JobError(f"accounts {name}: {reason}") from error
    return Accounts(
        known=True,
        names={id_: str(name) for id_, (name, _) in its.items()},
        fair_queues={id_: tuple(queues) for id_, (_, queues) in its.items() if queues},
        operator=operator,
    )
