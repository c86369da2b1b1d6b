"""The texts of refusals as the code has them, found by reading it.

A text is what is handed on beside a fault, as in `RefusedError(FAULT, text)`, with `{}` for what is
known only when it is told. A function that tells its own parameter is read with what its callers
hand over.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Final, TypeAlias

HOLE: Final = "{}"
_FAULTS: Final = "data_plane.core.errors"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Text: TypeAlias = "tuple[str | Parameter, ...]"
Where: TypeAlias = tuple[str, str]
"""A module and a function of it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of a text that the callers of a function say."""

    name: str


@dataclass(slots=True)
class Module:
    """What of a module the texts are told by."""

    tree: ast.Module
    functions: dict[str, Function] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imported: dict[str, Where] = field(default_factory=dict)


class Code:
    """The modules of some folders, and what they tell their clients."""

    def __init__(self, root: Path, folders: Iterable[str]) -> None:
        files = chain.from_iterable(sorted((root / folder).rglob("*.py")) for folder in folders)
        self._modules = {
            ".".join(path.relative_to(root).with_suffix("").parts): _read(path) for path in files
        }
        self._faults = {name for name in self._modules[_FAULTS].constants if name.isupper()}
        self._known: dict[Where, frozenset[Text]] = {}

    def texts(self) -> dict[str, set[str]]:
        """Each text with the functions that tell it."""
        found: dict[str, set[str]] = {}
        called = self._called()
        for name, module in self._modules.items():
            for function in module.functions:
                where = (name, function)
                for text in self._told(where):
                    if where in called and any(isinstance(part, Parameter) for part in text):
                        continue
                    told = "".join(part if isinstance(part, str) else HOLE for part in text)
                    found.setdefault(told, set()).add(f"{name}.{function}")
        return found

    def _called(self) -> set[Where]:
        return {
            callee
            for name, module in self._modules.items()
            for call in ast.walk(module.tree)
            if isinstance(call, ast.Call) and (callee := self._callee(name, call)) is not None
        }

    def _told(self, where: Where) -> frozenset[Text]:
        """The texts of a function; those of functions that it calls if it has a say in them."""
        if where not in self._known:
            self._known[where] = frozenset()  # What it says when it calls itself is the same.
            self._known[where] = frozenset(self._find_told(where))
        return self._known[where]

    def _find_told(self, where: Where) -> set[Text]:
        told: set[Text] = set()
        for node in ast.walk(self._modules[where[0]].functions[where[1]]):
            if isinstance(node, ast.Tuple):
                told.update(self._beside_faults(where, node.elts))
            elif isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name) and node.func.id == "RefusedError":
                    told.update(*(self._says(where, text) for text in node.args[1:2]))
                else:
                    told.update(self._beside_faults(where, node.args))
                    told.update(self._handed_on(where, node))
        return told

    def _beside_faults(self, where: Where, row: list[ast.expr]) -> Iterator[Text]:
        for fault, text in pairwise(row):
            if isinstance(fault, ast.Name) and fault.id in self._faults:
                yield from self._says(where, text)

    def _handed_on(self, where: Where, call: ast.Call) -> Iterator[Text]:
        callee = self._callee(where[0], call)
        if callee is None or callee == where:
            return
        function = self._modules[callee[0]].functions[callee[1]]
        handed = self._handed(where, function, call)
        for text in self._told(callee):
            if any(isinstance(part, Parameter) for part in text):
                yield from _joined(
                    [part] if isinstance(part, str) else handed.get(part.name, {(HOLE,)})
                    for part in text
                )

    def _handed(self, where: Where, function: Function, call: ast.Call) -> dict[str, set[Text]]:
        positional = [*function.args.posonlyargs, *function.args.args]
        names = [argument.arg for argument in positional if argument.arg not in {"self", "cls"}]
        handed = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
        handed.update(zip(names, call.args, strict=False))
        handed.update({word.arg: word.value for word in call.keywords if word.arg})
        return {name: self._says(where, value) for name, value in handed.items()}

    def _callee(self, module: str, call: ast.Call) -> Where | None:
        """The function of these modules that is called, if it is one."""
        here = self._modules[module]
        match call.func:
            case ast.Name(name) if name in here.functions:
                return module, name
            case ast.Name(name) if name in here.imported:
                where = here.imported[name]
                known = self._modules.get(where[0])
                return where if known is not None and where[1] in known.functions else None
            case ast.Attribute(ast.Name("self" | "cls"), name) if name in here.functions:
                return module, name
        return None

    def _says(  # noqa: PLR0911 - one for each kind of expression
        self, where: Where, value: ast.expr
    ) -> set[Text]:
        """The texts that an expression may have."""
        match value:
            case ast.Constant(str() | int() as text):
                return {(str(text),)}
            case ast.JoinedStr(parts):
                return _joined(self._says(where, part) for part in parts)
            case ast.FormattedValue(inner):
                return self._says(where, inner)
            case ast.BinOp(left, ast.Add(), right) if not _is_number(right):
                return _joined([self._says(where, left), self._says(where, right)])
            case ast.IfExp(_, one, other):
                return self._says(where, one) | self._says(where, other)
            case ast.Name(name):
                return self._named(where, name)
            case ast.Call(ast.Attribute(pattern, "format")):
                return self._says(where, pattern)
            case ast.Call(ast.Attribute(ast.Constant(str()), "join"), [joined]):
                return self._each(where, joined) or {(HOLE,)}
        return {(HOLE,)}

    def _each(self, where: Where, joined: ast.expr) -> set[Text]:
        """The sentences that are put behind each other."""
        match joined:
            case ast.GeneratorExp(sentence) | ast.ListComp(sentence):
                return self._says(where, sentence)
            case ast.Name(name):
                function = self._modules[where[0]].functions[where[1]]
                lists = [value for bound, value in _assigned(function) if bound == name]
                return set().union(
                    *(self._each(where, each) for each in lists),
                    *(self._says(where, each) for each in _appended(function, name)),
                )
        return set()

    def _named(self, where: Where, name: str) -> set[Text]:
        module = self._modules[where[0]]
        function = module.functions.get(where[1])
        if function is not None:
            values = [value for bound, value in _assigned(function) if bound == name]
            if values and not any(_mentions(value, name) for value in values):
                return set().union(*(self._says(where, value) for value in values))
            arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
            if any(argument.arg == name for argument in arguments):
                return {(Parameter(name),)}
        if name in module.constants:
            return self._says((where[0], ""), module.constants[name])
        if name in module.imported and module.imported[name][0] in self._modules:
            source, constant = module.imported[name]
            if constant in self._modules[source].constants:
                return self._says((source, ""), self._modules[source].constants[constant])
        return {(HOLE,)}


def _read(path: Path) -> Module:
    module = Module(ast.parse(path.read_text(encoding="utf-8")))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            module.functions[node.name] = node
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                module.imported[name.asname or name.name] = (node.module, name.name)
    module.constants = dict(_assigned(module.tree))
    return module


@cache
def _assigned(body: ast.Module | Function) -> tuple[tuple[str, ast.expr], ...]:
    return tuple(_find_assigned(body))


def _find_assigned(body: ast.Module | Function) -> Iterator[tuple[str, ast.expr]]:
    """The names that are bound, those of a module at its top only."""
    for node in body.body if isinstance(body, ast.Module) else ast.walk(body):
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.NamedExpr(ast.Name(name), value):
                yield name, value
            case ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                yield name, value


def _appended(function: Function, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        match node:
            case ast.Call(ast.Attribute(ast.Name(whose), "append"), [value]) if whose == name:
                yield value


def _is_number(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int)


def _mentions(value: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(value))


def _joined(parts: Iterable[Iterable["Text | str"]]) -> set[Text]:
    """Every way to put the parts together."""
    return {
        tuple(chain.from_iterable([part] if isinstance(part, str) else part for part in row))
        for row in product(*parts)
    }
