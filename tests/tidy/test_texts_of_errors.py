"""docs/errors.md lists every text that a client can be refused with, and no other."""

import re
from pathlib import Path

import pytest

from tests.tidy.refusals import HOLE, Code

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "errors.md"
ROW = re.compile(r"\| `(?P<text>.+)` \| (?P<seen>.+) \|")
SOURCE = re.compile(
    r"not recorded|recorded; where is not kept|ours"
    r"|.*\bsnapshot\b.*|.*\bpage: .+|.*[\w.-]+/[\w.-]+ #\d+.*|.*\bmhart/.+"
)

HANDED_ON = {
    HOLE: {
        # The text of another refusal, which is read where that is made.
        "data_plane.core.fifo_rules.refusal_of_batch",
        "data_plane.core.message_rules._check_characters_of_attribute",
        "data_plane.protocol.base64_blobs.decode_blob",
        "data_plane.protocol.base64_blobs._decode_long",
        # What the keeper of master keys says.
        "data_plane.stored.data_keys._refused",
    },
    f"{HOLE}.": {
        # What a placement, or the counts of requests, cannot do: both are Tidegate's own.
        "control_plane.operations.cell_administration.ask",
        "control_plane.operations.get_usage.get_usage",
        "control_plane.operations.get_usage.perform",
    },
}
"""What is told as another part of the code has put it."""


def rows() -> list[tuple[str, str]]:
    found = ROW.finditer(TABLE.read_text(encoding="utf-8"))
    return [(row["text"].replace("\\|", "|").replace("\\n", "\n"), row["seen"]) for row in found]


_CBOR = "data_plane.protocol.cbor."


@pytest.fixture(scope="module")
def told() -> dict[str, set[str]]:
    texts = Code(ROOT, ("data_plane", "control_plane")).texts()
    # Kinesis tells nothing of what is no JSON; of CBOR the same is told as of JSON.
    others = {text: {by for by in who if not by.startswith(_CBOR)} for text, who in texts.items()}
    return {text: who for text, who in others.items() if text and who}


def test_every_text_of_the_code_is_in_the_table(told: dict[str, set[str]]) -> None:
    listed = {text for text, _ in rows()}
    assert {text: told[text] for text in told.keys() - listed - HANDED_ON.keys()} == {}


def test_every_text_of_the_table_is_in_the_code(told: dict[str, set[str]]) -> None:
    assert {text for text, _ in rows()} - told.keys() == set()


def test_texts_are_handed_on_where_we_know_it(told: dict[str, set[str]]) -> None:
    assert {text: told[text] for text in HANDED_ON} == HANDED_ON


def test_each_text_is_listed_once_and_in_order_with_its_source() -> None:
    texts = [text for text, _ in rows()]
    assert len(set(texts)) == len(texts) > 200
    assert sorted(texts, key=lambda text: text.strip("'{").lower()) == texts
    assert [seen for _, seen in rows() if SOURCE.fullmatch(seen) is None] == []


def test_what_refuses_is_read_however_it_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "data_plane" / "core"
    folder.mkdir(parents=True)
    (folder / "errors.py").write_text(
        'WRONG = 1\ndef wrong(name):\n    return RefusedError(WRONG, f"No {name}.")\n'
    )
    (folder / "rules.py").write_text(
        "from data_plane.core.errors import WRONG, wrong\n"
        "MAX = 9\n"
        "def one(n):\n    raise wrong('body')\n"
        "def two(n):\n    raise RefusedError(WRONG, f'At most {MAX}, not {n + 1}.')\n"
        "def three(n):\n    says = 'Few.' if n else 'Many.'\n    return WRONG, says\n"
        "def four(n):\n    all = [f'No {x}!' for x in n]\n    return WRONG, ' '.join(all)\n"
        "def five(n):\n    raise wrong(n)\n"
    )
    assert set(Code(tmp_path, ["data_plane"]).texts()) == {
        "No body.",
        "At most 9, not {}.",
        "Few.",
        "Many.",
        "No {}!",
        "No {}.",
    }
