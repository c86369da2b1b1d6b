"""How fast a store is: durable group commits, reads, memory, opening."""

import queue
import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

from tests.benchmarks.stores.candidates import CANDIDATES, Candidate, Row

SMALL_BYTES = 1_000
BIG_BYTES = 20_000
BIG_ITEMS = 10_000
HOLE_BYTES = 3_000
Report = Callable[[str, str], None]


def small_key(number: int) -> bytes:
    return b"B|0123456789abcdef|00|0\0" + number.to_bytes(8, "big") + b"suffix-0001"


def big_key(number: int) -> bytes:
    return b"C" + small_key(number)


def rows_from(first: int, count: int, size_bytes: int) -> list[Row]:
    return [(small_key(first + n), bytes(size_bytes)) for n in range(count)]


def timed(call: Callable[[int], object], rounds: int) -> list[float]:
    """Seconds of each of so many calls."""
    taken_s = []
    for number in range(rounds):
        started_s = perf_counter()
        call(number)
        taken_s.append(perf_counter() - started_s)
    return taken_s


def shown(taken_s: Sequence[float]) -> str:
    p99_s = quantiles(taken_s, n=100)[98]
    rate = len(taken_s) / sum(taken_s)
    return f"{rate:8.0f}/s  p50 {median(taken_s) * 1e6:7.0f} us  p99 {p99_s * 1e6:7.0f} us"


def measure_commits(store: Candidate, commits: int, report: Report) -> None:
    """Group commits of new items, and of changed ones, into a store that is small."""
    written = 0
    for count, size_bytes in ((1, SMALL_BYTES), (8, SMALL_BYTES), (64, SMALL_BYTES), (1, 65_536)):
        first = written

        def put(
            number: int, count: int = count, size: int = size_bytes, first: int = first
        ) -> None:
            store.put(rows_from(first + number * count, count, size))

        report(f"commit of {count} x {size_bytes} B", shown(timed(put, commits)))
        written += count * commits
    numbers = random.Random(1)

    def change(_number: int) -> None:
        keys = [small_key(numbers.randrange(commits)) for _ in range(8)]
        store.change(keys, lambda value: value[8:] + b"changed!")

    report(f"commit of 8 changes of {SMALL_BYTES} B", shown(timed(change, commits)))


def measure_beside_busy_loop(store: Candidate, commits: int, report: Report) -> None:
    """Commits of 30 items while the main thread computes, as an event loop with work does.

    Once the thread does the whole transaction; once the main thread builds it, and the thread
    commits only. The time is what a caller waits, from the first put to the known commit.
    """
    for place in ("thread", "loop"):
        taken_s = _busy_commits(store, commits, built_by_loop=place == "loop")
        report(f"30 x 1000 B, built on the {place}, busy interpreter", shown(taken_s))


def _busy_commits(store: Candidate, commits: int, *, built_by_loop: bool) -> list[float]:
    work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[None] = queue.SimpleQueue()

    def serve() -> None:
        while (commit := work.get()) is not None:
            commit()
            done.put(None)

    thread = threading.Thread(target=serve)
    thread.start()
    taken_s = []
    for number in range(commits):
        rows = rows_from(1 << 40 | number * 30, 30, SMALL_BYTES)
        started_s = perf_counter()
        work.put(store.begin(rows) if built_by_loop else partial(store.put, rows))
        while done.empty():
            sum(range(500))
        done.get()
        taken_s.append(perf_counter() - started_s)
    work.put(None)
    thread.join()
    return taken_s


def measure_holes(store: Candidate, items: int, report: Report) -> None:
    """Commits into a store where much was deleted here and there, and then everything."""
    for first in range(0, items, 200):
        store.put(rows_from(first, 200, HOLE_BYTES))
    kept = [small_key(number) for number in range(0, items, 2)]
    for first in range(1, items, 200):
        store.delete([small_key(number) for number in range(first, first + 200, 2)])
    put = timed(lambda n: store.put(rows_from((1 << 41) + n, 1, 30_000)), 200)
    report(f"commit of 1 x 30000 B into {items // 2} holes", shown(put))
    for first in range(0, len(kept), 100):
        store.delete(kept[first : first + 100])
    put = timed(lambda n: store.put(rows_from((1 << 42) + n, 1, 30_000)), 200)
    report("commit of 1 x 30000 B after deleting all", shown(put))


def load(store: Candidate, items: int) -> None:
    """Fill a store with small items, and with some big ones."""
    for first in range(0, items, 5_000):
        store.put(rows_from(first, 5_000, SMALL_BYTES))
    for first in range(0, BIG_ITEMS, 500):
        store.put([(big_key(first + n), bytes(BIG_BYTES)) for n in range(500)])


def measure_full_store(name: str, directory: Path, items: int, report: Report) -> None:
    """Opening a store of so many items, reading and writing it, and the memory it takes."""
    before_kb = anonymous_kb()
    started_s = perf_counter()
    store = CANDIDATES[name](directory)
    store.get(small_key(0))
    report("open, first read", f"{(perf_counter() - started_s) * 1e3:8.1f} ms")
    numbers = random.Random(2)
    read = timed(lambda _n: store.get(small_key(numbers.randrange(items))), 20_000)
    report("read one of 1000 B", shown(read))
    few = timed(lambda _n: store.read_range(small_key(numbers.randrange(items)), 10), 5_000)
    report("read a range of 10 x 1000 B", shown(few))
    big = timed(lambda _n: store.read_range(big_key(numbers.randrange(BIG_ITEMS - 10)), 10), 2_000)
    report("read a range of 10 x 20000 B", shown(big))
    scattered = timed(
        lambda _n: store.put([(small_key(numbers.randrange(items)), bytes(SMALL_BYTES))] * 8), 500
    )
    report("commit of 8 scattered x 1000 B", shown(scattered))
    report("anonymous memory, grown by", f"{(anonymous_kb() - before_kb) / 1024:8.1f} MiB")
    size_bytes = sum(path.stat().st_size for path in directory.iterdir())
    report("on disk", f"{size_bytes / 1e6:8.0f} MB")
    store.close()


def anonymous_kb() -> int:
    """Memory of this process that no file stands behind."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise LookupError("this system does not report RssAnon")
