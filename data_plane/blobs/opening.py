"""Blob stores at a place: in S3, or in a directory.

These calls block; they are for the start of a process.
"""

from data_plane.blobs.files import FileBlobs
from data_plane.blobs.place import BlobsOpenError, Place, S3Place
from data_plane.ports import Blobs, Clock, Offload


def open_blobs(place: Place, clock: Clock, offload: Offload, *, connections_max: int) -> Blobs:
    """The store at this place; a directory or a bucket that is missing is made.

    Raises BlobsOpenError.
    """
    if isinstance(place, S3Place):
        # A store in a directory starts without AWS's SDK, which is slow to load.
        from data_plane.blobs.buckets import open_in_bucket  # noqa: PLC0415 - as above

        return open_in_bucket(place, clock, offload, connections_max=connections_max)
    try:
        return FileBlobs(place, clock, offload)
    except OSError as error:
        raise BlobsOpenError(f"cannot use {place}: {error.strerror}") from error
