"""Cut a mounted file system off from its disk: `python -m tests.drills.cut FOLDER HOW`, as root."""

import fcntl
import os
import struct
import sys
from pathlib import Path
from typing import Final

_EXT4_IOC_SHUTDOWN: Final = 0x8004587D
"""_IOR('X', 125, __u32) of the kernel's fs/ext4/ext4.h."""

FLAGS: Final = {"everything": 0, "journal": 1, "nothing": 2}
"""What is still written at the moment of the cut: all that is cached, the journal, or nothing."""


def cut(folder: Path, flag: int) -> None:
    """Let nothing reach the disk any more. Raises OSError."""
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(folder_fd, _EXT4_IOC_SHUTDOWN, struct.pack("I", flag))
    finally:
        os.close(folder_fd)


if __name__ == "__main__":
    cut(Path(sys.argv[1]), FLAGS[sys.argv[2]])
