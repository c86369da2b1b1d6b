"""One meaning for each name: the glossary names what there is, and classes do not share names."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
ROOMS = ("data_plane", "control_plane")

SHARED = {
    "Access",
    "Block",
    "Cell",
    "CellRecord",
    "Counts",
    "Desk",
    "Entry",
    "Finished",
    "Found",
    "FrontEnd",
    "Head",
    "Held",
    "HeldSegments",
    "Moving",
    "Opened",
    "Outcome",
    "Pending",
    "Places",
    "Record",
    "Removal",
    "Served",
    "SeveralTables",
    "Standing",
    "Tail",
    "UsagePlace",
    "Verdict",
}
"""Names that more than one class has. Take away, add none: a second meaning gets its own word."""


def public_classes() -> dict[str, list[str]]:
    """Where each public class is defined, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return found


def collisions(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def test_no_two_classes_share_a_name() -> None:
    shared = collisions(public_classes())
    assert {name: paths for name, paths in shared.items() if name not in SHARED} == {}
    assert SHARED - shared.keys() == set(), "these have one meaning by now: take them off the list"


def test_a_collision_is_seen() -> None:
    assert collisions({"Lane": ["a.py"], "Room": ["a.py", "b.py"]}) == {"Room": ["a.py", "b.py"]}


def test_the_glossary_names_what_there_is() -> None:
    rows = re.findall(
        r"^\| (.+?) \| .+ \| `(\S+\.py)` `(\w+)` \|$", GLOSSARY.read_text(), re.MULTILINE
    )
    assert len(rows) == len(re.findall(r"^\| [a-z]", GLOSSARY.read_text(), re.MULTILINE)) - 1
    words = [word for word, _, _ in rows]
    assert len(set(words)) == len(words) > 30
    for word, path, name in rows:
        defined = {
            node.name
            for node in ast.parse((ROOT / path).read_text()).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in defined, f"{word}: {path} has no {name}"
