"""Starting with master keys: what is made, what is opened, and what stops the start."""

import asyncio
from pathlib import Path

import pytest
from moto import mock_aws

from control_plane.cells import StartError
from control_plane.master_keys import OpenedKeys, open_keys
from control_plane.registry_secret import ITEM
from data_plane.keys import file, kms
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Update
from data_plane.settings import ServerSettings, SettingError
from data_plane.system import SystemClock, SystemEntropy

CLOCK = SystemClock()
ENTROPY = SystemEntropy()
FILE_WAY = "; put back the file that this service had, or name it: --master-keys FILE"


@pytest.fixture
def cell() -> MemoryCell:
    return MemoryCell(CLOCK)


def opened(cell: MemoryCell, data: Path, kms_key: str = "", keys: Path | None = None) -> bytes:
    async def main() -> OpenedKeys:
        settings = ServerSettings(data=data, auth="off", kms_key=kms_key, master_keys=keys)
        found = await open_keys(settings, cell, CLOCK, ENTROPY)
        found.close()
        return found

    found = asyncio.run(main())
    assert found.registry_secret.hex() not in repr(found)
    return found.registry_secret


def refusal(cell: MemoryCell, data: Path, kms_key: str = "") -> str:
    with pytest.raises(StartError) as refused:
        opened(cell, data, kms_key)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def master_key_of(cell: MemoryCell) -> str:
    return str((asyncio.run(cell.get(ITEM)) or {})["k"])


def test_the_first_start_makes_the_key_file(cell: MemoryCell, tmp_path: Path) -> None:
    secret = opened(cell, tmp_path)
    assert (tmp_path / "master.keys").stat().st_mode & 0o777 == 0o600
    assert opened(cell, tmp_path) == secret


def test_a_key_file_that_is_there_is_taken(cell: MemoryCell, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere" / "my.keys"
    file.create(path, ENTROPY, 0)
    before = path.read_bytes()
    opened(cell, tmp_path, keys=path)
    assert path.read_bytes() == before
    assert not (tmp_path / "master.keys").exists()


def test_data_without_its_key_file_does_not_start(cell: MemoryCell, tmp_path: Path) -> None:
    opened(cell, tmp_path)
    told = refusal(cell, tmp_path / "copy")
    assert told.startswith("master-keys: ")
    assert f"no such file; what this cell holds is sealed under {master_key_of(cell)}" in told
    assert not (tmp_path / "copy").exists()


def test_data_with_another_key_file_does_not_start(cell: MemoryCell, tmp_path: Path) -> None:
    opened(cell, tmp_path)
    file.create(tmp_path / "other" / "master.keys", ENTROPY, 0)
    told = refusal(cell, tmp_path / "other")
    assert told.startswith("master-keys: cannot open the registry secret: it is sealed under file:")
    assert told.endswith(FILE_WAY)
    (tmp_path / "other" / "master.keys").write_text("[]")
    told = refusal(cell, tmp_path / "other")
    assert "it is no file of master keys" in told
    assert told.endswith(FILE_WAY)


def test_a_key_file_for_all_to_read_stops_the_start(cell: MemoryCell, tmp_path: Path) -> None:
    opened(cell, tmp_path)
    (tmp_path / "master.keys").chmod(0o644)
    assert refusal(cell, tmp_path).endswith("chmod 600 it")


def test_a_secret_that_was_altered_stops_the_start(cell: MemoryCell, tmp_path: Path) -> None:
    opened(cell, tmp_path)
    asyncio.run(cell.update(ITEM, Update(assign={"z": bytes(60)})))
    assert "does not open it" in refusal(cell, tmp_path)


def test_a_rotation_takes_effect_with_the_next_start(cell: MemoryCell, tmp_path: Path) -> None:
    secret, before = opened(cell, tmp_path), master_key_of(cell)
    added = file.rotate(tmp_path / "master.keys", ENTROPY, 1)
    assert opened(cell, tmp_path) == secret
    assert master_key_of(cell) == f"file:{added}" != before


def test_kms_takes_over_from_a_file(
    cell: MemoryCell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "placeholder")
    with mock_aws():
        client = kms.connect("", "us-east-1", connections_max=1)
        arns = [client.create_key()["KeyMetadata"]["Arn"] for _ in range(2)]
        client.create_alias(AliasName="alias/own", TargetKeyId=arns[0])
        secret = opened(cell, tmp_path)
        told = refusal(cell, tmp_path, "alias/own")
        assert told.startswith("kms-key: cannot open")
        assert told.endswith("--kms-key ID, and --master-keys FILE, if it had a file")
        assert "kms-key: " in refusal(cell, tmp_path, "alias/none")
        keys = tmp_path / "master.keys"
        assert opened(cell, tmp_path, "alias/own", keys) == secret
        keys.unlink()
        assert opened(cell, tmp_path, "alias/own") == secret
        assert master_key_of(cell) == f"kms:{arns[0]}"
        # Another key takes over likewise.
        client.update_alias(AliasName="alias/own", TargetKeyId=arns[1])
        assert opened(cell, tmp_path, "alias/own") == secret
        assert master_key_of(cell) == f"kms:{arns[1]}"
        assert f"sealed under kms:{arns[1]}" in refusal(cell, tmp_path)


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        ({"kms_key": "two words"}, "kms-key"),
        ({"kms_endpoint": "http://127.0.0.1:4566"}, "kms-endpoint"),
        ({"kms_key": "alias/a", "kms_endpoint": "nowhere"}, "kms-endpoint"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, str], setting: str) -> None:
    with pytest.raises(SettingError, match=setting):
        ServerSettings(auth="off", **wrong)  # type: ignore[arg-type]
