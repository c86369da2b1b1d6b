import pytest

from data_plane.protocol.http import HttpRequest, path_inside


def request(path: str, prefix: str) -> HttpRequest:
    return HttpRequest("POST", path, "", {}, b"", prefix=prefix)


@pytest.mark.parametrize(
    ("path", "prefix", "inside"),
    [
        ("/", "", "/"),
        ("/a/b", "", "/a/b"),
        ("/sqs", "/sqs", "/"),
        ("/sqs/", "/sqs", "/"),
        ("/sqs/a/b", "/sqs", "/a/b"),
        ("/x/y/a/b", "/x/y", "/a/b"),
        ("/a/b", "/sqs", "/a/b"),
        ("/sqsx", "/sqs", "/sqsx"),
    ],
)
def test_what_leads_to_the_service_is_none_of_its_path(path: str, prefix: str, inside: str) -> None:
    assert path_inside(request(path, prefix)) == inside


@pytest.mark.parametrize(
    ("path", "prefix", "signed"),
    [
        ("/", "", {"/"}),
        ("/a/b", "", {"/a/b"}),
        ("/sqs/a/b", "/sqs", {"/sqs/a/b"}),
        ("/sqs", "/sqs", {"/sqs", "/sqs/"}),
        ("/sqs/", "/sqs", {"/sqs", "/sqs/"}),
        # A proxy has taken the prefix away.
        ("/a/b", "/sqs", {"/a/b", "/sqs/a/b"}),
        ("/", "/sqs", {"/", "/sqs", "/sqs/"}),
    ],
)
def test_the_path_as_it_may_have_been_signed(path: str, prefix: str, signed: set[str]) -> None:
    assert set(request(path, prefix).paths) == signed
