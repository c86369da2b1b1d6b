"""What consumers are not to be made with: they name the option at once."""

from math import nan
from typing import Any

import pytest

from sdk.tests.scripted import ScriptedClient
from sdk.tests.test_queue_consumer import URL
from tidegate_sdk import CommitPolicy, GroupConsumer, QueueConsumer, commit_every

NO_WHOLE: list[tuple[Any, type[Exception]]] = [
    (1.5, TypeError),
    ("2", TypeError),
    (None, TypeError),
    (True, TypeError),
    (-1, ValueError),
]
NO_SECONDS: list[tuple[Any, type[Exception]]] = [
    ("2", TypeError),
    (True, TypeError),
    ([], TypeError),
    (-0.1, ValueError),
    (nan, ValueError),
]
NO_TEXT: list[tuple[Any, type[Exception]]] = [(5, TypeError), (b"x", TypeError), ("", ValueError)]


def cases(
    names: str, values: list[tuple[Any, type[Exception]]]
) -> list[tuple[str, Any, type[Exception]]]:
    return [(name, value, error) for name in names.split() for value, error in values]


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        *cases("workers prefetch wait_s visibility_s", NO_WHOLE),
        *cases("wait_s visibility_s", [(43_201, ValueError)]),
        *cases("workers visibility_s", [(0, ValueError)]),
        *cases("linger_s retry_first_s retry_s_max stop_s_max", NO_SECONDS),
        *cases("linger_s retry_first_s retry_s_max", [(None, TypeError)]),
        *cases("queue_url", [*NO_TEXT, (None, TypeError)]),
    ],
)
def test_options_of_a_queues_consumer(name: str, value: Any, error: type[Exception]) -> None:
    options: Any = {"queue_url": URL, "handler": print, name: value}
    with pytest.raises(error, match=f"^{name} is "):
        QueueConsumer(ScriptedClient(), **options)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        *cases("workers records_max wait_s", NO_WHOLE),
        *cases("wait_s", [(21, ValueError)]),
        *cases("records_max", [(10_001, ValueError), (0, ValueError)]),
        *cases("workers", [(0, ValueError)]),
        *cases("group", [*NO_TEXT, (None, TypeError)]),
        *cases("instance_id", NO_TEXT),
        *cases("commits", [(commit_every, TypeError), (5, TypeError)]),
        *cases("commits", [(CommitPolicy(every_s=value), error) for value, error in NO_SECONDS]),
    ],
)
def test_options_of_a_groups_consumer(name: str, value: Any, error: type[Exception]) -> None:
    options: Any = {"group": "readers", "handler": print, name: value}
    with pytest.raises(error, match=rf"^{name}(\.every_s)? is "):
        GroupConsumer(ScriptedClient(), **options)


@pytest.mark.parametrize(("value", "error"), [*NO_SECONDS, (None, TypeError), (0, ValueError)])
def test_commits_by_time_are_some_time_apart(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^commit_every is "):
        commit_every(value)


def test_what_stands_at_the_ends_is_taken() -> None:
    client = ScriptedClient()
    soon: Any = {"linger_s": 0, "retry_first_s": 0, "retry_s_max": 0.0, "stop_s_max": 0}
    QueueConsumer(client, URL, print, workers=1, prefetch=0, wait_s=0, visibility_s=1, **soon)
    QueueConsumer(client, URL, print, wait_s=20, visibility_s=43_200)
    GroupConsumer(client, "readers", print, workers=1, records_max=1, wait_s=0, instance_id="i")
    GroupConsumer(client, "readers", print, records_max=10_000, wait_s=20, commits=commit_every(1))
