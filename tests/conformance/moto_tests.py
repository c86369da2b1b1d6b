"""Moto's tests of Kinesis, as its source distribution has them, against servers of this process.

What they import of moto and freezegun is played by what is here: `mock_aws` gives each test a
server of its own, in which its clients end, and `freeze_time` puts that server's clock forward.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ContextDecorator, contextmanager
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import boto3
import moto

from tests.conformance.in_process import InProcessServer

FOLDER = (
    Path(__file__).parents[2] / ".venvs/moto" / f"moto-{moto.__version__}" / "tests/test_kinesis"
)
"""Where `make test` puts the tests of the pinned version."""

NOT_RUN = {
    "test_kinesis_cloudformation.py": "needs moto's CloudFormation",
    "test_server.py": "asks moto's own server",
}

ACCOUNT = "123456789012"
_PACKAGE = "moto_tests_of_kinesis"
_BEFORE_FROZEN_S = datetime(2023, 12, 31, tzinfo=UTC).timestamp()
_AHEAD_S = 600
_present: list[InProcessServer] = []
_frozen: list[float] = []


class NotKinesisError(Exception):
    """The test needs another service of moto's."""


class FreezeTime(ContextDecorator):
    """The time of servers is put forward to this one; it does not stand still."""

    def __init__(self, text: str) -> None:
        self._time_s = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()

    def __enter__(self) -> None:
        _frozen.append(self._time_s)
        for server in _present:
            _put_to(server, self._time_s)

    def __exit__(self, *_: object) -> None:
        _frozen.pop()


class _Sts:
    """Says who calls."""

    def get_caller_identity(self) -> dict[str, str]:
        return {"Account": ACCOUNT}


def _put_to(server: InProcessServer, time_s: float) -> None:
    server.clock.advance(time_s - server.clock.now_us() / 1_000_000)


def _client(service: str, region_name: str = "us-east-1", **_: Any) -> Any:
    if service == "sts":
        return _Sts()
    if service != "kinesis":
        raise NotKinesisError(service)
    return _present[-1].kinesis(ACCOUNT, region=region_name)


def _mock_aws(test: Callable[..., None]) -> Callable[..., None]:
    is_frozen = "freeze_time(" in inspect.getsource(test)

    @wraps(test)
    def on_a_server(*arguments: Any, **named: Any) -> None:
        server = InProcessServer()
        _present.append(server)
        # Tests ask for times of the machine, which is slower than the server's clock by no more.
        ahead_s = server.clock.now_us() / 1_000_000 + _AHEAD_S
        _put_to(server, _frozen[-1] if _frozen else _BEFORE_FROZEN_S if is_frozen else ahead_s)
        try:
            with mock.patch.object(boto3, "client", _client):
                test(*arguments, **named)
        finally:
            _present.pop()
            server.close()

    return on_a_server


@contextmanager
def _played() -> Iterator[None]:
    """What the tests import is what is here; the modules that are there for others come back."""
    frozen = ModuleType("freezegun")
    frozen.freeze_time = FreezeTime  # type: ignore[attr-defined]
    own = ModuleType("tests")
    own.DEFAULT_ACCOUNT_ID = ACCOUNT  # type: ignore[attr-defined]
    package = ModuleType(_PACKAGE)
    package.__path__ = [str(FOLDER)]
    modules = {"freezegun": frozen, "tests": own, _PACKAGE: package}
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        with mock.patch.object(moto, "mock_aws", _mock_aws):
            yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _cases(name: str, test: Callable[..., None]) -> Iterator[tuple[str, Callable[[], None]]]:
    """The test, or each case of one that has several."""
    marks: list[Any] = [
        mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"
    ]
    if not marks:
        yield name, test
        return
    (mark,) = marks
    names, cases = mark.args
    for values in cases:
        arguments = dict(zip(names.split(","), values, strict=True))
        yield f"{name}[{'-'.join(map(str, values))}]", partial(test, **arguments)


def moto_tests() -> Mapping[str, Callable[[], None]]:
    """All of them by name, `file.test`; empty where they were not fetched."""
    found: dict[str, Callable[[], None]] = {}
    with _played():
        for path in sorted(FOLDER.glob("test_*.py")):
            if path.name in NOT_RUN:
                continue
            module = importlib.import_module(f"{_PACKAGE}.{path.stem}")
            file = path.stem.removeprefix("test_")
            for name, test in vars(module).items():
                if name.startswith("test_") and callable(test):
                    found.update(_cases(f"{file}.{name}", test))
    return found
