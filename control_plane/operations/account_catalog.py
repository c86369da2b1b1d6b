"""The operations on accounts that a front end serves."""

from control_plane.operations.administration import Administration
from control_plane.operations.close_account import close_account
from control_plane.operations.create_access_key import create_access_key
from control_plane.operations.create_account import create_account
from control_plane.operations.create_user import create_user
from control_plane.operations.delete_user import delete_user
from control_plane.operations.list_access_keys import list_access_keys
from control_plane.operations.list_accounts import list_accounts
from control_plane.operations.list_users import list_users
from control_plane.operations.revoke_access_key import revoke_access_key
from control_plane.operations.set_quotas import set_quotas
from data_plane.protocol.operation import Operation


def account_operations(administration: Administration) -> tuple[Operation, ...]:
    """All operations on accounts, their users and access keys."""
    return (
        create_account(administration),
        list_accounts(administration),
        close_account(administration),
        set_quotas(administration),
        create_user(administration),
        list_users(administration),
        delete_user(administration),
        create_access_key(administration),
        list_access_keys(administration),
        revoke_access_key(administration),
    )
