"""DynamoDB as moto's server plays it, in the process of the tests."""

from itertools import count
from typing import Any, Final

import boto3
from moto.server import ThreadedMotoServer

from tests.ports import free_port

_NUMBERS: Final = count()


class Engine:
    """Serves on one port. What is stored outlives it, so each has a name for a table of its own.

    Which region a request is for its signature says; all engines of a process have all regions.
    """

    def __init__(self, region: str = "us-east-1") -> None:
        self.region = region
        self.table = f"messages-{next(_NUMBERS)}"
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", self._port, verbose=False)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def client(self, service: Any = "dynamodb") -> Any:
        """Of a service that this engine plays, in its region."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id="any",
            aws_secret_access_key="any",
        )
