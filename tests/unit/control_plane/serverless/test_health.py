import json

import pytest

from control_plane.serverless import health
from control_plane.serverless.events import rest_request, url_request
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, CellUnavailableError, Key
from data_plane.protocol.http import HttpRequest, HttpResponse
from tests.unit.data_plane.wire import run
from tests.unit.repeatable import HandClock

ELSEWHERE = HttpResponse(404, (), b"the front end's")


class AwayCell(MemoryCell):
    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:  # noqa: ARG002
        raise CellUnavailableError("away")


async def front_end(_: HttpRequest) -> HttpResponse:
    return ELSEWHERE


def asked(method: str, path: str, prefix: str = "", *, away: bool = False) -> HttpResponse:
    request = HttpRequest(method, path, "", {"host": "queue.example.com"}, b"", prefix=prefix)
    return answered(request, away=away)


def answered(request: HttpRequest, *, away: bool = False) -> HttpResponse:
    clock = HandClock()
    cell = AwayCell(clock) if away else MemoryCell(clock)
    answer = health.before(front_end, {"orders": cell}, clock)

    async def call() -> HttpResponse:
        return await answer(request)

    return run(call())


@pytest.mark.parametrize(("path", "prefix"), [("/health", ""), ("/v1/health", "/v1")])
def test_a_check_needs_no_signature(path: str, prefix: str) -> None:
    response = asked("GET", path, prefix)
    assert response.status == 200
    told = json.loads(response.body)
    assert (told["status"], told["cells"]) == ("ok", {"orders": "available"})


def test_a_check_comes_through_both_doors() -> None:
    """By AWS's own name of the API, whose path begins with its stage, as Route 53 asks it."""
    rest = {
        "path": "/health",
        "pathParameters": {"proxy": "health"},
        "headers": {"Host": "a1.execute-api.eu-west-1.amazonaws.com"},
        "requestContext": {"httpMethod": "GET", "path": "/v1/health", "identity": {}},
        "body": None,
    }
    url = {
        "rawPath": "/health",
        "headers": {"host": "a1.lambda-url.eu-west-1.on.aws"},
        "requestContext": {"http": {"method": "GET"}},
    }
    assert answered(rest_request(rest)).status == 200
    assert answered(url_request(url)).status == 200


def test_a_cell_that_does_not_answer_is_told() -> None:
    response = asked("GET", "/health", away=True)
    assert response.status == 503
    assert json.loads(response.body)["cells"] == {"orders": "unavailable"}


@pytest.mark.parametrize(
    ("method", "path", "prefix"),
    [("POST", "/health", ""), ("GET", "/", ""), ("GET", "/v1/health", ""), ("GET", "/health/", "")],
)
def test_all_else_is_the_front_ends(method: str, path: str, prefix: str) -> None:
    assert asked(method, path, prefix) is ELSEWHERE
