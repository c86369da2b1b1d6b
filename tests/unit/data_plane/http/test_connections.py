import resource

import pytest

from data_plane.http.connections import accepted_connections
from data_plane.http.server import HttpSettings

INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "wanted", "accepted", "raised"),
    [
        ((INFINITE, INFINITE), 1000, 1000, None),
        ((100_000, 100_000), 1000, 1000, None),
        ((1256, 100_000), 1000, 1000, None),
        ((1024, 100_000), 1000, 1000, 1256),
        ((1024, INFINITE), 1000, 1000, 1256),
        ((512, 1000), 1000, 744, 1000),
        ((100, 300), 1000, 150, 300),
        ((100, 300), 20, 20, 276),
    ],
)
def test_as_many_connections_as_there_may_be_files(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    wanted: int,
    accepted: int,
    raised: int | None,
) -> None:
    """Limits are soft and hard."""
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: made.append(new))
    assert accepted_connections(wanted) == accepted
    assert made == ([] if raised is None else [(raised, limits[1])])


def test_a_limit_that_cannot_be_raised_counts_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, _new: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, INFINITE))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert accepted_connections(1000) == 128


@pytest.mark.parametrize(
    ("headers_bytes_max", "wanted"),
    [(0, 16_384), (1 << 40, 16_384), (256 * 1_048_576, 3_276), (1, 1)],
)
def test_as_many_connections_as_may_hold_a_header_each(headers_bytes_max: int, wanted: int) -> None:
    settings = HttpSettings(1, headers_bytes_max=headers_bytes_max)
    assert settings.connections_wanted == wanted
