"""Accounts, users and access keys as answers show them: never with a secret."""

from control_plane.core.account import Account, ListedKey, User
from data_plane.protocol.operation import Params


def rendered_account(account: Account) -> Params:
    """An account; what is empty is left out."""
    shown: dict[str, object] = {
        "AccountId": account.id,
        "Name": account.name,
        "CreatedTimestamp": account.created_s,
    }
    if not account.is_open:
        shown["ClosedTimestamp"] = account.closed_s
    if account.quotas:
        shown["Quotas"] = dict(account.quotas)
    return shown


def rendered_user(user: User) -> Params:
    """A user; without policies the member is left out."""
    shown: dict[str, object] = {
        "UserName": user.name,
        "UserId": user.id,
        "CreatedTimestamp": user.created_s,
    }
    if user.policies:
        shown["Policies"] = list(user.policies)
    return shown


def rendered_key(key: ListedKey) -> Params:
    """An access key; one of the account's root has neither user nor service."""
    shown: dict[str, object] = {"AccessKeyId": key.id, "CreatedTimestamp": key.created_s}
    if key.user:
        shown["UserName"] = key.user
    if key.service:
        shown["Service"] = key.service
    return shown
