"""Twelve attacks on what is chained: each is found, or told not to be excluded."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from glue_jobs import verifier
from glue_jobs.anchors import FileAnchor
from glue_jobs.arguments import JobError
from glue_jobs.attacks import ATTACKS, CONTENT, LOSS, look_of, told
from glue_jobs.digest import Rules, add_digest
from glue_jobs.places import FolderPlace
from glue_jobs.signing import FileSigner, Signer, create_key
from glue_jobs.verifier import (
    DIGESTS,
    NO_DIGEST,
    NOTE,
    SCHEMA_1,
    Digest,
    Folder,
    Known,
    PublicKey,
    Version,
    chain_of,
    findings,
    head_of,
    is_finding,
    read_digest,
)
from glue_jobs.verifier.__main__ import main

INVOICE = "bills/invoices/a.csv"
RECORD = "usage/records/date=2026-11-21/hour=00/a.parquet"
OPEN_MARK = "usage/writers/b.json"
CLOSED_MARK = "usage/writers/a.json"
PRESENT = "2026-11-21T06"
RULES = Rules(("bills/_drafts/",), ("usage/writers/",), (("usage/", 9),), every_hours=1)


@dataclass(frozen=True)
class Chain:
    """A folder with a chain of four digests, who signs it, and what is kept elsewhere."""

    folder: Path
    signer: Signer
    anchor: FileAnchor
    earlier: Path
    """A copy of the folder as it was when it had three digests."""

    def known(self, *, key: bool = True, anchor: bool = True, is_open: bool = False) -> Known:
        keys = [PublicKey(self.signer.public_pem())] if key else []
        lines = self.anchor.lines() if anchor else None
        return Known(keys, lines, "", PRESENT, is_open)

    def found(self, **how: bool) -> list[str]:
        return list(filter(is_finding, findings(Folder(self.folder), self.known(**how))))

    def digests(self) -> list[Path]:
        return sorted((self.folder / DIGESTS).iterdir())

    def add(self, hour: int, signer: Signer | None = None) -> Digest:
        return add_digest(
            FolderPlace(self.folder),
            f"2026-11-21T{hour:02d}",
            RULES,
            chain="bills of a test",
            signer=signer or self.signer,
            anchors=[self.anchor],
        )


def _mark(*, closed: bool, records: int) -> bytes:
    return json.dumps({"kind": "server", "closed": closed, "records": records}).encode()


def _signer(path: Path) -> Signer:
    create_key(path)
    return FileSigner(path)


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    place = FolderPlace(tmp_path / "place")
    signer, anchor = _signer(tmp_path / "key"), FileAnchor(tmp_path / "heads")
    its = Chain(tmp_path / "place", signer, anchor, tmp_path / "earlier")
    place.put(INVOICE, b"account,usd\n1,2.50\n")
    place.put(RECORD, b"PAR1")
    place.put(OPEN_MARK, _mark(closed=False, records=1))
    its.add(1)
    place.put(CLOSED_MARK, _mark(closed=True, records=7))
    place.put("bills/_drafts/x", b"")
    its.add(2)
    place.put(OPEN_MARK, _mark(closed=False, records=2))
    its.add(3)
    shutil.copytree(its.folder, its.earlier)
    place.put("bills/invoices/b.csv", b"account,usd\n2,0.10\n")
    its.add(4)
    return its


def _made_anew(
    chain: Chain, signer: Signer | None, change: Callable[[Digest], Digest] = lambda its: its
) -> None:
    """Make all digests anew, as whoever may write the bucket can."""
    previous = NO_DIGEST
    for path in chain.digests():
        digest = change(replace(read_digest(path.read_bytes()), previous=previous, head=None))
        digest = replace(digest, key=signer.key if signer else "")
        if signer is not None:
            digest = replace(digest, head=signer.sign(head_of(digest)))
        previous = digest.hash
        path.unlink()
        (chain.folder / digest.name).write_bytes(digest.to_bytes())


def _without(name: str) -> Callable[[Digest], Digest]:
    return lambda its: replace(
        its, objects=tuple(each for each in its.objects if each.name != name)
    )


def _object_changed(chain: Chain) -> None:
    path = chain.folder / INVOICE
    path.write_bytes(path.read_bytes().replace(b"2.50", b"0.50"))


def _object_removed(chain: Chain) -> None:
    (chain.folder / INVOICE).unlink()


def _object_added(chain: Chain) -> None:
    (chain.folder / "bills/invoices/c.csv").write_bytes(b"account,usd\n3,9.99\n")


def _usage_changed(chain: Chain) -> None:
    (chain.folder / CLOSED_MARK).write_bytes(_mark(closed=True, records=6))


def _digest_changed(chain: Chain) -> None:
    path = chain.digests()[1]
    path.write_bytes(path.read_bytes().replace(b"T02", b"T01"))


def _digests_swapped(chain: Chain) -> None:
    one, other = chain.digests()[1:3]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def _digests_made_anew(chain: Chain) -> None:
    (chain.folder / INVOICE).unlink()
    _made_anew(chain, None, _without(INVOICE))


def _more_apart(chain: Chain) -> None:
    (chain.folder / INVOICE).write_bytes(b"account,usd\n1,0.50\n")
    _made_anew(chain, None, lambda its: replace(_without(INVOICE)(its), apart=("bills/",)))


def _newest_replaced(chain: Chain) -> None:
    newest = chain.digests()[-1]
    digest = replace(read_digest(newest.read_bytes()), objects=())
    newest.unlink()
    (chain.folder / "bills/invoices/b.csv").unlink()
    (chain.folder / digest.name).write_bytes(digest.content() + newest_head(chain))


def newest_head(chain: Chain) -> bytes:
    """The line of the head of the digest before, which is signed."""
    return chain.digests()[-1].read_bytes().partition(b"\n")[2]


def _newest_cut_off(chain: Chain) -> None:
    chain.digests()[-1].unlink()
    (chain.folder / "bills/invoices/b.csv").unlink()


def _older_head_replayed(chain: Chain) -> None:
    shutil.rmtree(chain.folder)
    shutil.copytree(chain.earlier, chain.folder)


def _signed_with_another_key(chain: Chain) -> None:
    (chain.folder / INVOICE).unlink()
    _made_anew(chain, _signer(chain.folder.parent / "other"), _without(INVOICE))


MADE = {
    "object-changed": (_object_changed, f"changed: {INVOICE}: other bytes than before"),
    "object-removed": (_object_removed, f"missing: {INVOICE}"),
    "object-added": (_object_added, "added: bills/invoices/c.csv: no digest names it"),
    "usage-or-mark-changed": (_usage_changed, f"changed: {CLOSED_MARK}: other bytes than before"),
    "digest-changed": (_digest_changed, "its bytes do not hash to its name"),
    "digests-swapped": (_digests_swapped, "its bytes do not hash to its name"),
    "digests-made-anew": (_digests_made_anew, "unsigned: no digest is signed"),
    "made-anew-with-more-apart": (_more_apart, "unsigned: no digest is signed"),
    "newest-replaced": (_newest_replaced, "its signature is of another digest"),
    "newest-cut-off": (_newest_cut_off, "rolled back: digest 4 of 2026-11-21T04 was "),
    "older-head-replayed": (_older_head_replayed, "rolled back: digest 4 of 2026-11-21T04 was "),
    "signed-with-another-key": (_signed_with_another_key, "it is signed by another key, "),
}


def test_a_whole_chain_has_no_findings_and_excludes_all(chain: Chain) -> None:
    assert chain.found() == []
    assert set(MADE) == set(ATTACKS)
    digests, wrong = chain_of(Folder(chain.folder), Folder(chain.folder).names())
    assert not wrong
    (line,) = told(look_of(digests, chain.known()))
    assert line.startswith("excluded (12 of 12): ")


@pytest.mark.parametrize("attack", ATTACKS)
def test_each_attack_is_found_with_key_and_anchor(chain: Chain, attack: str) -> None:
    make, line = MADE[attack]
    make(chain)
    assert any(line in found for found in chain.found()), chain.found()


@pytest.mark.parametrize("attack", [its for its in ATTACKS if its not in LOSS])
def test_the_public_key_alone_finds_ten(chain: Chain, attack: str) -> None:
    MADE[attack][0](chain)
    assert chain.found(anchor=False)


@pytest.mark.parametrize("key", [True, False])
@pytest.mark.parametrize("anchor", [True, False])
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_said_to_be_excluded_is_found(
    chain: Chain, attack: str, *, key: bool, anchor: bool
) -> None:
    """Also where whoever attacks makes all digests anew behind it."""
    make = MADE[attack][0]
    make(chain)
    if not key and attack in CONTENT:
        _repaired(chain)
    digests, _ = chain_of(Folder(chain.folder), Folder(chain.folder).names())
    found = chain.found(key=key, anchor=anchor)
    lines = list(told(look_of(digests, chain.known(key=key, anchor=anchor))))
    if not found:
        assert any(line.startswith(f"not excluded: {attack}: ") for line in lines), lines
    if key or anchor:
        assert found or (attack in LOSS and not anchor)


def _repaired(chain: Chain) -> None:
    shutil.rmtree(chain.folder / DIGESTS)
    add_digest(FolderPlace(chain.folder), "2026-11-21T04", RULES, chain="bills of a test")


def test_every_flipped_bit_of_a_signed_digest_is_found(chain: Chain) -> None:
    path = chain.digests()[-1]
    original = path.read_bytes()
    for position in range(len(original)):
        changed = bytearray(original)
        changed[position] ^= 1 << position % 8
        path.write_bytes(bytes(changed))
        assert chain.found(anchor=False), position


def test_the_verifier_by_itself_verifies_signatures(chain: Chain, tmp_path: Path) -> None:
    shutil.copytree(Path(verifier.__file__).parent, tmp_path / "verifier")
    (tmp_path / "key.pub").write_bytes(chain.signer.public_pem())
    options = ("--key", str(tmp_path / "key.pub"), "--anchor", chain.anchor.url, "--as-of", PRESENT)
    command = [sys.executable, "-E", "-s", "-m", "verifier", str(chain.folder), *options]

    def ran() -> tuple[int, str]:
        its = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)  # noqa: S603 - ours
        return its.returncode, its.stdout + its.stderr

    code, output = ran()
    assert (code, output.split()[0]) == (0, "head:")
    _signed_with_another_key(chain)
    code, output = ran()
    assert (code, "it is signed by another key" in output) == (1, True)
    (tmp_path / "key.pub").write_bytes(b"?")
    assert ran()[0] == 2


def test_the_clock_tells_that_digests_are_late(chain: Chain) -> None:
    known = replace(chain.known(anchor=False), present="2026-11-21T08")
    (line,) = filter(is_finding, findings(Folder(chain.folder), known))
    assert line.startswith("late: the newest digest is of 2026-11-21T04")


def test_no_job_goes_on_where_newest_digests_were_cut_off(chain: Chain) -> None:
    _newest_cut_off(chain)
    with pytest.raises(JobError, match="digest 4 of 2026-11-21T04 is gone that "):
        chain.add(5)


def test_no_job_vouches_for_what_another_made(chain: Chain, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="is not by the key that is to sign the next"):
        chain.add(5, _signer(tmp_path / "other"))
    with pytest.raises(JobError, match="digest 4 is signed: a key is to sign the next"):
        add_digest(FolderPlace(chain.folder), "2026-11-21T05")
    _digests_made_anew(chain)
    with pytest.raises(JobError, match="is gone that "):
        chain.add(5)


def test_a_head_that_was_not_anchored_is_so_when_the_job_runs_again(chain: Chain) -> None:
    lines = chain.anchor.lines()
    path = Path(chain.anchor.url)
    path.write_bytes(b"".join(lines[:-1]))
    noted = list(findings(Folder(chain.folder), chain.known()))
    assert noted == [f"{NOTE}not anchored yet: digest 4"]
    digests, _ = chain_of(Folder(chain.folder), Folder(chain.folder).names())
    assert [line for line in told(look_of(digests, chain.known())) if line[:3] == "not"] == [
        f"not excluded: {its}: no anchor was given that has the newest digest" for its in LOSS
    ]
    chain.add(4)
    chain.add(4)
    assert chain.anchor.lines() == lines


def test_what_others_put_into_an_anchor_is_told_and_stops_nobody(chain: Chain) -> None:
    head = chain.anchor.lines()[0]
    path = Path(chain.anchor.url)
    forged = head.replace(b'"number":1', b'"number":9')
    path.write_bytes(path.read_bytes() + forged + b"?\n")
    assert [line.partition(": ")[2] for line in chain.found()] == [
        "its line 5: it is not signed by a key that was given",
        "its line 6: Expecting value: line 1 column 1 (char 0)",
    ]
    assert chain.add(5).number == 5


def test_a_closed_mark_never_changes_and_an_open_one_is_chained_each_time(chain: Chain) -> None:
    digests, _ = chain_of(Folder(chain.folder), Folder(chain.folder).names())
    versions = [[(its.name, its.is_final) for its in each.versions] for each in digests]
    assert versions == [[(OPEN_MARK, False)], [(CLOSED_MARK, True)], [(OPEN_MARK, False)], []]
    (chain.folder / OPEN_MARK).write_bytes(_mark(closed=False, records=3))
    assert chain.found() == [f"changed: {OPEN_MARK}: other bytes than before"]
    assert chain.found(is_open=True) == []
    (chain.folder / CLOSED_MARK).write_bytes(_mark(closed=True, records=3))
    assert chain.found(is_open=True) == [f"changed: {CLOSED_MARK}: other bytes than before"]


def test_a_mark_whose_counts_fell_is_found_though_it_was_chained_since(chain: Chain) -> None:
    (chain.folder / OPEN_MARK).write_bytes(_mark(closed=False, records=1))
    chain.add(5)
    told_of = f"changed: {OPEN_MARK}: a count of it fell before digest 5"
    assert chain.found() == chain.found(is_open=True) == [told_of]
    (chain.folder / OPEN_MARK).write_bytes(_mark(closed=False, records=2))
    chain.add(6)
    known = replace(chain.known(), present="2026-11-21T07")
    assert [*findings(Folder(chain.folder), known)] == [told_of]


def test_heads_that_lie_in_a_folder_are_an_anchor(
    chain: Chain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = tmp_path / "heads of it"
    heads.mkdir()
    for at, line in enumerate(chain.anchor.lines()):
        (heads / f"{at}.json").write_bytes(line)
    arguments = [str(chain.folder), "--as-of", PRESENT, "--anchor", str(heads)]
    assert main(arguments) == 0
    for head in heads.iterdir():
        head.unlink()
    assert main(arguments) == 1
    assert "anchor: it has no head of this chain" in capsys.readouterr().out
    assert main([*arguments, "--key", __file__]) == 2
    assert f"{__file__} is no public key" in capsys.readouterr().err
    assert main([*arguments, "--anchor", str(tmp_path / "none")]) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err
    assert main([*arguments[:2], "yesterday"]) == 2


def test_a_digest_of_an_hour_that_is_not_over_is_named_with_all_that_it_leaves_unbound(
    chain: Chain,
) -> None:
    chain.add(6)
    FolderPlace(chain.folder).put("bills/invoices/c.csv", b"")
    assert chain.found() == chain.found(is_open=True)
    until = "nothing that came since is bound until 2026-11-21T07"
    assert chain.found() == [
        f"early: digest 5 is of 2026-11-21T06, which is not over: {until}",
        "added: bills/invoices/c.csv: no digest names it",
    ]
    over = replace(chain.known(is_open=True), present="2026-11-21T07")
    assert not any(map(is_finding, findings(Folder(chain.folder), over)))


def test_no_digest_is_of_an_hour_that_is_not_over_nor_goes_on_from_one(chain: Chain) -> None:
    place, before = FolderPlace(chain.folder), chain.digests()

    def add(hour: str, over: str) -> Digest:
        return add_digest(place, hour, over=over, signer=chain.signer, anchors=[chain.anchor])

    with pytest.raises(JobError, match="2026-11-21T05 is not over: 2026-11-21T04 is the last"):
        add("2026-11-21T05", "2026-11-21T04")
    with pytest.raises(JobError, match="digest 4 is of 2026-11-21T04, which is not over"):
        add("2026-11-21T03", "2026-11-21T03")
    assert chain.digests() == before
    assert add("2026-11-21T03", "2026-11-21T05").number == 4
    assert add("2026-11-21T05", "2026-11-21T05").number == 5


def test_a_digest_that_changes_a_closed_mark_is_found(chain: Chain) -> None:
    def change(its: Digest) -> Digest:
        its = replace(its, key=chain.signer.key)
        if its.number != 4:
            return its
        return replace(its, versions=(Version(CLOSED_MARK, 1, "0" * 64, is_final=True),))

    _made_anew(chain, chain.signer, change)
    assert f"changed: {CLOSED_MARK}: it was final before digest 4" in chain.found(anchor=False)


def test_what_had_to_be_kept_for_days_may_go_after_them(chain: Chain) -> None:
    (chain.folder / RECORD).unlink()
    assert chain.found() == [f"missing: {RECORD}"]
    with pytest.raises(JobError, match="is gone: usage/records"):
        chain.add(5)
    known = replace(chain.known(), present="2026-11-30T01")
    lines = list(findings(Folder(chain.folder), known))
    assert f"{NOTE}kept for as long as they had to be, and gone: 1" in lines
    assert not any(line.startswith("missing") for line in lines)
    (chain.folder / INVOICE).unlink()
    assert f"missing: {INVOICE}" in findings(Folder(chain.folder), known)


def test_a_chain_of_before_goes_on_signed_and_is_told_as_unsigned(tmp_path: Path) -> None:
    folder, place = tmp_path / "place", FolderPlace(tmp_path / "place")
    place.put("a", b"1")
    old = Digest(1, NO_DIGEST, "2026-11-21T01", ("writers/",), (), schema=SCHEMA_1)
    old = replace(old, objects=add_digest(FolderPlace(folder), "2026-11-21T00").objects)
    shutil.rmtree(folder / DIGESTS)
    place.put(old.name, old.to_bytes())
    assert list(findings(Folder(folder))) == []
    signer = _signer(tmp_path / "key")
    known = Known([PublicKey(signer.public_pem())])
    assert list(findings(Folder(folder), known)) == ["unsigned: no digest is signed"]
    new = add_digest(place, "2026-11-21T02", signer=signer)
    assert (new.number, new.previous, new.apart) == (2, old.hash, ("writers/",))
    told_of = f"{NOTE}unsigned: digest 1; digest 2 vouches for that"
    assert list(findings(Folder(folder), known)) == [told_of]


def test_signed_digests_may_leave_out_more_and_say_so(chain: Chain) -> None:
    more = replace(RULES, apart=("bills/_drafts/", "bills/tmp/"))
    place = FolderPlace(chain.folder)
    place.put("bills/tmp/x", b"")
    given = {"signer": chain.signer, "anchors": [chain.anchor]}
    add_digest(place, "2026-11-21T05", more, **given)  # type: ignore[arg-type]
    told_of = "digest 5 leaves other objects apart than the one before"
    assert list(findings(Folder(chain.folder), chain.known())) == [f"{NOTE}{told_of}"]
    assert chain.found(key=False) == [f"changed: {told_of}"]
