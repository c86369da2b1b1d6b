"""What msgspec raises for bytes that are not what they should be."""

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError)
"""Text that is no UTF-8 is none of its own errors."""
