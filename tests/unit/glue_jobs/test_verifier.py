"""Whatever changes in a tree that has a chain of digests is found."""

import ast
import errno
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glue_jobs import arguments, verifier
from glue_jobs.arguments import JobError
from glue_jobs.digest import Rules, add_digest, main
from glue_jobs.places import FolderPlace, place_of
from glue_jobs.verifier import (
    DIGESTS,
    NOT_READ,
    NOTE,
    Digest,
    Known,
    Listed,
    exit_code,
    findings,
    read_digest,
)

OBJECTS = {
    1: {"bills/2026-11/a.csv": b"account,usd\n1,2.50\n", "bills/empty": b""},
    2: {},
    3: {"audit/r.json": b'{"differences":[]}', "zz/\xc3\xa4.bin".encode().decode(): bytes(9)},
}


class _Memory:
    """A tree in memory."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content

    def names(self) -> list[str]:
        return list(self.content)

    def read(self, name: str) -> bytes:
        return self.content[name]

    def measure(self, name: str) -> tuple[int, str]:
        content = self.content[name]
        return len(content), hashlib.sha256(content).hexdigest()


def _grow(place: FolderPlace, number: int) -> Digest:
    for name, content in OBJECTS[number].items():
        place.put(name, content)
    place.put("writers/w.json", b"%d" % number)
    return add_digest(place, f"2026-11-21T{number:02d}", Rules(("writers/",)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "place"
    for number in OBJECTS:
        _grow(FolderPlace(path), number)
    return path


def _contents(folder: Path) -> dict[str, bytes]:
    tree = verifier.Folder(folder)
    return {name: tree.read(name) for name in tree.names()}


def _found(content: dict[str, bytes], head: str = "", *, is_open: bool = False) -> list[str]:
    return list(findings(_Memory(content), Known(head=head, is_open=is_open)))


def test_an_untouched_tree_has_no_findings(folder: Path) -> None:
    content = _contents(folder)
    assert len([name for name in content if name.startswith(DIGESTS)]) == 3
    assert not _found(content)
    for name in content:
        if name.startswith(DIGESTS):
            assert read_digest(content[name]).to_bytes() == content[name]


def test_every_flipped_bit_is_found(folder: Path) -> None:
    content = _contents(folder)
    flips = 0
    for name, original in content.items():
        if name.startswith("writers/"):
            continue
        for position in range(len(original)):
            for bit in range(8):
                changed = bytearray(original)
                changed[position] ^= 1 << bit
                found = _found({**content, name: bytes(changed)})
                assert any(name in line for line in found), (name, position, bit)
                flips += 1
    assert flips > 8 * 500


def test_every_byte_cut_off_or_added_is_found(folder: Path) -> None:
    content = _contents(folder)
    for name, original in content.items():
        if not name.startswith("writers/"):
            assert _found({**content, name: original + b"\0"}), name
            for length in range(len(original)):
                assert _found({**content, name: original[:length]}), (name, length)


def test_every_missing_renamed_and_added_object_is_found(folder: Path) -> None:
    content = _contents(folder)
    for name in content:
        if name.startswith("writers/"):
            continue
        less = {other: its for other, its in content.items() if other != name}
        is_last = name == max(each for each in content if each.startswith(DIGESTS))
        found = _found(less)
        # The newest digest gone: what it alone names has no digest.
        assert found if not is_last else any("no digest names it" in line for line in found)
        assert _found({**less, f"{name}x": content[name]}), name
    for added in ("new", "bills/2026-11/b.csv", ".hidden", "digests/note", "writers2/x"):
        assert any(added in line for line in _found({**content, added: b""})), added


def test_objects_that_change_places_are_found(folder: Path) -> None:
    content = _contents(folder)
    names = [name for name in content if not name.startswith("writers/")]
    for one in names:
        for other in names:
            if content[one] != content[other]:
                assert _found({**content, one: content[other], other: content[one]}), (one, other)


def _rewritten(content: dict[str, bytes], dropped: str) -> dict[str, bytes]:
    """What a forger leaves who removes an object and makes all digests anew."""
    forged = {name: its for name, its in content.items() if not name.startswith(DIGESTS)}
    del forged[dropped]
    previous = verifier.NO_DIGEST
    for name in sorted(each for each in content if each.startswith(DIGESTS)):
        old = read_digest(content[name])
        kept = tuple(each for each in old.objects if each.name != dropped)
        digest = Digest(old.number, previous, old.hour, old.apart, kept)
        forged[digest.name] = digest.to_bytes()
        previous = digest.hash
    return forged


def test_a_chain_that_was_made_anew_or_cut_short_is_found_by_any_head(folder: Path) -> None:
    content = _contents(folder)
    digests = sorted(name for name in content if name.startswith(DIGESTS))
    forged = _rewritten(content, "bills/2026-11/a.csv")
    assert not _found(forged)
    for name in digests:
        head = read_digest(content[name]).hash
        assert not _found(content, head)
        assert any("rolled back" in line for line in _found(forged, head))
    rolled_back = {
        name: its
        for name, its in content.items()
        if name != digests[-1] and not name.startswith(("audit/", "zz/"))
    }
    assert not _found(rolled_back)
    assert _found(rolled_back, read_digest(content[digests[-1]]).hash)


def test_a_digest_that_lies_about_its_place_is_found(folder: Path) -> None:
    content = _contents(folder)
    last = max(name for name in content if name.startswith(DIGESTS))
    old = read_digest(content[last])
    others = {name: its for name, its in content.items() if name != last}
    a, b = old.objects

    def found(digest: Digest) -> str:
        return " ".join(_found({**others, digest.name: digest.to_bytes()}))

    listed = read_digest(content[min(name for name in content if DIGESTS in name)]).objects[0]
    assert "its hour is before" in found(
        Digest(3, old.previous, "2026-11-20T01", old.apart, (a, b))
    )
    assert "missing: digest 3" in found(Digest(4, old.previous, old.hour, old.apart, (a, b)))
    assert "not in order" in found(Digest(3, old.previous, old.hour, old.apart, (b, a)))
    assert "names it again" in found(Digest(3, old.previous, old.hour, old.apart, (a, listed, b)))
    assert "leaves other objects apart" in found(Digest(3, old.previous, old.hour, ("b",), (a, b)))
    assert "is another one" in found(Digest(3, "0" * 64, old.hour, old.apart, (a, b)))


def test_new_objects_are_allowed_where_the_tree_is_open(folder: Path) -> None:
    content = _contents(folder) | {"audit/later.json": b""}
    assert _found(content)
    assert not _found(content, is_open=True)


def test_a_link_is_no_object(folder: Path) -> None:
    name = "bills/2026-11/a.csv"
    shutil.move(folder / name, folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")
    assert list(findings(verifier.Folder(folder))) == [
        f"missing: {name}",
        f"added: {name}/: no digest names it",
    ]


def test_a_digest_that_is_made_again_is_the_same_one(folder: Path) -> None:
    before = _contents(folder)
    assert add_digest(FolderPlace(folder), "2026-11-21T03").number == 3
    assert _contents(folder) == before


def test_no_digest_is_added_to_a_broken_chain(folder: Path) -> None:
    (folder / "bills/empty").unlink()
    with pytest.raises(JobError, match="is gone: bills/empty"):
        add_digest(FolderPlace(folder), "2026-11-21T04")
    next(folder.glob("digests/00000002-*")).unlink()
    with pytest.raises(JobError, match="not whole: missing: digest 2"):
        add_digest(FolderPlace(folder), "2026-11-21T04")


def test_the_job_tells_its_head(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--place", str(folder), "--hour"]
    assert main([*arguments, "2026-11-21T04"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("digest 4 of 2026-11-21T04: 0 new, head ")
    assert place_of(str(folder)).list(f"{DIGESTS}00000004-{told.split()[-1]}")
    (folder / "bills/empty").unlink()
    assert main([*arguments, "2026-11-21T05"]) == 1


def _run(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Without this project on the path, and -S: without any installed package.
    command = [sys.executable, "-E", "-s", "-S", "-m", "verifier", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=where)  # noqa: S603 - ours


def test_the_verifier_needs_nothing_but_python(folder: Path, tmp_path: Path) -> None:
    source = Path(verifier.__file__).parent
    files = sorted(source.glob("*.py"))
    shutil.copytree(source, tmp_path / "verifier")
    assert {name for file in files for name in _imported(file)} <= sys.stdlib_module_names
    # For signatures alone, and where they are looked at.
    assert sum(file.read_text().count('import_module("cryptography') for file in files) == 1
    passed = _run(tmp_path, str(folder))
    assert (passed.returncode, passed.stdout[:6]) == (0, "head: "), passed.stderr
    (folder / "bills/empty").write_bytes(b"1")
    failed = _run(tmp_path, str(folder))
    assert failed.returncode == 1
    assert failed.stdout.startswith("changed: bills/empty: its size is 1 instead of 0\n")
    assert _run(tmp_path, str(tmp_path / "none")).returncode == 2


class _Unreadable(_Memory):
    """A tree of which some objects cannot be read."""

    def __init__(self, content: dict[str, bytes], *names: str) -> None:
        super().__init__(content)
        self._unreadable = names

    def read(self, name: str) -> bytes:
        if name in self._unreadable:
            raise PermissionError(errno.EACCES, "Permission denied", name)
        return super().read(name)

    def measure(self, name: str) -> tuple[int, str]:
        self.read(name)
        return super().measure(name)


def test_what_cannot_be_read_is_named_and_is_no_finding_by_itself(folder: Path) -> None:
    content = _contents(folder)
    assert exit_code(findings(_Memory(content))) == 0
    name = "bills/2026-11/a.csv"
    found = list(findings(_Unreadable(content, name)))
    assert (found, exit_code(found)) == ([f"{NOT_READ}{name}: Permission denied"], 2)
    middle = sorted(its for its in content if its.startswith(DIGESTS))[1]
    found = list(findings(_Unreadable(content, middle)))
    assert (found[0], exit_code(found)) == (f"{NOT_READ}{middle}: Permission denied", 2)
    assert exit_code(findings(_Unreadable({**content, "bills/empty": b"1"}, name))) == 1
    assert exit_code([f"{NOTE}nothing"]) == 0


def _imported(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]


def test_a_digest_has_one_way_to_be_written() -> None:
    digest = Digest(1, verifier.NO_DIGEST, "2026-11-21T03", (), (Listed("a", 1, "0" * 64),))
    assert read_digest(digest.to_bytes()) == digest
    for content in (
        digest.to_bytes().replace(b",", b", ", 1),
        digest.to_bytes().replace(b'"number":1', b'"number":true'),
        digest.to_bytes().replace(b'"number":1', b'"number":1,"more":2'),
        digest.to_bytes().replace(b"T03", b"T99x"),
        digest.to_bytes().replace(b"T03", b"T29"),
        b"[]",
        b"{",
    ):
        with pytest.raises(ValueError, match=r"."):
            read_digest(content)


def test_glue_is_told_in_a_line_which_argument_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(arguments, "find_spec", lambda _name: object())
    assert main(["--hour", "last"]) == 1
    assert capsys.readouterr().err == "digest: --place: the job needs this argument\n"
