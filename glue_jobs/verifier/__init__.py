"""Verifies what a chain of digests binds. A folder of its own: copy it, read it, run it.

    python -m verifier FOLDER [--key FILE]... [--anchor FILE|FOLDER]... [--head HASH] [--open]

run where this folder lies. It needs Python alone; for signatures also the package `cryptography`.
docs/storage.md (*Chains of digests*) has the format. Each object is bound by a digest, each digest
by the next one, the newest by its signature and its anchor: a copy of its head elsewhere.
"""

from .chain import (
    NOT_READ,
    NOTE,
    NOTHING_KNOWN,
    Known,
    Tree,
    chain_of,
    exit_code,
    findings,
    is_finding,
)
from .digests import (
    DIGESTS,
    NO_DIGEST,
    SCHEMA_1,
    Digest,
    Head,
    Listed,
    Version,
    head_of,
    is_hour,
    later,
    read_digest,
    read_head,
)
from .folder import Folder
from .keys import ECDSA_P256, ED25519, PublicKey, key_in

__all__ = [
    "DIGESTS",
    "ECDSA_P256",
    "ED25519",
    "NOTE",
    "NOTHING_KNOWN",
    "NOT_READ",
    "NO_DIGEST",
    "SCHEMA_1",
    "Digest",
    "Folder",
    "Head",
    "Known",
    "Listed",
    "PublicKey",
    "Tree",
    "Version",
    "chain_of",
    "exit_code",
    "findings",
    "head_of",
    "is_finding",
    "is_hour",
    "key_in",
    "later",
    "read_digest",
    "read_head",
]
