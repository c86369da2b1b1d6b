from pathlib import Path

from tests.conformance.cost_table import table

PAGE = Path(__file__).parents[2] / "docs" / "cost.md"


def test_the_table_in_the_documentation_is_what_is_counted() -> None:
    assert table() in PAGE.read_text()
