"""Access keys that pages and files have operators choose are ones that a server takes."""

import re
from pathlib import Path

import pytest

from data_plane.core.root_key import RootKey

ROOT = Path(__file__).parents[2]
CHOSEN = re.compile(
    r'ROOT_ACCESS_KEY_ID(?:=|: |", ")([^\s"]+)|printf (\S+) > secrets/access-key-id'
)


@pytest.mark.parametrize("page", ["docs/ci.md", "docs/operations.md", "compose.yaml"])
def test_a_chosen_id_is_taken(page: str) -> None:
    chosen = [a or b for a, b in CHOSEN.findall((ROOT / page).read_text(encoding="utf-8"))]
    assert chosen
    for key_id in chosen:
        assert RootKey(key_id, "12345678").id == key_id
