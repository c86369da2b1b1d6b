import pytest

from infra import asset
from infra.asset import ROOT
from infra.options import RUNTIMES, ServiceOptions

OPTIONS = ServiceOptions(runtime="python3.11", architecture="x86_64")


def test_what_is_the_same_has_the_same_hash() -> None:
    assert asset.digest(OPTIONS) == asset.digest(OPTIONS)


def test_what_differs_has_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    before = asset.digest(OPTIONS)

    assert asset.digest(ServiceOptions(runtime="python3.12", architecture="x86_64")) != before
    assert asset.digest(ServiceOptions(runtime="python3.11", architecture="arm64")) != before
    assert asset.digest(OPTIONS, asset.USAGE_LOCK) != before
    monkeypatch.setattr(asset, "LOCK", ROOT / "requirements" / "serve.txt")
    assert asset.digest(OPTIONS) != before


def test_platforms_end_with_the_runtime() -> None:
    newest = {runtime: asset.platforms(ServiceOptions(runtime=runtime))[0] for runtime in RUNTIMES}

    assert newest == {
        "python3.11": "manylinux_2_26_aarch64",
        "python3.12": "manylinux_2_34_aarch64",
        "python3.13": "manylinux_2_34_aarch64",
    }


def test_a_python_compiles_for_its_own_version() -> None:
    assert asset.is_compiled(OPTIONS, (3, 11))
    assert not asset.is_compiled(OPTIONS, (3, 12))
