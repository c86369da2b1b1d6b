"""What a look at a chain of digests excludes: twelve attacks, each by its name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from glue_jobs.verifier import Digest, Head, Known, PublicKey, read_head

CONTENT: Final = (
    "object-changed",
    "object-removed",
    "object-added",
    "usage-or-mark-changed",
    "digest-changed",
    "digests-swapped",
)
"""Each by itself a chain tells; only its signature tells them if all digests were made anew."""

FORGERY: Final = (
    "digests-made-anew",
    "made-anew-with-more-apart",
    "newest-replaced",
    "signed-with-another-key",
)
"""What the public key tells."""

LOSS: Final = ("newest-cut-off", "older-head-replayed")
"""What was signed once is still signed: an anchor, or a head that was kept, tells."""

_NO_ANCHOR: Final = "no anchor was given that has the newest digest"
ATTACKS: Final = (*CONTENT, *FORGERY, *LOSS)


@dataclass(frozen=True, slots=True)
class Look:
    """What was verified.

    It is `bound` where the newest digest is known by a head that was kept elsewhere, and
    `anchored` where an anchor, which has all heads, has it as the newest. `unsigned` says why
    signatures say nothing ("": they were verified).
    """

    hour: str
    unsigned: str
    is_bound: bool
    is_anchored: bool
    is_open: bool


def look_of(chain: Sequence[Digest], known: Known) -> Look:
    """How a chain was looked at that has a digest at least."""
    newest = chain[-1]
    unsigned = "" if known.keys else "no public key was given"
    heads = [*_heads(known.anchored or (), newest.chain, known.keys)]
    return Look(
        hour=newest.hour,
        unsigned=unsigned if newest.key else "the newest digest is unsigned",
        is_bound=newest.hash in (known.head, *(its.hash for its in heads)),
        is_anchored=bool(heads) and max(heads, key=lambda its: its.number).hash == newest.hash,
        is_open=known.is_open,
    )


def _heads(lines: Sequence[bytes], chain: str, keys: Sequence[PublicKey]) -> Iterator[Head]:
    for line in lines:
        try:
            head = read_head(line)
        except ValueError:
            continue
        if head.chain == chain and (not keys or any(key.verify(head) for key in keys)):
            yield head


def excluded(look: Look) -> dict[str, str]:
    """Why each attack is not excluded, "" where it is; if the look had no findings."""
    forged = "" if look.is_bound else look.unsigned
    found = dict.fromkeys(CONTENT, f"{forged}: all may have been made anew" if forged else "")
    found |= dict.fromkeys(FORGERY, forged)
    found |= dict.fromkeys(LOSS, "" if look.is_anchored else _NO_ANCHOR)
    if look.is_open:
        for name in ("object-added", "usage-or-mark-changed"):
            open_to = f"--open: nothing binds yet what is newer than the digest of {look.hour}"
            found[name] = found[name] or open_to
    return found


def told(look: Look) -> Iterator[str]:
    """A line of the attacks that are excluded, and one for each that is not."""
    found = excluded(look)
    names = [name for name in ATTACKS if not found[name]]
    yield f"excluded ({len(names)} of {len(ATTACKS)}): {', '.join(names) or 'none'}"
    for name in ATTACKS:
        if found[name]:
            yield f"not excluded: {name}: {found[name]}"
