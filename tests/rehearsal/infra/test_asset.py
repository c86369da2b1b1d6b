"""The asset: what is in it, how big it is, and that its hash says what it is."""

import marshal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra import asset
from infra.options import ServiceOptions

pytestmark = pytest.mark.xdist_group("infra")

OPTIONS = ServiceOptions(runtime="python3.11", architecture="x86_64")


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asset")
    asset.stage(OPTIONS, folder)
    return folder


def test_it_has_room_in_a_function(staged: Path, record_property: Any) -> None:
    size_bytes = asset.size(staged)
    record_property("says", f"the asset is {size_bytes / 2**20:.1f} MiB of 250")

    assert size_bytes < asset.SIZE_BYTES_MAX


def test_what_stores_usage_has_parquet_and_room(tmp_path: Path, record_property: Any) -> None:
    asset.stage(OPTIONS, tmp_path, asset.USAGE_LOCK)
    size_bytes = asset.size(tmp_path)
    record_property("says", f"the asset of usage is {size_bytes / 2**20:.1f} MiB of 250")

    assert size_bytes < asset.SIZE_BYTES_MAX
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import app\n"
        "from data_plane.usage.place import objects_of\n"
        "from data_plane.usage.record import UsageRecord\n"
        "record = UsageRecord('tidegate.usage/1', '0' * 16, 1, 0, '', '', '', '', '2xx', '', 1, 1,"
        " 0, 0, 0)\n"
        "print(objects_of([record])[0][0])"
    )
    done = subprocess.run(
        [_python("3.11"), "-I", "-S", "-B", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={},
    )
    assert done.stdout.startswith("records/date=1970-01-01/hour=00/"), done.stderr


def test_it_has_both_planes_and_no_more_than_is_run(staged: Path) -> None:
    names = {path.relative_to(staged).as_posix() for path in staged.rglob("*")}

    assert {"app.py", "data_plane/ports.py", "control_plane/service.py"} <= names
    assert "control_plane/cluster/state_machine.asl.json" in names
    assert not [name for name in names if "/tests/" in f"/{name}/"]


def test_it_is_compiled_where_that_can_be(staged: Path) -> None:
    compiled = staged / "__pycache__" / "app.cpython-311.pyc"
    if not asset.is_compiled(OPTIONS):
        assert not compiled.exists()
        return
    content = compiled.read_bytes()
    # As PEP 552 has it: by hash, and unchecked.
    assert int.from_bytes(content[4:8], "little") == 1
    code = marshal.loads(content[16:])  # noqa: S302 - compiled a moment ago
    assert code.co_filename == "/var/task/app.py"


def test_its_modules_are_found_in_it_alone(staged: Path) -> None:
    """Run as Lambda would: nothing but the asset is on the path."""
    program = (
        f"import sys; sys.path.insert(0, {str(staged)!r})\n"
        "import app, control_plane.serverless.tasks, control_plane.serverless.stream\n"
        "import control_plane.serverless.opening, control_plane.serverless.usage, botocore\n"
        "print(app.__file__, botocore.__file__, sep='\\n')"
    )
    done = subprocess.run(
        [_python("3.11"), "-I", "-S", "-B", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=staged,
        env={},
    )

    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(staged)) for line in done.stdout.split())


def _python(version: str) -> str:
    if f"{sys.version_info.major}.{sys.version_info.minor}" != version:
        pytest.skip(f"the wheels are for Python {version}")
    return sys.executable
