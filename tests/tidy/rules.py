"""House rules about files, each a function from a file to its violations."""

import ast
import re
from pathlib import Path
from typing import Final

LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 70
FILE_BYTES_MAX: Final = 512 * 1024

BANNED_NAMES: Final = frozenset({"utils", "util", "helpers", "helper", "common", "misc"}) | {
    "manager",
    "base",
}
"""A name that says nothing about what is inside collects everything."""

GENERATED: Final = re.compile(
    r"requirements/[a-z]+\.txt|tests/benchmarks/results/.*|.*/package-lock\.json"
)
"""Written by tools; long by nature."""

_NO_SERVERS: Final = frozenset({"property", "simulation", "spark", "tidy", "unit"})
"""Folders of tests that open no sockets, or no server's."""

# Spelled so that this file does not break its own rule.
_LEFTOVER: Final = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")
_MACHINE_PATH: Final = re.compile(r"(?<![\w.$/-])/(?:home|root|Users|work|opt|mnt|tmp)/[\w.-]+")
_REGISTRY: Final = re.compile(
    r"\b(?:[\w-]+\.)?(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|(?<!emit-)index-ur[l]|artifactor[y]|nexu[s])\b"
)
_SERVE: Final = re.compile(r"""["']serve["']""")
_CONFLICT: Final = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)


def too_long(path: Path, text: str) -> list[str]:
    if GENERATED.fullmatch(path.as_posix()) or path.suffix == ".md":
        return []
    lines = text.count("\n") + 1
    return [f"{lines} lines, {LINES_MAX} are allowed"] if lines > LINES_MAX else []


def long_functions(path: Path, text: str) -> list[str]:
    if path.suffix != ".py":
        return []
    return [
        f"line {node.lineno}: {node.name} has {length} lines, {FUNCTION_LINES_MAX} are allowed"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def banned_name(path: Path, _text: str) -> list[str]:
    names = {part.partition(".")[0] for part in path.parts}
    return [f"{name!r} says nothing about what is inside" for name in names & BANNED_NAMES]


def leftovers(_path: Path, text: str) -> list[str]:
    return [f"leftover {match.group()}" for match in _LEFTOVER.finditer(text)]


def conflict_marks(_path: Path, text: str) -> list[str]:
    return ["mark of a merge conflict" for _ in _CONFLICT.finditer(text)]


def machine_paths(_path: Path, text: str) -> list[str]:
    return [f"path of some machine: {match.group()}" for match in _MACHINE_PATH.finditer(text)]


def registry_hosts(_path: Path, text: str) -> list[str]:
    return [f"host of a registry: {match.group()}" for match in _REGISTRY.finditer(text)]


def package_without_docstring(path: Path, text: str) -> list[str]:
    if path.name != "__init__.py" or ast.get_docstring(ast.parse(text)):
        return []
    return ["a package says in a docstring what it is for"]


def default_ports(path: Path, text: str) -> list[str]:
    """Tests that start servers must pass beside a server that serves already."""
    if path.suffix != ".py" or path.parts[0] != "tests" or path.parts[1] in _NO_SERVERS:
        return []
    if not _SERVE.search(text):
        return []
    functions = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return [
        f"line {node.lineno}: {node.name} starts a server, and does not say its --port"
        for node in functions
        if "serve" in (said := _arguments(node)) and "--port" not in said
    ]


def _arguments(function: ast.AST) -> set[object]:
    """Constants that are arguments of calls, or members of lists and tuples of arguments."""
    lists = [
        node.args if isinstance(node, ast.Call) else node.elts
        for node in ast.walk(function)
        if isinstance(node, ast.Call | ast.List | ast.Tuple)
    ]
    return {item.value for items in lists for item in items if isinstance(item, ast.Constant)}


RULES: Final = (
    too_long,
    long_functions,
    banned_name,
    leftovers,
    conflict_marks,
    machine_paths,
    registry_hosts,
    package_without_docstring,
    default_ports,
)
