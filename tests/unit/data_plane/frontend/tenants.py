"""Two tenants of one front end in virtual time: their calls, their quotas, the answers."""

import json
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from data_plane.core.queue import Queue
from data_plane.core.quotas import UNLIMITED, Quotas
from data_plane.frontend.front_end import FrontEnd
from data_plane.frontend.settings import FrontEndSettings
from data_plane.frontend.storing import StorageUse
from data_plane.operations.catalog import message_operations
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.sqs import sqs
from tests.unit.data_plane.wire import ORDERS, FakeBag, json_request, query_request, run

NOISY = "111111111111"
QUIET = "222222222222"
START_US = 1_700_000_000_000_000


@dataclass
class Tenants:
    """A front end whose clock is set by hand; queues of every name exist in every account."""

    quotas: dict[str, Quotas]
    settings: FrontEndSettings = field(default_factory=FrontEndSettings)
    bag: FakeBag = field(default_factory=FakeBag)
    at_us: int = START_US
    stored: StorageUse | None = None

    def __post_init__(self) -> None:
        self.front_end = FrontEnd(
            (sqs(message_operations(self.bag)),),
            self,
            self,
            self,
            self.settings,
            lambda _served: None,
            quotas=self,
            stored=self.stored,
        )

    def now_us(self) -> int:
        return self.at_us

    def random_bytes(self, count: int) -> bytes:
        return b"\xff" * count

    async def find(self, account: str, region: str, name: str) -> Queue | None:
        uid = f"{account}{len(name):04}"
        return replace(ORDERS, account=account, region=region, name="orders", uid=uid)

    async def find_quotas(self, account: str) -> Quotas:
        return self.quotas.get(account, UNLIMITED)

    def begin(self, account: str, action: str, **params: Any) -> Coroutine[Any, Any, HttpResponse]:
        """A call that the test carries on itself."""
        params = {"QueueUrl": "orders", **params}
        return self.front_end.answer(json_request(action, params, _credentials(account)))

    def call(self, account: str, action: str, **params: Any) -> HttpResponse:
        return run(self.begin(account, action, **params))

    def send(self, account: str, body: str = "m", queue: str = "orders") -> HttpResponse:
        return self.call(account, "SendMessage", MessageBody=body, QueueUrl=queue)

    def query(self, account: str, **params: Any) -> HttpResponse:
        request = query_request(params)
        headers = {**request.headers, **_credentials(account)}
        return run(self.front_end.answer(HttpRequest("POST", "/", "", headers, request.body)))

    def outcomes(self, account: str, action: str, tries: int, **params: Any) -> Counter[str]:
        """How so many calls at this moment end: "" or the code of an error."""
        return Counter(code(self.call(account, action, **params)) for _ in range(tries))


def _credentials(account: str) -> dict[str, str]:
    scope = f"{account}/20260101/eu-west-1/sqs/aws4_request"
    return {"authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host"}


def code(response: HttpResponse) -> str:
    if response.status == 200:
        return ""
    return str(json.loads(response.body)["__type"]).rpartition("#")[2]
