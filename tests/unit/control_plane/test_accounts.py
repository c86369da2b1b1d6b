"""Accounts, users and access keys over a memory cell, in virtual time, by several servers."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from control_plane.accounts import Accounts
from control_plane.core.account import NewKey
from control_plane.core.item_field import UnknownItemFormatError
from data_plane.core.caller import AccessKey
from data_plane.core.errors import RefusedError
from data_plane.core.quotas import DEFAULT_QUOTAS, UNLIMITED
from data_plane.core.sealing import NotSealedHereError
from data_plane.memory.cell import MemoryCell
from data_plane.ports import (
    ALWAYS,
    Attributes,
    CellUnavailableError,
    Condition,
    Key,
    Tallies,
    Written,
    no_tallies,
)
from tests.unit.repeatable import HandClock, SeededEntropy

T = TypeVar("T")

ACCOUNT = "111122223333"
OTHER = "444455556666"
SECRET = bytes(range(32))
POLICY = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sqs:*","Resource":"*"}]}'


class HardCell(MemoryCell):
    """A cell that may be away, repeat its writes as one does whose reply was lost, or crash."""

    away = False
    repeats = False
    crashes_after: Callable[[str], bool] = staticmethod(lambda _partition: False)
    before_put: Callable[[], Awaitable[object]] | None = None

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        if self.away:
            raise CellUnavailableError("away")
        return await super().get(key, strong=strong)

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        interlude, self.before_put = self.before_put, None
        if interlude is not None:
            await interlude()
        written = await super().put(key, attributes, condition, tallies)
        if self.crashes_after(key.partition):
            raise CellUnavailableError("crashed")
        return await super().put(key, attributes, condition, tallies) if self.repeats else written

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        written = await super().delete(key, condition, tallies)
        return await super().delete(key, condition, tallies) if self.repeats else written


class Site:
    """Servers of one registry; `one` is the first."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.cell = HardCell(self.clock)
        self.entropy = SeededEntropy()
        self.one = self.server()
        self.do(self.one.create_account("shop", ACCOUNT))

    def server(self) -> Accounts:
        return Accounts(self.cell, self.clock, self.entropy, SECRET)

    def do(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(call)

    def key(self, server: Accounts | None = None, account: str = ACCOUNT, **whose: Any) -> NewKey:
        return self.do((server or self.one).create_key(account, **whose))

    def found(self, new: NewKey, server: Accounts | None = None) -> AccessKey | None:
        return self.do((server or self.one).find_key(new.id))

    def refusal(self, call: Coroutine[Any, Any, object]) -> str:
        """Why it is refused, which must leave everything as it was."""
        before = self.cell.items()
        with pytest.raises(RefusedError) as refused:
            self.do(call)
        assert self.cell.items() == before
        return f"{refused.value.fault.code}: {refused.value.message}"

    def partitions(self) -> list[str]:
        return sorted(item.key.partition for item in self.cell.items())


@pytest.fixture
def site() -> Site:
    return Site()


# Accounts


def test_an_account_has_a_random_id_of_12_digits_and_the_usual_quotas(site: Site) -> None:
    made = [site.do(site.one.create_account(f"a{number}")) for number in range(20)]
    assert len({account.id for account in made}) == 20
    stored = site.do(site.server().account(made[0].id))
    assert stored == made[0]
    assert site.do(site.one.find_quotas(made[0].id)) == DEFAULT_QUOTAS
    assert site.do(site.one.find_quotas("999999999999")) == UNLIMITED


def test_accounts_are_listed_in_order_a_page_at_a_time(site: Site) -> None:
    for number in (3, 1, 2):
        site.do(site.one.create_account("a", str(number) * 12))

    def page(after: str, limit: int) -> list[str]:
        return [account.id for account in site.do(site.one.accounts(after=after, limit=limit))]

    assert page("", 2) == ["1" * 12, ACCOUNT]
    assert page(ACCOUNT, 2) == ["2" * 12, "3" * 12]
    assert page("3" * 12, 2) == []


def test_an_id_is_taken_once(site: Site) -> None:
    assert site.refusal(site.one.create_account("again", ACCOUNT)) == (
        f"InvalidParameterValue: There is an account {ACCOUNT} already."
    )


def test_quotas_show_within_5_seconds(site: Site) -> None:
    other = site.server()
    assert site.do(other.find_quotas(ACCOUNT)) == DEFAULT_QUOTAS
    site.do(site.one.set_quotas(ACCOUNT, {"long_polls": 7}))
    assert site.do(site.one.find_quotas(ACCOUNT)).long_polls == 7
    site.clock.advance(5)
    assert site.do(other.find_quotas(ACCOUNT)).long_polls == 7
    site.do(site.one.set_quotas(ACCOUNT, {}))
    assert site.do(site.one.find_quotas(ACCOUNT)) == UNLIMITED


def test_a_closed_account_stays_closed_and_its_keys_are_dead(site: Site) -> None:
    site.do(site.one.create_user(ACCOUNT, "ann"))
    keys = [site.key(), site.key(user="ann"), site.key(service="sns.amazonaws.com")]
    other = site.server()
    assert all(site.found(key, other) for key in keys)
    site.do(site.one.close_account(ACCOUNT))
    assert [site.found(key) for key in keys] == [None] * 3
    site.clock.advance(5)
    assert [site.found(key, other) for key in keys] == [None] * 3
    assert not any(name.startswith("N|") for name in site.partitions()), "a secret is left"
    closed = f"InvalidParameterValue: The account {ACCOUNT} is closed."
    assert site.refusal(site.one.close_account(ACCOUNT)) == closed
    assert site.refusal(site.one.set_quotas(ACCOUNT, {})) == closed
    assert site.refusal(site.one.create_user(ACCOUNT, "bob")) == closed
    assert site.refusal(site.one.create_key(ACCOUNT)) == closed


# Users


def test_users_are_listed_with_their_policies(site: Site) -> None:
    for name in ("bob", "ann", "cid"):
        site.do(site.one.create_user(ACCOUNT, name, [POLICY]))
    users = site.do(site.server().users(ACCOUNT, limit=2))
    assert [(user.name, user.policies) for user in users] == [
        ("ann", (POLICY,)),
        ("bob", (POLICY,)),
    ]
    assert [user.name for user in site.do(site.one.users(ACCOUNT, after="bob", limit=2))] == ["cid"]
    assert len({user.id for user in users}) == 2


def test_a_user_that_is_made_again_is_another_one(site: Site) -> None:
    first = site.do(site.one.create_user(ACCOUNT, "ann"))
    old = site.key(user="ann")
    assert site.found(old) is not None
    site.do(site.one.delete_user(ACCOUNT, "ann"))
    assert site.found(old) is None
    second = site.do(site.one.create_user(ACCOUNT, "ann"))
    assert second.id != first.id
    new = site.found(site.key(user="ann"))
    assert new is not None
    assert new.caller.sender == second.id
    assert site.found(old) is None


# Access keys


def test_a_key_says_who_its_bearer_is(site: Site) -> None:
    user = site.do(site.one.create_user(ACCOUNT, "ann", [POLICY]))
    root, of_user, of_service = (
        site.key(),
        site.key(user="ann"),
        site.key(service="sns.amazonaws.com"),
    )
    found = site.found(root)
    assert found is not None
    assert (found.id, found.secret) == (root.id, root.secret)
    assert found.caller.is_root
    assert (found.caller.account, found.caller.sender) == (ACCOUNT, ACCOUNT)
    found = site.found(of_user)
    assert found is not None
    assert found.caller.arn == f"arn:aws:iam::{ACCOUNT}:user/ann"
    assert (found.caller.policies, found.caller.sender) == ((POLICY,), user.id)
    found = site.found(of_service)
    assert found is not None
    assert (found.caller.arn, found.caller.is_root) == ("sns.amazonaws.com", False)


def test_two_keys_for_each_principal(site: Site) -> None:
    for name in ("ann", "bob"):
        site.do(site.one.create_user(ACCOUNT, name))
    principals: list[dict[str, Any]] = [
        {},
        {"user": "ann"},
        {"user": "bob"},
        {"service": "sns.amazonaws.com"},
    ]
    for whose in principals:
        first, second = site.key(**whose), site.key(**whose)
        assert site.found(first) is not None
        assert site.found(second) is not None
        assert site.refusal(site.one.create_key(ACCOUNT, **whose)).startswith("OverLimit: ")
        site.do(site.one.revoke_key(ACCOUNT, first.id))
        assert site.found(site.key(**whose)) is not None
    assert len(site.do(site.one.keys(ACCOUNT, limit=10)).keys) == 8


def test_keys_of_ten_services_and_no_more(site: Site) -> None:
    for number in range(10):
        site.key(service=f"s{number}.amazonaws.com")
    refused = site.refusal(site.one.create_key(ACCOUNT, service="more.amazonaws.com"))
    assert refused == "OverLimit: There are access keys of 10 services already."
    assert site.found(site.key(service="s0.amazonaws.com")) is not None


def test_policies_up_to_their_limits(site: Site) -> None:
    longest = POLICY.ljust(6144)
    user = site.do(site.one.create_user(ACCOUNT, "ann", [longest] * 10))
    assert user.policies == (longest,) * 10


def test_a_revocation_shows_here_at_once_and_elsewhere_within_5_seconds(site: Site) -> None:
    other = site.server()
    key = site.key()
    assert site.found(key) is not None
    assert site.found(key, other) is not None
    site.do(site.one.revoke_key(ACCOUNT, key.id))
    assert site.found(key) is None
    site.clock.advance(5)
    assert site.found(key, other) is None
    assert f"N|{key.id}" not in site.partitions()
    assert site.refusal(site.one.revoke_key(ACCOUNT, key.id)).startswith("ResourceNotFound")


def test_a_key_serves_for_10_minutes_while_the_cell_is_away(site: Site) -> None:
    key, never_used = site.key(), site.key()
    assert site.found(key) is not None
    site.cell.away = True
    site.clock.advance(599)
    assert site.found(key) is not None
    with pytest.raises(CellUnavailableError):
        site.found(never_used)
    site.clock.advance(1)
    with pytest.raises(CellUnavailableError):
        site.found(key)


def test_guessing_reads_nothing_and_asking_for_a_revoked_key_little(site: Site) -> None:
    revoked = site.key()
    site.do(site.one.revoke_key(ACCOUNT, revoked.id))
    before = site.cell.requests.total()
    for number in range(100):
        guess = f"AKIA{number:0>16}".translate(str.maketrans("0189", "ABCD"))
        assert site.do(site.one.find_key(guess)) is None
        assert site.do(site.one.find_key("any")) is None
    assert site.cell.requests.total() == before
    for _ in range(100):
        assert site.found(revoked) is None
    assert site.cell.requests.total() == before + 1


def test_a_hit_reads_nothing_and_a_miss_reads_twice(site: Site) -> None:
    site.do(site.one.create_user(ACCOUNT, "ann"))
    for key in (site.key(), site.key(user="ann")):
        before = site.cell.requests.total()
        for _ in range(5):
            assert site.found(key) is not None
        assert site.cell.requests.total() == before + 2


def test_another_account_cannot_name_a_key(site: Site) -> None:
    site.do(site.one.create_account("other", OTHER))
    key = site.key()
    assert site.refusal(site.one.revoke_key(OTHER, key.id)) == (
        f"ResourceNotFoundException: There is no access key {key.id} in account {OTHER}."
    )
    assert site.found(key) is not None


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("a", OTHER), ("s", "sns.amazonaws.com"), ("z", bytes(56)), ("i", "AIDA")],
)
def test_an_item_that_was_tampered_with_is_no_key(
    site: Site, attribute: str, value: str | bytes
) -> None:
    """Even where the lists of its principals were changed to fit."""
    site.do(site.one.create_account("other", OTHER))
    new = site.key()
    key = Key(f"N|{new.id}", b"k")
    site.do(site.cell.put(key, {**item_of(site, key), attribute: value}))
    listed = json.dumps([[new.id, value if attribute == "s" else "", 0]])
    for account in (ACCOUNT, OTHER):
        held = Key("A|", account.encode())
        site.do(site.cell.put(held, {**item_of(site, held), "k": listed}))
    with pytest.raises(NotSealedHereError):
        site.found(new, site.server())


