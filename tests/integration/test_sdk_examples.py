"""Every program of the SDK's pages prints what the page says, and ends when it is told to."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.sdk_site import FACT_S_MAX
from tests.integration.server_process import ROOT, ServerProcess

PAGE = ROOT / "docs" / "sdk.md"


class Example(NamedTuple):
    """A program, what it prints, and whether it runs until it is stopped."""

    program: str
    printed: str

    @property
    def goes_on(self) -> bool:
        return ".run()" in self.program


def examples() -> Iterator[Example]:
    for program, printed in re.findall(
        r"```python\n(.*?)```\n\nprints[^\n]*\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL
    ):
        yield Example(program, printed)


def test_every_program_of_the_page_is_one_that_is_tried() -> None:
    assert len(list(examples())) == PAGE.read_text().count("```python") > 0


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[ServerProcess]:
    """As `make serve` starts it: who has no access key is refused."""
    started = ServerProcess(tmp_path / "data", tmp_path / "log", auth="on")
    started.start()
    yield started
    started.kill()


def first_line(example: Example) -> str:
    return example.printed.split("\n")[0]


@pytest.mark.parametrize("example", list(examples()), ids=first_line)
def test_a_program_prints_what_the_page_says(guarded: ServerProcess, example: Example) -> None:
    run(guarded, example)


@pytest.mark.parametrize(
    "example", [each for each in examples() if "GroupConsumer(" in each.program], ids=first_line
)
def test_a_program_that_makes_a_group_may_be_run_again(
    guarded: ServerProcess, example: Example
) -> None:
    run(guarded, example)
    run(guarded, example)


def run(server: ServerProcess, example: Example) -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-c", example.program.replace("127.0.0.1:9324", server.url[7:])],
        env={
            "PYTHONPATH": f"{ROOT / 'sdk/src'}",
            "PATH": "",
            "AWS_SHARED_CREDENTIALS_FILE": str(server.data / "credentials"),
        },
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        if example.goes_on:
            lines = example.printed.splitlines(keepends=True)
            said = "".join(running.stdout.readline() for _ in lines)
            running.send_signal(signal.SIGTERM)
        else:
            said = ""
        rest, _ = running.communicate(timeout=FACT_S_MAX)
        assert said + rest == example.printed
        assert running.returncode == 0
