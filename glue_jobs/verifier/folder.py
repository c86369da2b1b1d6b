"""Folders, as the verifier looks at them."""

import hashlib
import os
from pathlib import Path
from typing import NoReturn


class Folder:
    """A folder of this machine. Links and the like are no objects, and are never followed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        """See Tree. Raises OSError where a folder in it cannot be looked into."""
        found = []
        for folder, folders, files in os.walk(self._path, onerror=_fail):
            above = Path(folder)
            found += [above / name for name in (*folders, *files)]
        kinds = ((path, path.is_file() and not path.is_symlink()) for path in found)
        return [
            f"{path.relative_to(self._path).as_posix()}{'' if is_plain else '/'}"
            for path, is_plain in kinds
            if path.is_symlink() or not path.is_dir()
        ]

    def read(self, name: str) -> bytes:
        """See Tree."""
        return (self._path / name).read_bytes()

    def measure(self, name: str) -> tuple[int, str]:
        """See Tree."""
        with (self._path / name).open("rb") as content:
            found = hashlib.file_digest(content, "sha256")
            return content.tell(), found.hexdigest()


def _fail(error: OSError) -> NoReturn:
    raise error
