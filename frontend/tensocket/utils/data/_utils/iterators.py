"""Iterators: one pass over the batches of a loader, in this process or by workers."""

from __future__ import annotations

import itertools
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any

from tensocket.errors import DatasetError, WorkerError
from tensocket_operators import randint

from .pin_memory import pin_memory
from .worker import Failure, StreamEnd, Task

if TYPE_CHECKING:
    from ..dataloader import DataLoader
    from .processes import ProcessPool
    from .threads import ThreadPool

#: Seconds between two attempts to send a request to a worker that is not listening.
_RETRY = 0.01


class LoaderIterator:
    """The base class of all passes.

    Args:
        loader: The loader.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._pin = loader.pin_memory
        self._begin()

    def _begin(self) -> None:
        """Begin a new pass. It always draws the base seed, so that orders do not depend on the number of workers."""
        self._base_seed = int(randint(0, 2**62, (), generator=self._loader.generator).item())
        self._indices = iter(self._loader._index_sampler)
        self._yielded = 0

    def __iter__(self) -> LoaderIterator:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)  # type: ignore[arg-type]  # needs __len__, as documented

    def __next__(self) -> Any:
        data = self._next_data()
        if self._pin:
            data = pin_memory(data, self._loader.pin_memory_device or None)
        self._yielded += 1
        expected = self._loader._reported_length
        if expected is not None and self._yielded > expected:
            self._warn_of_length(expected)
        return data

    def _next_data(self) -> Any:
        raise NotImplementedError

    def _warn_of_length(self, expected: int) -> None:
        text = (f"Length of IterableDataset {self._loader.dataset} was reported to be {expected} (when accessing "
                f"len(dataloader)), but {self._yielded} samples have been fetched. ")
        if self._loader.num_workers:
            text += ("With several workers, each one gives all samples of its copy of the data set: divide them by "
                     "get_worker_info() in the data set, or in a worker_init_fn.")
        warnings.warn(text, UserWarning, stacklevel=3)


class SingleIterator(LoaderIterator):
    """An iterator that loads in the calling thread."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        if loader.timeout:
            raise DatasetError("DataLoader", f"timeout={loader.timeout} with num_workers=0",
                               "a timeout is for workers", "leave timeout out, or pass num_workers")
        self._fetcher = loader._task(self._base_seed).fetcher()

    def _next_data(self) -> Any:
        return self._fetcher.fetch(next(self._indices))


class WorkersIterator(LoaderIterator):
    """An iterator that requests batches from workers, some in advance.

    Requests go to the workers in turn. Every request has one answer, so the number of answers ends a pass.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._pool = _pool(loader, loader._task(self._base_seed))
        self._finalizer = weakref.finalize(self, self._pool.close)
        self._pass = -1
        self._prime()

    def restart(self, loader: DataLoader[Any]) -> None:
        """Begin a new pass with the same workers; answers to older requests are ignored when they arrive."""
        self._loader = loader
        self._begin()
        self._prime()

    @property
    def is_usable(self) -> bool:
        """Whether the workers can do another pass: not after an error, nor in a forked child."""
        return self._finalizer.alive and self._pool.is_own

    def close(self) -> None:
        """Stop the workers."""
        self._finalizer()

    #: PyTorch's name, which libraries call.
    _shutdown_workers = close

    def _prime(self) -> None:
        workers = self._loader.num_workers
        self._pass += 1
        self._asked = self._given = 0
        self._answers: dict[int, Any] = {}
        self._asked_of = [0] * workers
        self._ended = [False] * workers
        self._turns = itertools.cycle(range(workers))
        self._ahead = self._loader.prefetch_factor or 1
        for _ in range(self._ahead * workers):
            self._ask()

    def _ask(self) -> None:
        """Send the worker whose turn it is a request for the next batch."""
        worker = self._next_worker()
        if worker is None:
            return
        try:
            index = next(self._indices)
        except StopIteration:
            return
        request = self._pass, self._asked, index
        self._asked += 1
        self._asked_of[worker] += 1
        with _ending(self):
            while not self._pool.is_ready(worker):
                self._note(self._pool.receive(_RETRY))
            self._pool.send(worker, request)

    def _next_worker(self) -> int | None:
        """Return a worker with samples left; skip workers with enough requests unless answers must come in order."""
        for worker in itertools.islice(self._turns, len(self._ended)):
            if not self._ended[worker] and (self._loader.in_order or self._asked_of[worker] < self._ahead):
                return worker
        return None

    def _note(self, received: Any) -> None:
        if received is None:
            return
        worker, (number, position, answer) = received
        if number == self._pass:
            self._asked_of[worker] -= 1
            self._answers[position] = answer
            if isinstance(answer, StreamEnd):
                self._ended[worker] = True

    def _next_data(self) -> Any:
        while self._given < self._asked:
            answer = self._next_answer()
            self._given += 1
            self._ask()
            if isinstance(answer, Failure):
                answer.raise_again()  # the pass can continue after it
            if not isinstance(answer, StreamEnd):
                return answer
        if not self._loader.persistent_workers:
            self.close()
        raise StopIteration

    def _next_answer(self) -> Any:
        limit = self._loader.timeout or None
        until = None if limit is None else time.monotonic() + limit
        while True:
            if not self.is_usable:
                raise WorkerError("DataLoader", "a pass without its workers", "a pass ends with the first worker that "
                                  "is lost, and with an interrupt", "iterate over the loader anew")
            if self._loader.in_order:
                if self._given in self._answers:
                    return self._answers.pop(self._given)
            elif self._answers:
                return self._answers.pop(next(iter(self._answers)))
            with _ending(self):
                received = self._pool.receive(None if until is None else max(0.0, until - time.monotonic()))
                if received is None:
                    self._pool.patience = 0.0
                    raise WorkerError("DataLoader", f"no batch for {limit} seconds",
                                      "DataLoader timed out: workers give a batch within the timeout",
                                      "pass a longer timeout, more workers, or see what the data set waits for")
            self._note(received)


class _ending:
    """A context that stops the workers after an error or interrupt, because a message may have been read partly."""

    def __init__(self, iterator: WorkersIterator) -> None:
        self._iterator = iterator

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is not None:
            self._iterator.close()


def _pool(loader: DataLoader[Any], task: Task) -> ProcessPool | ThreadPool:
    # Imported here, because few programs that import tensocket need processes or threads.
    if loader.worker_method == "thread":
        from .threads import ThreadPool

        return ThreadPool(task)
    from .processes import ProcessPool

    return ProcessPool(task, loader.multiprocessing_context)


