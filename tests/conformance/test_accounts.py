"""Accounts over the wire: who may administer what, and who gets at which queues."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from control_plane.service import OPERATOR
from tests.conformance.in_process import InProcessServer

SHOP = "111122223333"
BANK = "444455556666"
SENDER = (
    '{"Version":"2012-10-17","Statement":'
    '{"Effect":"Allow","Action":["sqs:SendMessage","sqs:ReceiveMessage"],"Resource":"*"}}'
)
EVERYTHING = (
    '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sqs:*","Resource":"*"}}'
)


class Site:
    """A server that verifies signatures; `operator` has the root account's access key."""

    def __init__(self) -> None:
        self.server = InProcessServer(verifies=True)
        self.shown: list[str] = []
        self.server.run(self.server.accounts.create_account("root", OPERATOR, {}))
        new = self.server.run(self.server.accounts.create_key(OPERATOR))
        self.operator = self.client(new.id, new.secret)
        for account in (SHOP, BANK):
            self.operator.tidegate_create_account(Name="one", AccountId=account)

    def client(self, access_key_id: str, secret: str, server: InProcessServer | None = None) -> Any:
        return (server or self.server).client(account=access_key_id, secret=secret, extended=True)

    def new_client(self, by: Any = None, **whose: str) -> Any:
        made = (by or self.operator).tidegate_create_access_key(**whose)
        self.shown.append(made["SecretAccessKey"])
        return self.client(made["AccessKeyId"], made["SecretAccessKey"])

    def acts(self) -> list[tuple[object, ...]]:
        return [(act["act"], act["account"]) for act in self.server.acts]


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.server.close()


def code(call: Any, **params: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**params)
    return str(refused.value.response["Error"]["Code"])


def key_id(client: Any) -> str:
    return str(client._request_signer._credentials.access_key)


def test_accounts_do_not_see_each_others_queues(site: Site) -> None:
    shop, bank = site.new_client(AccountId=SHOP), site.new_client(AccountId=BANK)
    url = shop.create_queue(QueueName="orders")["QueueUrl"]
    assert f"/{SHOP}/" in url
    bank.create_queue(QueueName="orders")
    shop.send_message(QueueUrl=url, MessageBody="for the shop")
    assert "Messages" not in bank.receive_message(QueueUrl="orders")
    for call in (bank.receive_message, bank.purge_queue, bank.delete_queue):
        assert code(call, QueueUrl=url) == "AccessDenied"
    (message,) = shop.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"]
    assert message["Attributes"]["SenderId"] == SHOP


def test_a_user_does_what_its_policies_allow_and_is_named_as_sender(site: Site) -> None:
    shop = site.new_client(AccountId=SHOP)
    url = shop.create_queue(QueueName="orders")["QueueUrl"]
    user = shop.tidegate_create_user(UserName="ann", Policies=[SENDER])
    ann = site.new_client(by=shop, UserName="ann")
    ann.send_message(QueueUrl=url, MessageBody="hello")
    (message,) = ann.receive_message(QueueUrl=url, AttributeNames=["SenderId"])["Messages"]
    assert message["Attributes"] == {"SenderId": user["UserId"]}
    assert user["UserId"].startswith("AIDA")
    assert code(ann.delete_message, QueueUrl=url, ReceiptHandle=message["ReceiptHandle"]) == (
        "AccessDenied"
    )


def test_a_revoked_key_is_refused_here_at_once_and_elsewhere_within_5_seconds(site: Site) -> None:
    shop = site.new_client(AccountId=SHOP)
    elsewhere = site.client(key_id(shop), site.shown[-1], site.server.another())
    elsewhere.list_queues()
    site.operator.tidegate_revoke_access_key(AccountId=SHOP, AccessKeyId=key_id(shop))
    assert code(shop.list_queues) == "InvalidClientTokenId"
    site.server.clock.advance(5)
    assert code(elsewhere.list_queues) == "InvalidClientTokenId"


def test_the_root_of_an_account_administers_its_own_users_and_keys_alone(site: Site) -> None:
    shop = site.new_client(AccountId=SHOP)
    shop.tidegate_create_user(UserName="ann")
    made = shop.tidegate_create_access_key(UserName="ann", AccountId=SHOP)
    assert [key.get("UserName") for key in shop.tidegate_list_access_keys()["AccessKeys"]] == [
        None,
        "ann",
    ]
    shop.tidegate_revoke_access_key(AccessKeyId=made["AccessKeyId"])
    shop.tidegate_delete_user(UserName="ann")
    before = site.acts()
    for call, params in (
        (shop.tidegate_create_account, {"Name": "mine"}),
        (shop.tidegate_list_accounts, {}),
        (shop.tidegate_close_account, {"AccountId": SHOP}),
        (shop.tidegate_set_quotas, {"AccountId": SHOP, "Quotas": {}}),
        (shop.tidegate_create_user, {"AccountId": BANK, "UserName": "spy"}),
        (shop.tidegate_list_users, {"AccountId": OPERATOR}),
        (shop.tidegate_delete_user, {"AccountId": BANK, "UserName": "spy"}),
        (shop.tidegate_create_access_key, {"AccountId": BANK}),
        (shop.tidegate_create_access_key, {"Service": "sns.amazonaws.com"}),
        (shop.tidegate_list_access_keys, {"AccountId": OPERATOR}),
        (shop.tidegate_revoke_access_key, {"AccountId": OPERATOR, "AccessKeyId": "AKIA"}),
    ):
        assert code(call, **params) == "AccessDenied", call
    assert site.acts() == before


