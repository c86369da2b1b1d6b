"""The log as people read it."""

from data_plane.http.lines import fields_of
from data_plane.http.readable_lines import readable
from tests.unit.data_plane.http.test_metrics import served

NOON_US = 1_800_014_400_000_000


def test_a_request_is_told_by_what_was_done() -> None:
    fields = fields_of(served("SendMessage", status=200), "info", NOON_US)
    assert readable(fields) == (
        b"12:00:00 info    SendMessage orders 200 3.0 ms account=111111111111 client=127.0.0.1:1\n"
    )


def test_a_denial_says_why_and_whose_in_colour() -> None:
    its = served(
        "SendMessage", status=403, code="AccessDenied", principal="ann", access_key_id="AK"
    )
    line = readable(fields_of(its, "warning", NOON_US), in_colour=True).decode()
    assert line.startswith("12:00:00 \x1b[33mwarning\x1b[0m SendMessage orders 403 AccessDenied ")
    assert line.endswith(" principal=ann access_key_id=AK\n")


def test_other_events_have_all_of_their_fields_in_order() -> None:
    fields = {"time_us": NOON_US, "level": "info", "event": "started", "b": "two words", "a": 1}
    assert readable(fields, in_colour=True) == b'12:00:00 info    started b="two words" a=1\n'


def test_nothing_reaches_a_terminal_that_it_would_act_upon() -> None:
    told = {"reason": "a\x1b[2J\nb", "name": "\udcff", "none": ""}
    line = readable({"time_us": NOON_US, "level": "error", "event": "log", **told})
    assert line == b'12:00:00 error   log reason=a\\x1b[2J\\nb name=\\udcff none=""\n'
