"""Every command of the tutorials, run in their order, prints what the page says."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration import forked
from tests.integration.server_process import ROOT
from tests.ports import free_port

PAGES = {"tutorial.md": 20, "streams.md": 25}
"""How many steps each page has at least."""

PORT = "9324"
KILL = 'pkill -9 -f "tidegate serve"'
START_S_MAX = 60
OF_A_SHELL = set("|&;<>$`*")
"""What makes a line more than a command with its arguments."""


def kind(words: list[str]) -> tuple[str, ...]:
    """What a line of `tidegate` does: all such lines import the same."""
    return tuple(words[:3])


class Step(NamedTuple):
    """A command, what follows it on the page, and whether that is what it prints."""

    command: str
    follows: str

    @property
    def is_typed_in(self) -> bool:
        """Whether what follows is written into a file."""
        return self.command.startswith("cat > ")


def steps(page: str) -> Iterator[Step]:
    text = (ROOT / "docs" / page).read_text()
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, follows = part.partition("\n")
            yield Step(command, follows)


class Terminal:
    """A directory with a server, and a shell beside it.

    What `tidegate` has done here once, its process being started by the system, it does from then
    on in one that is forked.
    """

    def __init__(self, directory: Path, forks: forked.ForkServer | None) -> None:
        self.directory = directory
        self.forks = forks
        self.done = set[tuple[str, ...]]()
        self.port = str(free_port())
        self.variables = {
            **{name: text for name, text in os.environ.items() if not name.startswith("AWS_")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TIDEGATE_ENDPOINT": f"http://127.0.0.1:{self.port}",
        }
        self.server: subprocess.Popen[str] | None = None

    def here(self, text: str) -> str:
        """The page's text, with the port of this test."""
        return text.replace(PORT, self.port)

    def start(self) -> str:
        """The first two lines of a server."""
        command = [sys.executable, "-m", "control_plane.cli", "serve", "--port", self.port]
        with (self.directory / "log").open("ab") as log:
            self.server = subprocess.Popen(
                command,
                cwd=self.directory,
                env=self.variables,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.server.stdout is not None
        return "".join(self.server.stdout.readline() for _ in range(2))

    def kill(self) -> None:
        if self.server is not None:
            self.server.send_signal(signal.SIGKILL)
            self.server.wait()
            assert self.server.stdout is not None
            self.server.stdout.close()
            self.server = None

    def run(self, command: str) -> str:
        """What a command prints; a variable that it exports stays."""
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self.variables[name] = value.replace("$PWD", str(self.directory))
            return ""
        done = self._ran(self.here(command))
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _ran(self, line: str) -> subprocess.CompletedProcess[str]:
        words = shlex.split(line)
        if words[0] == "tidegate" and not OF_A_SHELL & {*line}:
            if self.forks is not None and kind(words) in self.done:
                return forked.run(
                    self.forks, words[1:], self.variables, START_S_MAX, self.directory
                )
            self.done.add(kind(words))
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.directory,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S_MAX,
        )

    def do(self, step: Step) -> str | None:
        """What a step prints; None where it prints nothing that the page shows."""
        if step.command == "tidegate serve":
            return self.start()
        if step.command == KILL:
            self.kill()
            return None
        if step.is_typed_in:
            name = step.command.removeprefix("cat > ")
            (self.directory / name).write_text(self.here(step.follows))
            return None
        return self.run(step.command)


def is_as_shown(printed: str, shown: str) -> bool:
    """Whether it is what the page shows, in which `...` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("..."))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


@pytest.fixture
def terminal(tmp_path: Path, fork_server: forked.ForkServer | None) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path, fork_server)
    yield terminal
    terminal.kill()


@pytest.mark.parametrize("page", PAGES)
def test_every_command_does_what_the_page_says(terminal: Terminal, page: str) -> None:
    done = list(steps(page))
    assert len(done) > PAGES[page]
    for step in done:
        printed = terminal.do(step)
        if printed is not None:
            shown = terminal.here(step.follows)
            assert is_as_shown(printed, shown), f"{step.command} printed:\n{printed}"


def test_what_differs_from_the_page_is_noticed() -> None:
    assert is_as_shown(
        "serves on 1, data in /x/data\nkey=1", "serves on 1, data in .../data\nkey=..."
    )
    assert not is_as_shown("two teas\n", "two coffees")
    assert not is_as_shown("", "...x")