def test_a_user_administers_nothing_whatever_its_policies_say(site: Site) -> None:
    for account in (OPERATOR, SHOP):
        site.operator.tidegate_create_user(AccountId=account, UserName="ann", Policies=[EVERYTHING])
        ann = site.new_client(AccountId=account, UserName="ann")
        ann.list_queues()
        service = site.new_client(AccountId=account, Service="sns.amazonaws.com")
        before = site.acts()
        for client in (ann, service):
            assert code(client.tidegate_create_account, Name="mine") == "AccessDenied"
            assert code(client.tidegate_create_user, UserName="bob") == "AccessDenied"
            assert code(client.tidegate_create_access_key) == "AccessDenied"
            assert code(client.tidegate_list_access_keys) == "AccessDenied"
        assert site.acts() == before


def test_the_operator_sees_all_pages(site: Site) -> None:
    for name in ("ann", "bob", "cid"):
        site.operator.tidegate_create_user(AccountId=SHOP, UserName=name)
        site.operator.tidegate_create_access_key(AccountId=SHOP, UserName=name)

    def listed(what: str, result: str, **params: str) -> list[Any]:
        pages = site.operator.get_paginator(f"tidegate_list_{what}").paginate(
            **params, PaginationConfig={"PageSize": 1}
        )
        return [entry for page in pages for entry in page.get(result, [])]

    assert [one["AccountId"] for one in listed("accounts", "Accounts")] == [OPERATOR, SHOP, BANK]
    names = [one["UserName"] for one in listed("users", "Users", AccountId=SHOP)]
    keys = [one["UserName"] for one in listed("access_keys", "AccessKeys", AccountId=SHOP)]
    assert names == keys == ["ann", "bob", "cid"]


def test_a_closed_account_is_out_and_says_so(site: Site) -> None:
    shop = site.new_client(AccountId=SHOP)
    shop.create_queue(QueueName="orders")
    site.operator.tidegate_close_account(AccountId=SHOP)
    assert code(shop.list_queues) == "InvalidClientTokenId"
    closed = {one["AccountId"]: one for one in site.operator.tidegate_list_accounts()["Accounts"]}
    assert closed[SHOP]["ClosedTimestamp"] >= closed[SHOP]["CreatedTimestamp"]
    assert "ClosedTimestamp" not in closed[BANK]
    assert code(site.operator.tidegate_close_account, AccountId=OPERATOR) == "InvalidParameterValue"


def test_quotas_are_replaced_as_a_whole(site: Site) -> None:
    quotas = {"account_send_per_s": 5, "account_send_burst": 7, "long_polls": 3}
    answer = site.operator.tidegate_set_quotas(AccountId=SHOP, Quotas=quotas)
    assert answer["Quotas"] == quotas
    assert "Quotas" not in site.operator.tidegate_set_quotas(AccountId=SHOP, Quotas={})


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("create_account", {"Name": ""}),
        ("create_account", {"Name": "a", "AccountId": "12"}),
        ("close_account", {"AccountId": "../1"}),
        ("create_user", {"UserName": "a\r\nb"}),
        ("create_user", {"UserName": "ann", "AccountId": "one"}),
        ("create_access_key", {"UserName": "a", "Service": "sns.amazonaws.com"}),
        ("list_accounts", {"MaxResults": 101}),
        ("list_accounts", {"NextToken": "\n"}),
        ("list_users", {"NextToken": "x" * 65}),
        ("list_access_keys", {"MaxResults": 0}),
    ],
)
def test_what_is_wrong_is_refused(site: Site, operation: str, params: dict[str, Any]) -> None:
    before = site.acts()
    assert code(getattr(site.operator, f"tidegate_{operation}"), **params) in {
        "InvalidParameterValue",
        "MissingParameter",
    }
    assert site.acts() == before


def test_each_act_has_one_line_which_names_who_did_it_and_no_secret(site: Site) -> None:
    operator = {"caller": f"arn:aws:iam::{OPERATOR}:root", "access_key_id": key_id(site.operator)}
    site.server.acts.clear()
    site.operator.tidegate_create_user(AccountId=SHOP, UserName="ann", Policies=[SENDER])
    ann = site.new_client(AccountId=SHOP, UserName="ann")
    site.operator.tidegate_list_access_keys(AccountId=SHOP)
    site.operator.tidegate_revoke_access_key(AccountId=SHOP, AccessKeyId=key_id(ann))
    site.operator.tidegate_delete_user(AccountId=SHOP, UserName="ann")
    site.operator.tidegate_set_quotas(AccountId=SHOP, Quotas={"long_polls": 1})
    site.operator.tidegate_close_account(AccountId=SHOP)
    assert [act["act"] for act in site.server.acts] == [
        "TidegateCreateUser",
        "TidegateCreateAccessKey",
        "TidegateRevokeAccessKey",
        "TidegateDeleteUser",
        "TidegateSetQuotas",
        "TidegateCloseAccount",
    ]
    for act in site.server.acts:
        assert act["account"] == SHOP
        assert {name: act[name] for name in operator} == operator
    assert {act.get("user", "") for act in site.server.acts[:4]} == {"ann"}
    told = repr((site.server.acts, site.server.served))
    assert site.shown
    assert not any(secret in told for secret in site.shown)


def test_without_authentication_anybody_may_administer_anything() -> None:
    server = InProcessServer()
    try:
        client = server.client(account=SHOP, extended=True)
        account = client.tidegate_create_account(Name="shop")["AccountId"]
        client.tidegate_create_user(AccountId=account, UserName="ann")
        made = client.tidegate_create_access_key(AccountId=account, UserName="ann")
        assert len(made["SecretAccessKey"]) == 40
        assert {act["caller"] for act in server.acts} == {"not authenticated"}
    finally:
        server.close()
