"""Bodies that were removed from a bucket with versions, and come back."""

from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from data_plane.blobs.buckets import connect
from data_plane.blobs.place import BlobsOpenError, S3Place

_ATTEMPTS: Final = 5
_DELETED_AT_ONCE: Final = 1000


def bring_back(place: S3Place, since_s: int) -> int:
    """Undo what was removed from this place since then; answers how many bodies.

    The credentials need s3:ListBucketVersions and s3:DeleteObjectVersion: a removal of a bucket
    with versions is a mark on top of them, which goes. Raises BlobsOpenError.
    """
    client: Any = connect(place, connections_max=1, attempts=_ATTEMPTS)
    back = 0
    try:
        pages = client.get_paginator("list_object_versions")
        for page in pages.paginate(Bucket=place.bucket, Prefix=place.prefix):
            marks = [
                {"Key": mark["Key"], "VersionId": mark["VersionId"]}
                for mark in page.get("DeleteMarkers", ())
                if mark["IsLatest"] and mark["LastModified"].timestamp() >= since_s
            ]
            for first in range(0, len(marks), _DELETED_AT_ONCE):
                chosen = marks[first : first + _DELETED_AT_ONCE]
                answer = client.delete_objects(Bucket=place.bucket, Delete={"Objects": chosen})
                if failed := answer.get("Errors"):
                    raise BlobsOpenError(f"{failed[0]['Key']} does not come back: {failed[0]}")
            back += len(marks)
    except (BotoCoreError, ClientError) as error:
        raise BlobsOpenError(f"cannot look for versions in {place}: {error}") from error
    finally:
        client.close()
    return back
