"""Who may administer accounts, and what is noted when somebody does."""

from dataclasses import dataclass
from typing import Final, Protocol

from control_plane.accounts import Accounts
from data_plane.core.errors import ACCESS_DENIED, INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.identifiers import is_account
from data_plane.core.limits import ACCOUNTS_LISTED_MAX
from data_plane.protocol.operation import Call

_NAME_CHARS_MAX: Final = 64


class Record(Protocol):
    """Writes one line of the log."""

    def __call__(self, event: str, **fields: object) -> None:
        """Note an event."""
        ...


@dataclass(frozen=True, slots=True)
class Administration:
    """The accounts, and the rules for those who change them.

    The root of the `operator`'s account may do everything, the root of another account may do what
    concerns its own users and access keys, nobody else anything. Without `checked` signatures
    whoever reaches the server may do everything.
    """

    accounts: Accounts
    operator: str
    checked: bool
    record: Record

    def check_operator(self, call: Call, act: str) -> None:
        """Raise RefusedError (AccessDenied) unless the operator calls."""
        if self.checked and not self._is_root_of(call, self.operator):
            raise _denied(call, act)

    def account_of(self, call: Call, act: str) -> str:
        """The account that the call is about, if the caller may administer it.

        Raises RefusedError (AccessDenied, InvalidParameterValue).
        """
        account: str = call.params.get("AccountId") or call.account
        if not (self.checked and self._is_root_of(call, account)):
            self.check_operator(call, act)
        check_account_id(account)
        return account

    def note(self, call: Call, act: str, account: str, **subject: str) -> None:
        """Log what was done, by whom, to which account."""
        caller = call.caller
        self.record(
            "administration",
            act=act,
            request_id=call.request_id,
            caller=caller.arn if caller is not None and self.checked else "not authenticated",
            access_key_id=caller.access_key_id if caller is not None else "",
            account=account,
            **{name: value for name, value in subject.items() if value},
        )

    @staticmethod
    def _is_root_of(call: Call, account: str) -> bool:
        caller = call.caller
        return caller is not None and caller.is_root and caller.account == account


def check_account_id(account: str) -> None:
    """Raise RefusedError (InvalidParameterValue)."""
    if not is_account(account):
        raise RefusedError(INVALID_PARAMETER_VALUE, "An AccountId has 12 digits.")


def page_size(call: Call) -> int:
    """The caller's MaxResults, or the most there may be. Raises RefusedError."""
    size: int = call.params.get("MaxResults", ACCOUNTS_LISTED_MAX)
    if not 1 <= size <= ACCOUNTS_LISTED_MAX:
        raise RefusedError(
            INVALID_PARAMETER_VALUE, f"MaxResults must be between 1 and {ACCOUNTS_LISTED_MAX}."
        )
    return size


def last_listed(call: Call) -> str:
    """What the page before ended with: a NextToken is the name itself, for its account's root.

    Raises RefusedError for what can be no name.
    """
    token: str = call.params.get("NextToken") or ""
    if token and not (token.isascii() and token.isprintable() and len(token) <= _NAME_CHARS_MAX):
        raise RefusedError(INVALID_PARAMETER_VALUE, "Invalid NextToken value.")
    return token


def _denied(call: Call, act: str) -> RefusedError:
    who = call.caller.arn if call.caller is not None else "anonymous"
    return RefusedError(ACCESS_DENIED, f"User: {who} is not authorized to perform: sqs:{act}")