def item_of(site: Site, key: Key) -> Attributes:
    item = site.do(site.cell.get(key))
    assert item is not None
    return item


def test_an_item_of_another_format_is_refused(site: Site) -> None:
    site.do(site.cell.put(Key("A|", ACCOUNT.encode()), {"v": 2}))
    with pytest.raises(UnknownItemFormatError):
        site.do(site.one.account(ACCOUNT))


def test_no_secret_is_stored_in_clear_or_shown_by_what_names_keys(site: Site) -> None:
    new = site.key()
    found = site.found(new)
    assert new.secret not in repr((new, found, site.do(site.one.keys(ACCOUNT, limit=10))))
    assert new.secret.encode() not in repr(site.cell.items()).encode()


# What is refused


WRONG: dict[str, tuple[Callable[[Accounts], Coroutine[Any, Any, object]], str]] = {
    "no name": (lambda s: s.create_account(""), "The name of an account has 1 to 64"),
    "a wrong name": (lambda s: s.create_account("a\nb"), "The name of an account has 1 to 64"),
    "an unknown quota": (lambda s: s.create_account("a", quotas={"x": 1}), "Quota x: there is no"),
    "a wrong quota": (lambda s: s.set_quotas(ACCOUNT, {"long_polls": -1}), "Quota long_polls: -1"),
    "quotas of none": (lambda s: s.set_quotas(OTHER, {}), f"There is no account {OTHER}."),
    "to close none": (lambda s: s.close_account(OTHER), f"There is no account {OTHER}."),
    "users of none": (lambda s: s.create_user(OTHER, "ann"), f"There is no account {OTHER}."),
    "a user's name": (lambda s: s.create_user(ACCOUNT, "a b"), "The name of a user has 1 to 64"),
    "no policy": (lambda s: s.create_user(ACCOUNT, "a", ["no"]), "Policy 1 is not valid: it is no"),
    "an empty policy": (lambda s: s.create_user(ACCOUNT, "a", [POLICY, "{}"]), "Policy 2 is not"),
    "policies": (lambda s: s.create_user(ACCOUNT, "a", [POLICY] * 11), "A user has 10 policies"),
    "a long policy": (
        lambda s: s.create_user(ACCOUNT, "a", [POLICY.ljust(6145)]),
        "Policy 1 is longer",
    ),
    "to delete none": (lambda s: s.delete_user(ACCOUNT, "ann"), "There is no user ann in account"),
    "to delete no name": (
        lambda s: s.delete_user(ACCOUNT, "x" * 600),
        "The name of a user has 1 to 64",
    ),
    "keys of none": (lambda s: s.create_key(OTHER), f"There is no account {OTHER}."),
    "a key of no user": (lambda s: s.create_key(ACCOUNT, user="ann"), "There is no user ann"),
    "no service": (lambda s: s.create_key(ACCOUNT, service="sns"), "A service has a name like"),
    "to revoke none": (lambda s: s.revoke_key(ACCOUNT, "AKIA"), "There is no access key AKIA"),
    "to list none": (lambda s: s.keys(OTHER, limit=1), f"There is no account {OTHER}."),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_refused_and_changes_nothing(site: Site, what: str) -> None:
    call, said = WRONG[what]
    assert site.refusal(call(site.one)).partition(": ")[2].startswith(said)


# Lost replies, crashes, several servers


def test_a_write_whose_reply_was_lost_recognises_itself(site: Site) -> None:
    site.cell.repeats = True
    site.do(site.one.create_account("other", OTHER))
    site.do(site.one.create_user(ACCOUNT, "ann", [POLICY]))
    key, of_user = site.key(), site.key(user="ann")
    assert site.found(key) is not None
    assert site.found(of_user) is not None
    site.do(site.one.set_quotas(ACCOUNT, {"long_polls": 3}))
    site.do(site.one.revoke_key(ACCOUNT, key.id))
    assert site.found(key) is None
    site.do(site.one.delete_user(ACCOUNT, "ann"))
    assert site.found(of_user) is None
    site.do(site.one.close_account(OTHER))


def test_a_key_that_a_crash_kept_from_its_principal_is_not_valid(site: Site) -> None:
    site.cell.crashes_after = lambda partition: partition.startswith("N|")
    with pytest.raises(CellUnavailableError):
        site.key()
    site.cell.crashes_after = lambda _partition: False
    (orphan,) = [name[2:] for name in site.partitions() if name.startswith("N|")]
    assert site.do(site.server().find_key(orphan)) is None
    assert site.do(site.one.keys(ACCOUNT, limit=10)).keys == []
    site.do(site.one.revoke_key(ACCOUNT, orphan))
    assert not any(name.startswith("N|") for name in site.partitions())


def race(site: Site, make_key: Callable[[Accounts], Awaitable[NewKey | None]]) -> list[object]:
    """Two servers make a key: the second one does between a read and a write of the first one."""
    other = site.server()
    outcomes: list[object] = []

    async def make(server: Accounts) -> None:
        try:
            outcomes.append(await make_key(server))
        except RefusedError as refusal:
            outcomes.append(refusal.fault.code)

    async def before_the_first_put() -> None:
        async def before_the_second_put() -> None:
            await make(other)

        site.cell.before_put = before_the_second_put

    site.cell.before_put = before_the_first_put
    site.do(make(site.one))
    return outcomes


def stored_keys(site: Site) -> set[str]:
    return {name.removeprefix("N|") for name in site.partitions() if name.startswith("N|")}


def test_two_servers_make_keys_at_once_and_both_are_valid(site: Site) -> None:
    made = race(site, lambda server: server.create_key(ACCOUNT))
    assert len(made) == 2
    for key in made:
        assert isinstance(key, NewKey)
        assert site.found(key, site.server()) is not None


@pytest.mark.parametrize("user", ["", "worker"])
def test_a_key_that_was_looked_up_while_it_was_made_is_known_at_once(user: str) -> None:
    """Whoever asked too early may be refused; from the answer on nobody is."""

    def with_user() -> Site:
        site = Site()
        if user:
            site.do(site.one.create_user(ACCOUNT, user))
        return site

    new_id = with_user().key(user=user).id  # as the same randomness makes it again
    site = with_user()
    early: list[AccessKey | None] = []

    async def story() -> AccessKey | None:
        async def look() -> None:
            # While the key's item is put, and again while its principal's is.
            early.append(await site.one.find_key(new_id))
            if len(early) == 1:
                site.cell.before_put = look

        site.cell.before_put = look
        new = await site.one.create_key(ACCOUNT, user=user)
        assert new.id == new_id
        return await site.one.find_key(new_id)

    assert site.do(story()) is not None
    assert early == [None, None]


def test_only_one_of_two_servers_makes_the_last_key(site: Site) -> None:
    first = site.key()
    second, refused = race(site, lambda server: server.create_key(ACCOUNT))
    assert isinstance(second, NewKey)
    assert refused == "OverLimit"
    assert stored_keys(site) == {first.id, second.id}


def test_the_first_key_is_made_once(site: Site) -> None:
    made, lost = race(site, lambda server: server.create_first_key(ACCOUNT))
    assert isinstance(made, NewKey)
    assert lost is None
    assert stored_keys(site) == {made.id}
