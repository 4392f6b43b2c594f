from __future__ import annotations

import threading

from cudalock.index.workers import Workers


def test_a_burst_of_tasks_is_spread_over_the_threads() -> None:
    """Tasks that all wait for each other only end if each has a thread of its own, an idle one included."""
    workers = Workers(8)
    idle = threading.Event()
    workers.submit(idle.set)  # its thread then waits for more
    assert idle.wait(30)
    together = threading.Barrier(8, timeout=30)
    done = threading.Semaphore(0)

    def task() -> None:
        together.wait()
        done.release()

    for _ in range(8):
        workers.submit(task)
    assert all(done.acquire(timeout=30) for _ in range(8))
    workers.close()


def test_no_more_threads_than_allowed() -> None:
    workers = Workers(2)
    running, most, lock, done = 0, 0, threading.Lock(), threading.Semaphore(0)
    release = threading.Event()

    def task() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        release.wait(30)
        with lock:
            running -= 1
        done.release()

    for _ in range(6):
        workers.submit(task)
    release.set()
    assert all(done.acquire(timeout=30) for _ in range(6))
    assert 1 <= most <= 2
    workers.close()


def test_a_closed_one_takes_nothing() -> None:
    workers = Workers(1)
    workers.close()
    ran = threading.Event()
    workers.submit(ran.set)
    assert not ran.wait(0.05)
