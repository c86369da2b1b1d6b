"""The least that a durable send over HTTP can be, from the parts that the real server stands on.

`python -m tests.benchmarks.bare_server PORT FOLDER` parses each request, hashes what a signature is
made of, commits the message to LMDB with all others that wait, and answers as SQS does. Records of
a stream are hashed and sealed besides, as one item a call. It checks, counts and logs nothing, and
nobody can receive what it keeps.
"""

import asyncio
import hashlib
import hmac
import os
import queue
import sys
import threading
import uuid
from pathlib import Path
from typing import Any, Final

import lmdb
import msgspec
import uvloop
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from granian.constants import HTTPModes, Interfaces, TaskImpl
from granian.server.embed import Server

_MAP_BYTES: Final = 1 << 36
_HEADERS: Final = [("content-type", "application/x-amz-json-1.0")]
_PUT_RECORDS: Final = "Kinesis_20131202.PutRecords"
_FIRST_NUMBER: Final = 10**55
_SCOPE: Final = ("20260101", "us-east-1", "sqs", "aws4_request")


class _Send(msgspec.Struct):
    QueueUrl: str
    MessageBody: str


class _Record(msgspec.Struct):
    Data: bytes
    PartitionKey: str


class _Put(msgspec.Struct):
    Records: list[_Record]


class BareServer:
    """Belongs to the event loop that it is made in."""

    def __init__(self, folder: Path) -> None:
        self._store = lmdb.open(str(folder), map_size=_MAP_BYTES, lock=False)
        self._loop = asyncio.get_running_loop()
        self._decode = msgspec.json.Decoder(_Send).decode
        self._decode_put = msgspec.json.Decoder(_Put).decode
        self._cipher = AESGCM(AESGCM.generate_key(256))
        self._encode = msgspec.json.Encoder().encode
        self._stored = 0
        self._committing = False
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._commits: queue.SimpleQueue[tuple[lmdb.Transaction, list[asyncio.Future[None]]]]
        self._commits = queue.SimpleQueue()
        threading.Thread(target=self._commit_all, daemon=True).start()

    async def __rsgi__(self, scope: Any, proto: Any) -> None:
        """Answer one request: a send, whatever it asks for, or PutRecords."""
        body: bytes = await proto()
        _signature(scope.headers.items(), body)
        if scope.headers["x-amz-target"] == _PUT_RECORDS:
            proto.response_bytes(200, _HEADERS, await self._put_records(body))
            return
        sent = self._decode(body)
        text = sent.MessageBody.encode()
        message_id = uuid.uuid4()
        await self._keep(message_id.bytes + text)
        answer = {"MessageId": str(message_id), "MD5OfMessageBody": hashlib.md5(text).hexdigest()}  # noqa: S324 - SQS's digest
        proto.response_bytes(200, _HEADERS, self._encode(answer))

    async def _put_records(self, body: bytes) -> bytes:
        """Seal what is put as one item, and answer with numbers."""
        put = self._decode_put(body)
        for record in put.Records:
            hashlib.md5(record.PartitionKey.encode()).digest()  # noqa: S324 - Kinesis' hash key
        plain = b"".join([record.Data for record in put.Records])
        await self._keep(self._cipher.encrypt(os.urandom(12), plain, None))
        first = self._stored * len(put.Records)
        records = [
            {"ShardId": "shardId-000000000000", "SequenceNumber": f"{_FIRST_NUMBER + first + at}"}
            for at in range(len(put.Records))
        ]
        return self._encode({"FailedRecordCount": 0, "Records": records})

    async def _keep(self, message: bytes) -> None:
        done = self._loop.create_future()
        self._waiting.append((message, done))
        if len(self._waiting) == 1:
            self._loop.call_soon(self._start)
        await done

    def _start(self) -> None:
        if self._committing or not self._waiting:
            return
        self._committing = True
        taken, self._waiting = self._waiting, []
        txn = self._store.begin(write=True)
        for message, _ in taken:
            self._stored += 1
            txn.put(self._stored.to_bytes(8, "big"), message)
        self._commits.put((txn, [done for _, done in taken]))

    def _commit_all(self) -> None:
        while True:
            txn, answered = self._commits.get()
            txn.commit()
            self._loop.call_soon_threadsafe(self._committed, answered)

    def _committed(self, answered: list[asyncio.Future[None]]) -> None:
        self._committing = False
        for done in answered:
            done.set_result(None)
        self._start()


def _signature(headers: list[tuple[str, str]], body: bytes) -> str:
    """What a check of Signature Version 4 computes, of made-up credentials."""
    canonical = "\n".join(f"{name}:{value}" for name, value in sorted(headers))
    request = f"POST\n/\n\n{canonical}\n{hashlib.sha256(body).hexdigest()}"
    key = b"AWS4secret"
    for part in (*_SCOPE, hashlib.sha256(request.encode()).hexdigest()):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


async def _serve(port: int, folder: Path) -> None:
    await Server(
        BareServer(folder),
        port=port,
        interface=Interfaces.RSGI,
        task_impl=TaskImpl.asyncio,
        runtime_threads=1,
        http=HTTPModes.http1,
        websockets=False,
        log_enabled=False,
    ).serve()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), Path(sys.argv[2])))
