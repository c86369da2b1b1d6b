"""Names that a deployment has in AWS's DNS, answered by an emulator on this machine.

Signatures cover the host, and a function sees the host that AWS gives it. So clients must use the
names of AWS, without a port, and reach the emulator all the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from urllib3.util import connection

_DEPLOYED: Final = (".execute-api.localhost", ".on.aws")
"""The emulator's ending of what AWS calls <id>.execute-api.<region>.amazonaws.com, and AWS's own of
function URLs."""


@contextmanager
def answered_by(url: str) -> Iterator[None]:
    """Within it, connections of this process to names of a deployment go to the emulator."""
    emulator = urlsplit(url)
    connect = connection.create_connection

    def to_emulator(address: tuple[str, int], *arguments: Any, **options: Any) -> Any:
        if address[0].endswith(_DEPLOYED):
            address = (str(emulator.hostname), int(emulator.port or 80))
        return connect(address, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "create_connection", to_emulator)
        yield
