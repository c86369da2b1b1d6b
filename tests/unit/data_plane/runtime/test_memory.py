"""Memory that is free goes back."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from data_plane.runtime import memory
from data_plane.runtime.memory import Memory, memory_bytes, resident_bytes

MB = 1_048_576


def test_it_trims_when_the_process_has_grown_and_not_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = iter([100 * MB, 50 * MB, 60 * MB, 70 * MB, 40 * MB])
    trimmed: list[int] = []
    monkeypatch.setattr(memory, "resident_bytes", lambda: next(sizes))
    watched = Memory()
    watched._trim = trimmed.append

    async def look() -> None:
        await watched.give_back()  # 100 MB, more than nothing: 50 MB afterwards
        assert trimmed == [0]
        await watched.give_back()  # 60 MB
        assert trimmed == [0]
        await watched.give_back()  # 70 MB, grown by 20: 40 MB afterwards
        assert trimmed == [0, 0]

    asyncio.run(look())


def test_what_is_freed_after_a_trim_goes_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    in_use, resident = 40 * MB, 40 * MB
    monkeypatch.setattr(memory, "resident_bytes", lambda: resident)
    watched = Memory()

    def trim(_: int) -> None:
        nonlocal resident
        resident = in_use

    async def look() -> None:
        nonlocal in_use, resident
        watched._trim = trim
        await watched.give_back()
        in_use = resident = 500 * MB
        await watched.give_back()  # in the middle of a storm
        in_use = 41 * MB
        for _ in range(6):
            await watched.give_back()
        assert resident == in_use

    asyncio.run(look())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says")
def test_what_is_resident_is_told() -> None:
    assert 4 * MB < resident_bytes() < 4096 * MB


@pytest.mark.parametrize(
    ("group", "limits", "known"),
    [
        ("0::/", {"memory.max": "536870912\n"}, 512),
        ("0::/", {"memory.max": "max\n"}, None),
        ("0::/a.slice/b", {"a.slice/memory.max": "134217728", "a.slice/b/memory.max": "max"}, 128),
        # What is mounted in a container begins with its own group.
        ("0::/a.slice/b", {"memory.max": "268435456"}, 256),
        ("4:cpu,memory:/b\n3:pids:/c", {"memory/b/memory.limit_in_bytes": "67108864"}, 64),
        ("4:memory:/b", {"memory/b/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("3:pids:/c", {"memory.max": "1"}, None),
        ("", {}, None),
    ],
)
def test_how_much_there_is(
    tmp_path: Path, group: str, limits: dict[str, str], known: int | None
) -> None:
    for name, text in limits.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if group:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(f"{group}\n")
    there_is = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory_bytes(tmp_path) == (there_is if known is None else known * MB)
