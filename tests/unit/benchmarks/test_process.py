import os
import threading
import time

from tests.benchmarks.process import cpu_s

BURNT_S = 0.05


def burn() -> None:
    until_s = time.thread_time() + BURNT_S
    while time.thread_time() < until_s:
        pass


def test_threads_that_ended_count() -> None:
    before_s = cpu_s(os.getpid())
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
    assert cpu_s(os.getpid()) - before_s >= BURNT_S


def test_no_process_uses_no_time() -> None:
    assert cpu_s(0) == 0
