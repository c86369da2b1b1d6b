"""Functions of the program that consumers call: what one returns means that it is done.

What an async function or a generator returns has not even begun, and nobody would await it.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

T = TypeVar("T")

_INSTEAD: Final = (
    "nobody would await it. Give one that does the work, as lambda it: asyncio.run(handle(it))"
)


def that_ends(name: str, function: Callable[[T], object]) -> Callable[[T], None]:
    """The function, which raises where it returns what is to be awaited. `name` is the option's.

    Raises TypeError where it is none, or would never be done.
    """
    if not callable(function):
        raise TypeError(f"{name} is a function, not {function!r}")
    if _is_of(function, inspect.iscoroutinefunction, inspect.isasyncgenfunction):
        raise TypeError(f"{name} is an async function: {_INSTEAD}")
    if _is_of(function, inspect.isgeneratorfunction):
        raise TypeError(f"{name} is a generator, which nobody would run: give one without yield")

    def call(argument: T) -> None:
        result = function(argument)
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()  # Python warns of what is never awaited.
        elif not inspect.isawaitable(result) and not inspect.isasyncgen(result):
            return
        raise TypeError(f"{name} has returned a {type(result).__name__}: {_INSTEAD}")

    return call


def _is_of(function: Any, *kinds: Callable[[Any], bool]) -> bool:
    while isinstance(function, partial):
        function = function.func
    called = getattr(type(function), "__call__", None)  # noqa: B004 - of an object
    return any(is_kind(each) for is_kind in kinds for each in (function, called))
