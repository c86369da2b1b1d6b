"""Moto's tests of Kinesis and SQS, as its source distribution has them, against servers of here.

What they import of moto and freezegun is played by what is here: `mock_aws` gives each test a
server of its own, in which its clients end, and `freeze_time` puts that server's clock forward, as
do the tests' own sleeps, which take no time.
"""

import importlib
import inspect
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ContextDecorator, contextmanager
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest import mock

import boto3
import moto
import pytest
from botocore.exceptions import ClientError
from moto.sqs.exceptions import QueueDoesNotExist

from tests.conformance.in_process import InProcessServer

FOLDER = Path(__file__).parents[2] / ".venvs/moto-tests" / f"moto-{moto.__version__}" / "tests"
"""Where `make test` puts the tests of the pinned version."""

FETCHED = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="moto's tests are missing: `make test` fetches them"
)

NOT_RUN = {
    "test_kinesis_cloudformation.py": "needs moto's CloudFormation",
    "test_server.py": "asks moto's own server",
    "test_sqs_authentication.py": "needs moto's IAM",
    "test_sqs_cloudformation.py": "needs moto's CloudFormation",
    "test_sqs_integration.py": "needs moto's Lambda",
    "test_sqs_multiaccount.py": "needs moto's STS",
}

ACCOUNT = "123456789012"
_DAY_S = 86_400
_AHEAD_S = 600
_FREEZES = r'freeze_time\("([^"]*)"'
_present: list[InProcessServer] = []
_frozen: list[float] = []


class NotServedError(Exception):
    """The test needs another service of moto's."""


_FAILURES: Final = (
    *(AssertionError, KeyError, pytest.fail.Exception),
    *(ClientError, QueueDoesNotExist, NotServedError),
)


class FreezeTime(ContextDecorator):
    """The time of servers is put forward to this one; it does not stand still."""

    def __init__(self, text: str) -> None:
        self._time_s = _time_s(text)

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


class _Time:
    """The module of that name, but that sleeps pass on the clocks of servers alone."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    @staticmethod
    def sleep(seconds: float) -> None:
        for server in _present:
            server.clock.advance(seconds)


class _Marks:
    """Those that tests have, without `aws_verified`: ours would be refused for an unknown one."""

    parametrize = pytest.mark.parametrize
    skipif = pytest.mark.skipif

    @staticmethod
    def aws_verified(test: Callable[..., None]) -> Callable[..., None]:
        return test


def _time_s(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def _put_to(server: InProcessServer, time_s: float) -> None:
    server.clock.advance(time_s - server.clock.now_us() / 1_000_000)


def _client(service: str, region_name: str = "us-east-1", **_: Any) -> Any:
    if service == "sts":
        return _Sts()
    if service == "kinesis":
        return _present[-1].kinesis(ACCOUNT, region=region_name)
    if service == "sqs":
        return _present[-1].client(account=ACCOUNT, region=region_name)
    raise NotServedError(service)


def _resource(service: str, region_name: str = "us-east-1", **_: Any) -> Any:
    if service != "sqs":
        raise NotServedError(service)
    return _present[-1].resource(ACCOUNT, region_name)


@contextmanager
def _on_a_server(times_s: Sequence[float] = ()) -> Iterator[None]:
    """A server whose time lies before all of these."""
    server = InProcessServer()
    _present.append(server)
    # Tests ask for times of the machine, which is slower than the server's clock by no more.
    ahead_s = server.clock.now_us() / 1_000_000 + _AHEAD_S
    _put_to(server, _frozen[-1] if _frozen else min(times_s) - _DAY_S if times_s else ahead_s)
    try:
        with mock.patch.multiple(boto3, client=_client, resource=_resource):
            yield
    finally:
        _present.pop()
        server.close()


def _mock_aws(test: Callable[..., None] | None = None) -> Any:
    """As a decorator, or called in a `with`."""
    if test is None:
        return _on_a_server()
    times_s = [_time_s(text) for text in re.findall(_FREEZES, inspect.getsource(test))]

    @wraps(test)
    def on_a_server(*arguments: Any, **named: Any) -> None:
        with _on_a_server(times_s):
            test(*arguments, **named)

    return on_a_server


def _package(folder: Path) -> ModuleType:
    """A package without what its own file does."""
    package = ModuleType(f"moto_tests_of_{folder.name}")
    package.__path__ = [str(folder)]
    return package


@contextmanager
def _played(package: ModuleType) -> Iterator[None]:
    """What the tests import is what is here; the modules that are there for others come back."""
    frozen = ModuleType("freezegun")
    frozen.freeze_time = FreezeTime  # type: ignore[attr-defined]
    own = ModuleType("tests")
    own.DEFAULT_ACCOUNT_ID = ACCOUNT  # type: ignore[attr-defined]
    own.allow_aws_request = lambda: False  # type: ignore[attr-defined]
    own.aws_verified = _mock_aws  # type: ignore[attr-defined]
    # What `tests.test_sqs` has for its own tests is imported from there.
    own.__path__ = [str(FOLDER)]
    modules = {"freezegun": frozen, "tests": own, package.__name__: package}
    before = {name: sys.modules.get(name) for name in (*modules, "tests.test_sqs")}
    sys.modules.update(modules)
    try:
        with (
            mock.patch.object(moto, "mock_aws", _mock_aws),
            mock.patch.object(pytest, "mark", _Marks),
        ):
            yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def _cases(name: str, test: Callable[..., None]) -> Iterator[tuple[str, Callable[[], None]]]:
    """The test, or each case of one that has several, by its numbers or else by its place."""
    marks: list[Any] = [
        mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"
    ]
    if not marks:
        yield name, test
        return
    (mark,) = marks
    names = [part.strip() for part in mark.args[0].split(",")]
    for place, case in enumerate(mark.args[1], 1):
        values = case if len(names) > 1 else (case,)
        # What is drawn is another in each process.
        are_numbers = all(isinstance(value, int) for value in values)
        said = "-".join(map(str, values)) if are_numbers else str(place)
        yield f"{name}[{said}]", partial(test, **dict(zip(names, values, strict=True)))


def moto_tests(service: str) -> Mapping[str, Callable[[], None]]:
    """All of a service ("kinesis", "sqs") by name, `file.test`; empty if they were not fetched."""
    found: dict[str, Callable[[], None]] = {}
    package = _package(FOLDER / f"test_{service}")
    with _played(package):
        for path in sorted((FOLDER / f"test_{service}").glob("test_*.py")):
            if path.name in NOT_RUN:
                continue
            module = importlib.import_module(f"{package.__name__}.{path.stem}")
            module.time = _Time()  # type: ignore[attr-defined]
            file = path.stem.removeprefix("test_")
            for name, test in vars(module).items():
                if name.startswith("test_") and callable(test):
                    asks = "account_id" in inspect.signature(test).parameters
                    whole = partial(test, account_id=ACCOUNT) if asks else test
                    found.update(_cases(f"{file}.{name}", whole))
    return found


def holds_or_is_listed(name: str, test: Callable[[], None], differs: Mapping[str, str]) -> None:
    """Assert that what the test expects holds, or that it fails if it is listed."""
    if name not in differs:
        test()
        return
    with pytest.raises(_FAILURES):
        test()
