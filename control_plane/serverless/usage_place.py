"""The place of usage records in S3, opened for the function that stores them."""

from collections.abc import Mapping
from typing import Any, Final

from control_plane.serverless.clock import InvocationClock
from control_plane.serverless.settings import PREFIX, FunctionSettings, VariableError
from control_plane.serverless.usage import store
from data_plane.blobs.buckets import connect
from data_plane.blobs.place import BlobsOpenError
from data_plane.blobs.s3 import S3Blobs
from data_plane.runtime.blocking import BlockingDriver
from data_plane.system import sleep

_CONNECTIONS: Final = 1


class UsagePlace:
    """A prefix in a bucket. Raises VariableError where there is no such place to be had."""

    def __init__(self, settings: FunctionSettings, clock: InvocationClock) -> None:
        place = settings.usage_place
        try:
            client = connect(place, connections_max=_CONNECTIONS)
        except BlobsOpenError as error:
            raise VariableError(f"{PREFIX}USAGE", " ".join(str(error).split())) from error
        self._clock = clock
        self._driver = BlockingDriver(clock, sleep, threads_max=_CONNECTIONS)
        self._blobs = S3Blobs(client, place.bucket, place.prefix, clock, self._driver.offload)

    def store(self, event: Mapping[str, Any]) -> dict[str, int]:
        """Store what CloudWatch Logs delivers. Raises as `usage.store` does."""
        self._clock.begin()
        return self._driver.run(store(event, self._blobs))
