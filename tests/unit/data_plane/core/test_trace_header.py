"""Which headers name a trace that somebody follows."""

import pytest

from data_plane.core.errors import RefusedError
from data_plane.core.limits import TRACE_HEADER_BYTES_MAX
from data_plane.core.trace_header import check_http_header, from_http_header

ROOT = "Root=1-3152b799-8954dae64eda91bc9a23a7e8"


@pytest.mark.parametrize(
    "header",
    [
        f"{ROOT};Parent=7fa8c0f79203be72;Sampled=1",
        f"{ROOT};Sampled=0",
        f"{ROOT}; Parent=7fa8c0f79203be72",
        f"Sampled=?;{ROOT};Lineage=a87bd80c:1|68fd508a:5|c512fbe3:2",
        f"Self=1-67891234-12456789abcdef012345678;{ROOT};Parent=7fa8c0f79203be72;Sampled=1",
    ],
)
def test_a_trace_is_passed_on_as_it_is(header: str) -> None:
    assert from_http_header(header) == header


@pytest.mark.parametrize(
    "header",
    [
        "",
        ROOT,
        f"Self=1-67891234-12456789abcdef012345678;{ROOT}",
        f"Self=1-67891234-12456789abcdef012345678;{ROOT};CalledFrom=app",
    ],
)
def test_what_balancers_and_gateways_put_there_is_no_trace(header: str) -> None:
    assert from_http_header(header) == ""


@pytest.mark.parametrize(
    "header",
    [
        "Parent=7fa8c0f79203be72;Sampled=1",
        "Root;Parent;Sampled",
        f"{ROOT};Sampled=1\x00",
        f"{ROOT};Sampled=\u00e4",
        f"{ROOT};Sampled=1\n",
        f"{ROOT};Sampled=1;".ljust(TRACE_HEADER_BYTES_MAX + 1, "x"),
    ],
)
def test_what_is_malformed_is_no_trace(header: str) -> None:
    assert from_http_header(header) == ""


def test_a_trace_may_be_as_long_as_an_attribute() -> None:
    header = f"{ROOT};Sampled=1;".ljust(TRACE_HEADER_BYTES_MAX, "x")
    assert from_http_header(header) == header


@pytest.mark.parametrize(
    "header",
    [
        "",
        ROOT,
        f"{ROOT};Sampled=0",
        f" Sampled=?; {ROOT} ;Lineage=a87bd80c:1|68fd508a:5|c512fbe3:2",
        f"Self=1-67891234-12456789abcdef012345678;{ROOT};CalledFrom=app",
        f"Self=1-67891234-12456789abcdef012345678;{ROOT}",
        f"{ROOT.replace('-31', '-00').upper().replace('ROOT', 'Root')};Sampled=1",
    ],
)
def test_calls_with_a_root_are_taken(header: str) -> None:
    check_http_header(header)


@pytest.mark.parametrize(
    "header",
    [
        "Root=dummy;Parent=7fa8c0f79203be72;Sampled=0",
        "Root%3D1-3152b799-8954dae64eda91bc9a23a7e8%3BSampled%3D0",
        "dae04c7a-6a43-4d8c-9a86-6caac024711e",
        "Parent=7fa8c0f79203be72;Sampled=1",
        f"{ROOT}0",
        ROOT[:-1],
        ROOT.replace("=1-", "=2-"),
        f"x{ROOT}",
        " ",
    ],
)
def test_calls_without_a_root_are_refused(header: str) -> None:
    with pytest.raises(RefusedError, match="reserved for AWS X-Ray") as refused:
        check_http_header(header)
    assert refused.value.message.endswith(f"invalid value '{header}'")
