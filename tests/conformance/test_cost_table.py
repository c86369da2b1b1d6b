import re
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.cost_page import prose, tables
from tests.conformance.cost_table import table
from tests.conformance.stream_cost_table import table as stream_table

PAGE: Final = Path(__file__).parents[2] / "docs" / "cost.md"
DOLLARS: Final = re.compile(
    r"(?:USD|\$) ?\d[\d.,]*|\d[\d.,]* (?:US )?dollars?|^\|.*\d\.\d\d \|", re.MULTILINE
)
"""Sums in sentences, and rows of tables that look like sums."""


def test_the_table_in_the_documentation_is_what_is_counted() -> None:
    assert table() in PAGE.read_text()


def test_the_table_of_streams_is_what_is_counted() -> None:
    """`python -m tests.conformance.stream_cost_table` prints it."""
    assert stream_table() in PAGE.read_text()


@pytest.mark.parametrize("name", tables())
def test_tables_in_the_documentation_are_what_is_reckoned(name: str) -> None:
    """`python -m tests.conformance.cost_page` prints them."""
    assert tables()[name] in PAGE.read_text()


def test_no_other_dollars_are_in_the_documentation() -> None:
    page = PAGE.read_text()
    for said in prose():
        assert said in page
    for known in (table(), stream_table(), *tables().values(), *prose()):
        page = page.replace(known, "")
    assert DOLLARS.findall(page) == []
