import asyncio
from pathlib import Path
from typing import Any

import pytest

from control_plane.registry_secret import ITEM, UnreadableSecretError, read_or_make
from data_plane.core.sealing import derive
from data_plane.keys import file
from data_plane.keys.file import KeyFile
from data_plane.memory.cell import MemoryCell
from data_plane.ports import (
    ALWAYS,
    Attributes,
    CellUnavailableError,
    Condition,
    Key,
    MasterKeysError,
    Tallies,
    Written,
    no_tallies,
)
from data_plane.system import SystemClock, SystemEntropy
from tests.unit.repeatable import SECRET

ENTROPY = SystemEntropy()
CLOCK = SystemClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "master.keys"
    file.create(made, ENTROPY, 0)
    return made


class Registry(MemoryCell):
    """A cell whose next put loses its reply, or comes after another server's."""

    def __init__(self) -> None:
        super().__init__(CLOCK)
        self.loses_reply = False
        self.first: Any = None

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        if self.first is not None:
            first, self.first = self.first, None
            await first()
        written = await super().put(key, attributes, condition, tallies)
        if self.loses_reply:
            self.loses_reply = False  # A repeated request finds what the first one has stored.
            return await super().put(key, attributes, condition, tallies)
        return written


def secret(cell: MemoryCell, path: Path) -> bytes:
    return asyncio.run(read_or_make(cell, KeyFile(path, ENTROPY), CLOCK, ENTROPY))


def stored(cell: MemoryCell) -> Any:
    return asyncio.run(cell.get(ITEM))


def test_it_is_made_once_and_read_from_then_on(path: Path) -> None:
    cell = Registry()
    made = secret(cell, path)
    assert len(made) == 32
    assert made not in stored(cell)["z"]
    assert secret(cell, path) == made
    assert cell.requests["put"] == 1
    assert secret(Registry(), path) != made


def test_two_servers_at_once_have_the_same(path: Path) -> None:
    cell = Registry()
    others: list[bytes] = []

    async def other() -> None:
        others.append(await read_or_make(cell, KeyFile(path, ENTROPY), CLOCK, ENTROPY))

    cell.first = other
    assert [secret(cell, path)] == others
    assert secret(cell, path) == others[0]


def test_a_write_whose_reply_was_lost_is_recognised(path: Path) -> None:
    cell = Registry()
    cell.loses_reply = True
    made = secret(cell, path)
    assert secret(cell, path) == made
    # Also where the master key was rotated meanwhile: it does not write again and again.
    file.rotate(path, ENTROPY, 1)
    cell.loses_reply = True
    assert secret(cell, path) == made
    assert cell.requests["put"] == 4


def test_after_a_rotation_the_same_secret_is_wrapped_anew(path: Path) -> None:
    cell = Registry()
    made, before = secret(cell, path), stored(cell)
    new = file.rotate(path, ENTROPY, 1)
    assert secret(cell, path) == made
    after = stored(cell)
    assert after["k"] == f"file:{new}"
    assert after["z"] != before["z"]
    assert after["b"] == before["b"]
    assert secret(cell, path) == made
    assert cell.requests["put"] == 2


def test_another_key_file_does_not_open_it_and_changes_nothing(path: Path, tmp_path: Path) -> None:
    cell = Registry()
    secret(cell, path)
    before = stored(cell)
    other = tmp_path / "other.keys"
    file.create(other, ENTROPY, 0)
    with pytest.raises(MasterKeysError):
        secret(cell, other)
    assert stored(cell) == before


def test_who_loses_the_race_with_another_key_file_is_told(path: Path, tmp_path: Path) -> None:
    cell = Registry()
    other = tmp_path / "other.keys"
    file.create(other, ENTROPY, 0)

    async def first() -> None:
        await read_or_make(cell, KeyFile(path, ENTROPY), CLOCK, ENTROPY)

    cell.first = first
    with pytest.raises(MasterKeysError):
        secret(cell, other)


@pytest.mark.parametrize("change", [{"v": 2}, {"k": 5}, {"z": "text"}], ids=str)
def test_an_unknown_format_is_refused(path: Path, change: Attributes) -> None:
    cell = Registry()
    secret(cell, path)
    asyncio.run(cell.put(ITEM, {**stored(cell), **change}))
    with pytest.raises(UnreadableSecretError):
        secret(cell, path)


def test_it_gives_up_where_others_always_change_it(path: Path) -> None:
    class Busy(Registry):
        async def put(self, *args: Any, **kwargs: Any) -> Written:
            await super().put(*args, **kwargs)
            return Written(applied=False, before=None, time_ms=0)

    with pytest.raises(CellUnavailableError):
        secret(Busy(), path)


def test_queues_have_secrets_of_their_own(control: Any, path: Path) -> None:
    own = secret(control.cell, path)
    registry = control.server(secret=own)
    control.call("CreateQueue", QueueName="one")
    control.call("CreateQueue", QueueName="two")

    async def found(name: str) -> Any:
        return await registry.find("111122223333", "eu-west-1", name)

    one, two = asyncio.run(found("one")), asyncio.run(found("two"))
    assert one.secret == derive(own, "queue", one.uid)
    assert len({one.secret, two.secret, own}) == 3
    assert one.secret.hex() not in repr(one)
    assert repr(one.secret) not in repr(one)
    assert control.find("one").secret == derive(SECRET, "queue", one.uid)
