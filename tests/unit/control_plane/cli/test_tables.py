"""Rows as people see them, and as programs read them."""

import json

import pytest

from control_plane.cli.tables import Cell, tell

COLUMNS = ("NAME", "OWNER", "BEHIND S", "STREAMS")
ROW: list[Cell] = ["ann", None, 1.5, ["clicks", "orders"]]


def test_people_see_a_dash_and_names_with_commas(capsys: pytest.CaptureFixture[str]) -> None:
    tell(COLUMNS, [ROW], as_json=False)
    [_, line] = capsys.readouterr().out.splitlines()
    assert line.split() == ["ann", "-", "1.5", "clicks,", "orders"]


def test_programs_read_null_numbers_and_lists(capsys: pytest.CaptureFixture[str]) -> None:
    tell(COLUMNS, [ROW], as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {"name": "ann", "owner": None, "behind_s": 1.5, "streams": ["clicks", "orders"]}
    ]
