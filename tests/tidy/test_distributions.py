"""What the two distributions say of themselves is the same, and stands once."""

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from data_plane import VERSION

ROOT: Final = Path(__file__).parents[2]
SDK: Final = ROOT / "sdk"


def read(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))


def names(lists: list[str]) -> list[str]:
    lines = [line for name in lists for line in (ROOT / name).read_text("utf-8").splitlines()]
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("folder", [ROOT, SDK], ids=["tidegate", "sdk"])
def test_the_licence_is_apache(folder: Path) -> None:
    project = read(folder)["project"]
    assert project["license"] == "Apache-2.0"
    assert project["license-files"] == ["LICENSE", "NOTICE"]
    assert "Apache License\n                           Version 2.0" in (
        folder / "LICENSE"
    ).read_text("utf-8")


@pytest.mark.parametrize("name", ["LICENSE", "NOTICE"])
def test_both_distributions_have_the_same_licence(name: str) -> None:
    assert (SDK / name).read_bytes() == (ROOT / name).read_bytes()
    assert not (SDK / name).is_symlink()


def test_there_is_one_version() -> None:
    assert read(SDK)["project"]["version"] == VERSION
    assert names(["requirements/sdk.in"]) == [f"tidegate-sdk=={VERSION}"]


def test_what_the_distribution_needs_is_what_the_server_has() -> None:
    dynamic = read(ROOT)["tool"]["setuptools"]["dynamic"]
    assert dynamic["dependencies"]["file"] == ["requirements/tidegate.in", "requirements/sdk.in"]
    assert names(["requirements/serve.in"]) == ["-r tidegate.in", "setuptools"]
    bill = dynamic["optional-dependencies"]["bill"]["file"]
    assert bill == ["requirements/bill.in"]
    assert "-r bill.in" in names(["requirements/spark.in"])
