"""Numbers agree with their nouns."""

from glue_jobs.plural import counted, ranged, verb


def test_a_count_agrees_with_its_noun_and_its_verb() -> None:
    assert [counted(n, "file") for n in (0, 1, 2, 1234)] == [
        *("0 files", "1 file", "2 files", "1,234 files")
    ]
    assert counted(2, "sandbox", "sandboxes") == "2 sandboxes"
    assert [verb(n) for n in (0, 1, 2)] == ["are", "is", "are"]
    assert [ranged(1, n, "record") for n in (1, 2)] == ["record 1", "records 1 to 2"]
