"""FIFO queues through boto3 once more, on a DynamoDB cell."""

import os
from typing import Any

from tests.conformance.fifo_calls import Fifo
from tests.conformance.on_dynamodb import *  # noqa: F403 - its fixtures
from tests.conformance.test_fifo_dead_letters import *  # noqa: F403 - its tests are run here
from tests.conformance.test_fifo_deduplication import (  # noqa: F401 - these are run here
    by_id,
    test_a_batch_of_duplicates_and_others,
    test_a_front_end_that_just_started_knows,
    test_a_purge_forgets,
)
from tests.conformance.test_fifo_order import *  # noqa: F403 - its tests are run here
from tests.conformance.test_fifo_receive_attempts import (  # noqa: F401 - these are run here
    loaded,
    test_a_repetition_begins_the_timeout_anew,
    test_an_attempt_of_another_front_end_is_the_same,
)
from tests.conformance.test_fifo_two_front_ends import *  # noqa: F403 - its tests are run here
from tests.conformance.test_fifo_visibility import *  # noqa: F403 - its tests are run here


def test_a_batch_of_the_greatest_size_goes_through_items_of_400_kb(sqs: Any) -> None:
    fifo = Fifo(sqs)
    # 1 MiB in total, of which zstd takes off less than half.
    bodies = ["a" + os.urandom(52_428).hex()[1:] for _ in range(10)]
    assert len(fifo.send_batch(*({"MessageBody": body} for body in bodies))["Successful"]) == 10
    received = fifo.receive()
    assert [message["Body"] for message in received] == bodies
