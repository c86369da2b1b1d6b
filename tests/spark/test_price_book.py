"""Price books are checked before anything is billed by them."""

import json
from pathlib import Path
from typing import Any

import pytest

from glue_jobs.accounts import read_accounts
from glue_jobs.arguments import JobError
from glue_jobs.price_book import BOOKS, book_for, read_book

TEXT = (BOOKS / "2026-01.json").read_bytes()


def changed(path: str, value: Any) -> bytes:
    book = json.loads(TEXT)
    *folders, name = path.split("/")
    at = book
    for folder in folders:
        at = at[folder]
    at[name] = value
    return json.dumps(book).encode()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema", "tidegate.prices/2", "its schema is not tidegate.prices/1"),
        ("currency", "EUX", "'EUX' is no code of a currency"),
        ("currency", "KWD", "KWD has more than two places, which is not supported"),
        ("spread", "evenly", "spread is 'evenly', neither in order nor in proportion"),
        ("tax", {"name": "VAT", "rate": 0.19}, "tax: 0.19 is no rate from 0 to 1 in text"),
        ("tax", {"name": "VAT", "rate": "0.12345"}, "tax: 0.12345 has more than 4 places"),
        ("from", "2026", "'2026' is no period"),
        ("free/skus", ["gold"], "no SKU gold"),
        ("charges/fifo", {"*": ["silver"]}, "no SKU silver"),
        ("skus/storage/of", "smell", "storage: usage has no smell"),
        ("skus/storage/unit_size", 1024, "storage: unit_size is no power of ten"),
        ("skus/storage/regions/*", [[1, "0"]], "storage: tiers do not begin at 0"),
        ("skus/storage/regions/*", [[0, 0.1]], "storage: a price is no text"),
        ("skus/storage/regions/*", [[0, "0.00000000001"]], "is no price of at most 10 places"),
        ("skus/storage/regions/*", [[0, "-1"]], "is no price of at most 10 places"),
        ("skus/storage/regions/*", [[0, "cheap"]], "price book b.json"),
        ("free", {}, "no 'skus'"),
    ],
)
def test_a_wrong_book_is_refused_in_one_line(path: str, value: Any, said: str) -> None:
    with pytest.raises(JobError) as error:
        read_book(changed(path, value), "b.json")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_book_of_a_period_is_the_one_that_covers_it(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(changed("to", "2026-06"))
    newer = json.loads(changed("from", "2026-06"))
    (tmp_path / "b.json").write_text(json.dumps({**newer, "id": "newer"}))
    assert book_for("2026-05", str(tmp_path)).id == "sqs-us-east-1-2026-01"
    assert book_for("2026-06", str(tmp_path)).id == "newer"
    with pytest.raises(JobError, match="has none for 2025-12"):
        book_for("2025-12", str(tmp_path))
    (tmp_path / "c.json").write_bytes(TEXT)
    with pytest.raises(JobError, match=r"has .* and .* for 2026-06"):
        book_for("2026-06", str(tmp_path))
    with pytest.raises(JobError, match=r"price book"):
        book_for("2026-06", str(tmp_path / "none.json"))


def test_what_a_book_has_no_price_for_stops_the_bill() -> None:
    book = read_book(changed("skus/storage/regions", {"eu-west-1": [[0, "0"]]}), "b.json")
    with pytest.raises(JobError, match="no price of storage in region 'us-east-1'"):
        book.tiers("storage", "us-east-1")
    book = read_book(changed("charges/standard", {"SendMessage": []}), "b.json")
    with pytest.raises(JobError, match="no price for ReceiveMessage on standard queues"):
        book.skus_of("standard", "ReceiveMessage")


def test_accounts_are_known_by_their_file() -> None:
    text = b'{"schema":"tidegate.accounts/1","accounts":{"111122223333":{"name":"Orders"}}}'
    accounts = read_accounts(text, "a.json")
    accounts.check(["111122223333"])
    with pytest.raises(JobError, match=r"account 222233334444 and 1 more: there is usage"):
        accounts.check(["333344445555", "222233334444", "111122223333"])
    accounts.check(["000000000000"])  # The operator's own.
    accounts.with_names({"222233334444": "Post", "111122223333": "?"}).check(["222233334444"])
    assert accounts.with_names({"111122223333": "?"}).names["111122223333"] == "Orders"
    named = text.replace(b'"accounts":', b'"operator":"999999999999","accounts":')
    read_accounts(named, "a.json").check(["999999999999"])
    for wrong in (b"{}", b"x", text.replace(b"111122223333", b"1"), text.replace(b"/1", b"/2")):
        with pytest.raises(JobError, match=r"accounts a\.json: "):
            read_accounts(wrong, "a.json")
