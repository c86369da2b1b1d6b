"""What async-kinesis does with a stream, in the environment that has it, as JSON.

python async_kinesis.py ENDPOINT STREAM
"""

import asyncio
import json
import sys
from typing import Any

from kinesis import Consumer, Producer

RECORDS = 50
RUN_S_MAX = 50


async def _round_trip(endpoint: str, stream: str) -> dict[str, Any]:
    where = {"stream_name": stream, "endpoint_url": endpoint, "region_name": "us-east-1"}
    async with Producer(**where, create_stream=True, create_stream_shards=2) as producer:
        for number in range(RECORDS):
            await producer.put({"number": number})
        await producer.flush()
    read: list[int] = []
    async with Consumer(**where, iterator_type="TRIM_HORIZON") as consumer:
        async for record in consumer:
            read.append(record["number"])
            if len(read) == RECORDS:
                break
    return {"read": sorted(read)}


def main(endpoint: str, stream: str) -> None:
    seen = asyncio.run(asyncio.wait_for(_round_trip(endpoint, stream), RUN_S_MAX))
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
