"""The house rules hold for every file in git, and every rule can be broken."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tidy import rules

ROOT = Path(__file__).parents[2]
Rule = Callable[[Path, str], list[str]]


def tracked_files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    names = [Path(name) for name in listed.stdout.split("\0") if name]
    return [name for name in names if (ROOT / name).is_file()]


FILES = tracked_files()


def test_git_knows_the_sources() -> None:
    assert Path("data_plane/ports.py") in FILES


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: str(rule.__name__))
def test_rule_holds_everywhere(rule: Rule) -> None:
    found = [
        f"{path}: {violation}"
        for path in FILES
        for violation in rule(path, (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_no_binaries_and_nothing_huge() -> None:
    wrong = [
        str(path)
        for path in FILES
        if b"\0" in (content := (ROOT / path).read_bytes()) or len(content) > rules.FILE_BYTES_MAX
    ]
    assert not wrong


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in FILES if path.parts[0] in ("data_plane", "control_plane")}
    missing = [str(folder) for folder in folders if folder / "__init__.py" not in FILES]
    assert not missing


SOURCE = Path("data_plane/core/thing.py")
SERVING = Path("tests/integration/test_thing.py")


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (rules.too_long, SOURCE, "\n" * rules.LINES_MAX),
        (rules.long_functions, SOURCE, "def f():\n" + "    pass\n" * rules.FUNCTION_LINES_MAX),
        (rules.banned_name, Path("data_plane/utils/thing.py"), ""),
        (rules.banned_name, Path("data_plane/common.py"), ""),
        (rules.leftovers, SOURCE, "# TO" + "DO: later"),
        (rules.conflict_marks, SOURCE, "<" * 7 + " HEAD\n"),
        (rules.machine_paths, SOURCE, "open('" + "/ho" + "me/someone/file')"),
        (rules.registry_hosts, SOURCE, "https://py" + "pi.org/simple"),
        (rules.package_without_docstring, Path("data_plane/core/__init__.py"), "A = 1\n"),
        (rules.default_ports, SERVING, "def f():\n    run('serve', '--data', 'x')\n"),
        (rules.default_ports, SERVING, "async def f():\n    run([*python, 'serve'])\n"),
    ],
)
def test_rule_can_be_broken(rule: Rule, path: Path, text: str) -> None:
    assert rule(path, text)


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: str(rule.__name__))
def test_rule_lets_good_files_pass(rule: Rule) -> None:
    assert not rule(SOURCE, '"""Words."""\n\n\ndef f() -> None:\n    """Do it."""\n')
