import pytest

from data_plane.http.cross_origin import AllowedOrigins
from data_plane.protocol.http import HttpResponse

SHOP = "http://localhost:3000"
ASKS = {
    "origin": SHOP,
    "access-control-request-method": "POST",
    "access-control-request-headers": (
        "Authorization, x-amz-target,X-Amz-Date,cookie, amz-sdk-request"
    ),
}
ALLOWED = AllowedOrigins((SHOP, "https://shop.example"))
ANSWER = HttpResponse(200, (("content-type", "text/xml"),), b"x")


def test_a_preflight_of_an_allowed_origin() -> None:
    answer = ALLOWED.preflight("OPTIONS", ASKS)
    assert answer is not None
    assert (answer.status, answer.body) == (204, b"")
    assert dict(answer.headers) == {
        "access-control-allow-origin": SHOP,
        "vary": "origin",
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": "authorization, x-amz-target, x-amz-date, amz-sdk-request",
        "access-control-max-age": "600",
    }


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("POST", {}),
        ("OPTIONS", {"origin": "http://localhost:3001"}),
        ("OPTIONS", {"origin": "https://localhost:3000"}),
        ("OPTIONS", {"origin": "null"}),
        ("OPTIONS", {"origin": f"{SHOP}/"}),
        ("OPTIONS", {"origin": f"{SHOP}.evil.example"}),
        ("OPTIONS", {"origin": f"{SHOP},{SHOP}"}),
        ("OPTIONS", {"origin": ""}),
        ("OPTIONS", {"access-control-request-method": None}),
    ],
)
def test_what_is_no_preflight_of_an_allowed_origin(
    method: str, changes: dict[str, str | None]
) -> None:
    headers = {name: text for name, text in {**ASKS, **changes}.items() if text is not None}
    assert ALLOWED.preflight(method, headers) is None


def test_an_answer_shows_itself_to_an_allowed_page() -> None:
    shown = ALLOWED.shown(ANSWER, {"origin": "https://shop.example"})
    assert shown.headers[0] == ANSWER.headers[0]
    assert dict(shown.headers)["access-control-allow-origin"] == "https://shop.example"
    assert "x-amzn-requestid" in dict(shown.headers)["access-control-expose-headers"]


@pytest.mark.parametrize("origin", ["", "null", "http://evil.example", "*"])
def test_other_pages_see_nothing(origin: str) -> None:
    assert ALLOWED.shown(ANSWER, {"origin": origin}) is ANSWER
    assert ALLOWED.shown(ANSWER, {}) is ANSWER


def test_without_origins_nobody_is_allowed() -> None:
    for headers in (ASKS, {**ASKS, "origin": ""}, {}):
        assert AllowedOrigins().preflight("OPTIONS", headers) is None
        assert AllowedOrigins().shown(ANSWER, headers) is ANSWER
