"""The data plane: what happens to messages."""

from typing import Final

VERSION: Final = "0.1.0"
