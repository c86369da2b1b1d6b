"""Where the command `tidegate` begins: to load the others takes a moment, which may be ended."""

import sys
from typing import Final

INTERRUPTED: Final = 130
"""What shells say of a command that Ctrl-C has ended."""


def main() -> None:
    """Run the command line of this process."""
    try:
        from control_plane.cli.main import main as run  # noqa: PLC0415 - it may be interrupted
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()
