"""What calls on FIFO queues cost in requests to cells where nothing disturbs them."""

from collections.abc import Iterator

from data_plane.log import bounds
from tests.simulation.fifo.case import FifoCase
from tests.simulation.history import Attempt
from tests.simulation.oracle import Violation

PARTITIONS = 8
"""Of a queue with high throughput."""


def budgets_are_kept(case: FifoCase) -> Iterator[Violation]:
    """A send writes a slot for each partition, a delete or receive each block that it touches.

    A send reads nothing where the end of the log was seen within TAIL_AGE_US_MAX.
    """
    if not case.plan.sequential:
        return
    partitions = {
        queue.name: PARTITIONS if queue.high_throughput else 1 for queue in case.fifo.queues
    }
    sent_us: dict[str, int] = {}
    for attempt in case.history.attempts:
        if attempt.number > 1 or not attempt.ok or attempt.call.queue not in partitions:
            continue
        name = attempt.call.queue
        is_send = attempt.call.operation.startswith("Send")
        # A front end asks how old that is before it answers: by the cell's time, as it knows it.
        looked_us = (attempt.answered_us or 0) + 2 * case.estimate_error_us
        is_warm = (
            looked_us - sent_us.get(name, 0) < bounds.TAIL_AGE_US_MAX and partitions[name] == 1
        )
        allowed = _allowed(case, attempt, partitions[name], is_warm=is_warm)
        spent = attempt.spent
        writes = spent["append"] + spent["put"] + spent["update"] + spent["delete"]
        reads = spent["get"] + spent["get_many"] + spent["query"]
        # What was answered as a duplicate, from memory, has not seen the end of the log.
        if is_send and writes + reads:
            sent_us[name] = attempt.invoked_us
        if allowed is None:
            continue
        if writes > allowed[0] or reads > allowed[1]:
            yield Violation(
                "budgets are kept",
                f"{attempt.call.operation} #{attempt.call.number} spent {dict(spent)}",
                [f"#{attempt.call.number}."],
            )


def _allowed(
    case: FifoCase, attempt: Attempt, partitions: int, *, is_warm: bool
) -> tuple[int, int] | None:
    """Writes and reads; None where nothing is promised."""
    params = attempt.call.params
    entries = params.get("Entries", [params])
    match attempt.call.operation:
        case "SendMessage" | "SendMessageBatch" if is_warm:
            return 1, 0
        case "SendMessage" | "SendMessageBatch":
            touched = min(partitions, len(entries))
            return 3 * touched, 6 * touched
        case "DeleteMessage" | "DeleteMessageBatch" | "ChangeMessageVisibility":
            blocks = _blocks(case, [entry["ReceiptHandle"] for entry in entries])
            return blocks, blocks
        case "ReceiveMessage":
            handles = [message["ReceiptHandle"] for message in attempt.output.get("Messages", ())]
            # What the attempt took is stored, and the low-water marks follow now and then.
            is_remembered = bool(handles) and "ReceiveRequestAttemptId" in params
            waited = 1 + params.get("WaitTimeSeconds", 0)
            writes = _blocks(case, handles) + is_remembered + partitions
            return writes, (waited + 2) * partitions * 4
        case _:
            return None


def _blocks(case: FifoCase, handles: list[str]) -> int:
    places = [case.place_of(handle)[0] for handle in handles]
    return len({(place.log, place.block) for place in places})
