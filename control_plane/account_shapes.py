"""Shapes of the operations on accounts, which SQS does not have: `sdk/` shows them to clients.

In every input `AccountId` is the caller's own account where it is not given.
"""

from data_plane.protocol.shapes import INTEGER, STRING, ListOf, MapOf, Structure

NOTHING = Structure()

_QUOTAS = MapOf(INTEGER, "Quota")
_POLICIES = ListOf(STRING, "Policy")
_PAGE = {"MaxResults": INTEGER, "NextToken": STRING}

ACCOUNT = Structure(
    {
        "AccountId": STRING,
        "Name": STRING,
        "CreatedTimestamp": INTEGER,
        "ClosedTimestamp": INTEGER,
        "Quotas": _QUOTAS,
    }
)
CREATE_ACCOUNT_INPUT = Structure(
    {"Name": STRING, "AccountId": STRING, "Quotas": _QUOTAS}, required=("Name",)
)
LIST_ACCOUNTS_INPUT = Structure(_PAGE)
LIST_ACCOUNTS_OUTPUT = Structure({"Accounts": ListOf(ACCOUNT, "Account"), "NextToken": STRING})
CLOSE_ACCOUNT_INPUT = Structure({"AccountId": STRING}, required=("AccountId",))
SET_QUOTAS_INPUT = Structure(
    {"AccountId": STRING, "Quotas": _QUOTAS}, required=("AccountId", "Quotas")
)

USER = Structure(
    {"UserName": STRING, "UserId": STRING, "CreatedTimestamp": INTEGER, "Policies": _POLICIES}
)
CREATE_USER_INPUT = Structure(
    {"AccountId": STRING, "UserName": STRING, "Policies": _POLICIES}, required=("UserName",)
)
LIST_USERS_INPUT = Structure({"AccountId": STRING, **_PAGE})
LIST_USERS_OUTPUT = Structure({"Users": ListOf(USER, "User"), "NextToken": STRING})
DELETE_USER_INPUT = Structure({"AccountId": STRING, "UserName": STRING}, required=("UserName",))

_ACCESS_KEY = {
    "AccessKeyId": STRING,
    "UserName": STRING,
    "Service": STRING,
    "CreatedTimestamp": INTEGER,
}
CREATE_ACCESS_KEY_INPUT = Structure({"AccountId": STRING, "UserName": STRING, "Service": STRING})
CREATE_ACCESS_KEY_OUTPUT = Structure(
    {"AccountId": STRING, **_ACCESS_KEY, "SecretAccessKey": STRING}
)
LIST_ACCESS_KEYS_INPUT = Structure({"AccountId": STRING, **_PAGE})
LIST_ACCESS_KEYS_OUTPUT = Structure(
    {"AccessKeys": ListOf(Structure(_ACCESS_KEY), "AccessKey"), "NextToken": STRING}
)
REVOKE_ACCESS_KEY_INPUT = Structure(
    {"AccountId": STRING, "AccessKeyId": STRING}, required=("AccessKeyId",)
)
