"""The loop of a worker, in a process or a thread: it answers every request for a batch with one message."""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensocket_operators import Generator, manual_seed

from .fetch import MapFetcher, StreamFetcher

#: A request: pass, position in the pass, index. ``None`` ends the worker.
Request = tuple[int, int, Any]
#: An answer: pass, position in the pass, batch or ``Failure`` or ``StreamEnd``.
Answer = tuple[int, int, Any]


@dataclass
class WorkerGenerators:
    """Random generators of one worker thread: all threads share the global ones."""

    random_generator: random.Random
    torch_generator: Generator
    numpy_generator: np.random.Generator


@dataclass
class WorkerInfo:
    """Information about a worker.

    Attributes:
        id: Its number, from 0.
        num_workers: Number of workers.
        seed: Seed of the worker: the loader's base seed plus ``id``.
        dataset: Its copy of the data set; for threads, the data set.
        rng: Generators of a worker thread; None in a process, where the global ones are the worker's own.
        worker_method: ``"multiprocessing"`` or ``"thread"``.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: WorkerGenerators | None = None
    worker_method: str = "multiprocessing"


_CURRENT: Final = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """Return number, count, seed and data set of the calling worker; None outside of workers.

    An iterable data set uses it to give each worker its share, and a ``worker_init_fn`` to configure a worker.
    """
    return getattr(_CURRENT, "info", None)


def set_worker_info(info: WorkerInfo | None) -> None:
    """Make this thread a worker."""
    _CURRENT.info = info


@dataclass
class Task:
    """The task of workers.

    Attributes:
        dataset: The data set.
        stream: Whether it is iterable, without indices.
        batched: Whether requests are lists of indices.
        collate_fn: Function that makes a batch of samples.
        drop_last: Whether a shorter last batch is dropped.
        init: ``worker_init_fn``.
        base_seed: Seed of worker 0.
        workers: Number of workers.
    """

    dataset: Any
    stream: bool
    batched: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    init: Callable[[int], Any] | None
    base_seed: int
    workers: int

    def fetcher(self) -> MapFetcher | StreamFetcher:
        """Return a new pass."""
        made = StreamFetcher if self.stream else MapFetcher
        return made(self.dataset, self.batched, self.collate_fn, self.drop_last)


class StreamEnd:
    """The answer of a worker whose stream has no more samples."""


class Failure:
    """An exception that is sent to the requesting process, with its traceback as text.

    Args:
        error: The exception, which is being handled.
        where: Text that identifies its worker.
    """

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind = type(error)
        self.attributes = dict(error.__dict__)
        lines = "".join(traceback.format_exception(error))
        self.text = f"Caught {self.kind.__name__} {where}.\nOriginal {lines}"

    def without_objects(self) -> Failure:
        """Return the same failure as a RuntimeError, for exceptions that cannot be sent."""
        self.kind, self.attributes = RuntimeError, {}
        return self

    def raise_again(self) -> None:
        """Raise an exception of the same type and attributes, whose text contains the traceback."""
        raise self._exception()

    def _exception(self) -> BaseException:
        if issubclass(self.kind, StopIteration):
            return RuntimeError(self.text)  # a StopIteration would silently end the caller's loop
        text = _Verbatim(self.text) if issubclass(self.kind, KeyError) else self.text
        try:
            # Without __init__, which may require more arguments than a text.
            error = self.kind.__new__(self.kind)
            error.args = (text,)
            error.__dict__.update(self.attributes)
            if self.text not in str(error):
                raise TypeError
        except Exception:  # a class whose texts cannot be replaced
            return RuntimeError(self.text)
        return error


class _Verbatim(str):
    """A text that is its own repr: KeyError shows the repr of its argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def seed_process(base_seed: int, worker: int) -> None:
    """Seed the global generators of a worker process: tensocket's and Python's with base seed + number."""
    seed = base_seed + worker
    random.seed(seed)
    manual_seed(seed)
    np.random.seed(_words(base_seed, worker))


def generators(base_seed: int, worker: int) -> WorkerGenerators:
    """Return generators for a worker thread, seeded like the global ones of a worker process."""
    seed = base_seed + worker
    words = _words(base_seed, worker)
    return WorkerGenerators(random.Random(seed), Generator().manual_seed(seed), np.random.default_rng(words))


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Return a worker's seed for NumPy as a list of words of 32 bits."""
    return [int(word) for word in _words(base_seed, worker_id)]


def _words(base_seed: int, worker: int) -> Any:
    """Return a seed for NumPy, which takes words of 32 bits. Base seeds that differ by one give unrelated seeds."""
    entropy = [worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(entropy).generate_state(4)


def work(task: Task, where: str, receive: Callable[[], Request | None], send: Callable[[Answer], None]) -> None:
    """Answer requests until none is left. The worker's information is set already.

    Args:
        task: The worker's task.
        where: Text that identifies this worker in tracebacks.
        receive: A function that waits for a request.
        send: A function that sends an answer.
    """
    info = get_worker_info()
    fetcher: Any = None
    failed: Failure | None = None
    try:
        if task.init is not None and info is not None:
            task.init(info.id)
    except Exception as error:
        failed = Failure(error, where)
    current = -1
    while (request := receive()) is not None:
        number, position, index = request
        answer: Any = failed
        if failed is None:
            try:
                if number != current:
                    fetcher, current = task.fetcher(), number
                answer = fetcher.fetch(index)
            except Exception as error:
                ended = task.stream and isinstance(error, StopIteration)
                answer = StreamEnd() if ended else Failure(error, where)
        send((number, position, answer))
        # The receiver owns the batch now; its memory can be reused.
        del answer


__all__ = ["WorkerInfo", "get_worker_info"]
