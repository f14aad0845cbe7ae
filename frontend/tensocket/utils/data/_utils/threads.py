"""Worker threads of a loader: no copies and no start-up, for data sets that wait for files or release the GIL."""

from __future__ import annotations

import os
import queue
import threading
import time

from .worker import Answer, Request, Task, WorkerInfo, generators, set_worker_info, work


class ThreadPool:
    """Worker threads.

    Args:
        task: Their task.

    Attributes:
        patience: Seconds that threads have to exit; after that they are abandoned.
    """

    def __init__(self, task: Task) -> None:
        self._owner = os.getpid()
        self.patience = 5.0
        self._answers: queue.SimpleQueue[tuple[int, Answer]] = queue.SimpleQueue()
        self._requests: list[queue.SimpleQueue[Request | None]] = [queue.SimpleQueue() for _ in range(task.workers)]
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=_main, args=(task, worker, self._requests[worker], self._answers,
                                                              self._closed),
                                          name=f"tensocket-data-{worker}", daemon=True)
                         for worker in range(task.workers)]
        for thread in self._threads:
            thread.start()

    @property
    def is_own(self) -> bool:
        """Whether the workers are threads of this process."""
        return self._owner == os.getpid()

    def send(self, worker: int, request: Request | None) -> None:
        """Send a request."""
        self._requests[worker].put(request)

    def is_ready(self, worker: int) -> bool:
        """Whether a request can be sent without waiting for the worker: always True."""
        return True

    def receive(self, seconds: float | None) -> tuple[int, Answer] | None:
        """Return the next answer and the number of its worker, or None after ``seconds``."""
        try:
            return self._answers.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Stop all workers after their current samples."""
        if not self.is_own:
            return  # a forked child does not have the threads
        self._closed.set()
        for requests in self._requests:
            requests.put(None)
        until = time.monotonic() + self.patience
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))


def _main(task: Task, worker: int, requests: queue.SimpleQueue[Request | None],
          answers: queue.SimpleQueue[tuple[int, Answer]], closed: threading.Event) -> None:
    """Run the loop of a worker thread."""
    set_worker_info(WorkerInfo(worker, task.workers, task.base_seed + worker, task.dataset,
                               generators(task.base_seed, worker), "thread"))

    def receive() -> Request | None:
        request = requests.get()
        return None if closed.is_set() else request

    work(task, f"in DataLoader worker thread {worker}", receive, lambda answer: answers.put((worker, answer)))
