"""The first start with authentication, later ones, and several at once."""

import asyncio
import configparser
import os
import shlex
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from control_plane.accounts import Accounts
from control_plane.cells import StartError
from control_plane.root_account import open_root_account
from data_plane.core.caller import AccessKey
from data_plane.core.root_key import RootKey
from data_plane.settings import ServerSettings
from tests.unit.control_plane.test_accounts import HardCell
from tests.unit.repeatable import HandClock, SeededEntropy

SECRET = bytes(range(32))


@dataclass
class Site:
    """Servers on one registry, each with a folder of its own."""

    folder: Path
    cell: HardCell = field(default_factory=lambda: HardCell(HandClock()))
    entropy: SeededEntropy = field(default_factory=SeededEntropy)
    told: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def settings(self, name: str = "one", **changes: Any) -> ServerSettings:
        return replace(ServerSettings(data=self.folder / name), **changes)

    def server(self) -> Accounts:
        return Accounts(self.cell, HandClock(), self.entropy, SECRET)

    async def open(self, settings: ServerSettings) -> str:
        def record(event: str, **fields: object) -> None:
            self.told.append((event, fields))

        return await open_root_account(settings, self.server(), record)

    def start(self, name: str = "one", **changes: Any) -> str:
        return asyncio.run(self.open(self.settings(name, **changes)))

    def file(self, name: str = "one") -> Path:
        return self.folder / name / "credentials"

    def key_in(self, file: Path) -> AccessKey:
        """The access key in a file, which must be valid with the secret that stands there."""
        parser = configparser.RawConfigParser()
        parser.read(file)
        section = parser["default"]
        found = asyncio.run(self.server().find_key(section["aws_access_key_id"]))
        assert found is not None
        assert section["aws_secret_access_key"] == found.secret
        assert section["region"] == "us-east-1"
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_the_first_start_writes_a_file_that_serves(site: Site) -> None:
    line = site.start()
    assert line == f"export AWS_SHARED_CREDENTIALS_FILE={site.file()}"
    assert stat.S_IMODE(site.file().stat().st_mode) == 0o600
    assert [path.name for path in site.file().parent.iterdir()] == ["credentials"]
    key = site.key_in(site.file())
    assert key.caller.is_root
    assert key.caller.account == "000000000000"
    assert key.secret not in repr((line, site.told))
    assert [event for event, _ in site.told] == ["root access key created"]


def test_a_key_that_is_given_is_written_nowhere(site: Site) -> None:
    line = site.start(root_key=RootKey("ci-root", "canary-secret"))
    assert line == "Root's access key is ci-root, with the secret that this server was given."
    assert not site.file().exists()
    assert "canary-secret" not in repr((site.cell.items(), site.told))
    assert "ci-root" not in repr(site.cell.items())
    assert asyncio.run(site.server().account("000000000000")) is not None
    assert site.start().startswith("export "), "without it the first key is made"


def test_a_key_that_was_made_cannot_be_given(site: Site) -> None:
    site.start()
    made = site.key_in(site.file())
    with pytest.raises(StartError, match=f"^root-access-key-id: {made.id} is an access key that"):
        site.start(root_key=RootKey(made.id, "another-secret"))


def test_the_line_can_be_pasted_whatever_the_folder_is_called(site: Site) -> None:
    line = site.start("it's a $folder")
    _, assignment = shlex.split(line)
    assert Path(assignment.removeprefix("AWS_SHARED_CREDENTIALS_FILE=")).exists()


def test_later_starts_leave_the_file_as_it_is(site: Site) -> None:
    line = site.start()
    before = site.file().read_bytes(), site.file().stat().st_mtime_ns
    stored = site.cell.items()
    assert site.start() == line
    assert (site.file().read_bytes(), site.file().stat().st_mtime_ns) == before
    assert site.cell.items() == stored


def test_a_lost_file_is_made_anew_only_on_demand(site: Site) -> None:
    site.start()
    first = site.key_in(site.file())
    site.file().unlink()
    stored = site.cell.items()
    line = site.start()
    assert line == (
        f"The root account has access keys, but {site.file()} is not there: put it back, or start"
        " once with --new-root-key."
    )
    assert not site.file().exists()
    assert site.cell.items() == stored
    assert site.start(new_root_key=True).startswith("export ")
    second = site.key_in(site.file())
    assert second.id != first.id
    assert asyncio.run(site.server().find_key(first.id)) is not None, "two keys may be"
    site.file().unlink()
    site.start(new_root_key=True)
    assert asyncio.run(site.server().find_key(first.id)) is None, "the oldest makes room"
    assert asyncio.run(site.server().find_key(second.id)) is not None
    assert ("root access key revoked", {"account": "000000000000", "key": first.id}) in site.told


def test_a_file_that_is_there_is_never_written_over(site: Site) -> None:
    site.start()
    before = site.file().read_bytes()
    with pytest.raises(StartError) as refused:
        site.start(new_root_key=True)
    assert str(refused.value) == f"new-root-key: {site.file()} is there; move it away first"
    assert site.file().read_bytes() == before


def test_a_file_of_another_server_is_named(site: Site) -> None:
    site.start()
    foreign = site.file("two")
    foreign.parent.mkdir()
    foreign.write_text("[default]\naws_access_key_id = AKIA\naws_secret_access_key = x\n")
    foreign.chmod(0o600)
    assert site.start("two").startswith(f"{foreign} has no access key of this server's root")
    assert site.start("one", account="111122223333").startswith(f"{site.file()} has no access key")


def test_a_file_that_others_may_read_ends_the_start(site: Site) -> None:
    site.start()
    site.file().chmod(0o640)
    with pytest.raises(StartError) as refused:
        site.start()
    assert str(refused.value) == (
        f"auth: others than its owner may use {site.file()}: chmod 600 {site.file()}"
    )


def test_a_file_that_is_none_ends_the_start(site: Site) -> None:
    site.start()
    site.file().write_bytes(b"\xffsecret")
    with pytest.raises(StartError) as refused:
        site.start()
    assert str(refused.value) == f"auth: {site.file()} is no credentials file; move it away"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to_leaves_no_key(site: Site) -> None:
    site.file().parent.mkdir(mode=0o500)
    check_no_key_is_left(site)


def test_a_folder_that_cannot_be_leaves_no_key(site: Site) -> None:
    site.file().parent.write_text("a file")
    check_no_key_is_left(site)


def check_no_key_is_left(site: Site) -> None:
    with pytest.raises(StartError, match=r"^auth: cannot write "):
        site.start()
    account = asyncio.run(site.server().account("000000000000"))
    assert account is not None
    assert account.keys == ()


def test_a_cell_that_does_not_answer_ends_the_start(site: Site) -> None:
    site.cell.away = True
    with pytest.raises(StartError, match=r"^auth: the cell does not answer"):
        site.start()


@pytest.mark.parametrize("write", range(3))
def test_of_servers_that_start_at_once_one_writes_its_file(site: Site, write: int) -> None:
    """The second one starts between a read and the given write of the first one."""
    lines: list[str] = []
    left = write

    async def start_another() -> None:
        nonlocal left
        if left:
            left -= 1
            site.cell.before_put = start_another
        else:
            lines.append(await site.open(site.settings("two")))

    site.cell.before_put = start_another
    lines.append(site.start("one"))
    assert sorted(line.split()[0] for line in lines) == ["The", "export"]
    (file,) = [file for file in (site.file("one"), site.file("two")) if file.exists()]
    account = asyncio.run(site.server().account("000000000000"))
    assert account is not None
    assert [key.id for key in account.keys] == [site.key_in(file).id]
