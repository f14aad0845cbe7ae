"""The loader: a data set, a sampler and a function that makes batches."""

from __future__ import annotations

import copy
import itertools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket_operators import Generator

from ._utils.collate import default_collate, default_convert
from ._utils.iterators import LoaderIterator, SingleIterator, WorkersIterator
from ._utils.worker import Task, WorkerInfo, get_worker_info
from .dataset import Dataset, IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

T_co = TypeVar("T_co", covariant=True)

#: Attributes that determine others.
_FIXED: Final = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})


class _DatasetKind:
    """The kinds of data sets, as ``DataLoader._dataset_kind`` gives them."""

    Map = 0
    Iterable = 1


class DataLoader(Generic[T_co]):
    """An iterable over batches of a data set, loaded by this process, by worker processes or by worker threads.

    Memory of tensors and arrays comes from worker processes without copies. Orders depend on the generator's seed, but
    neither on the number nor on the kind of the workers.

    Args:
        dataset: Samples by index, or an ``IterableDataset``.
        batch_size: Samples in a batch; None gives single samples.
        shuffle: Whether every pass has a new random order.
        sampler: The order of indices, instead of ``shuffle``.
        batch_sampler: Lists of indices, instead of ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: Number of workers; with 0 the calling thread loads.
        collate_fn: A function that makes a batch of a list of samples, by default ``default_collate``; without batches,
            an output of a sample, by default ``default_convert``.
        pin_memory: Whether ``pin_memory`` is called of tensors, and of objects that have it. Copies to devices go
            through pinned memory in any case.
        drop_last: Whether a shorter last batch is dropped.
        timeout: Seconds to wait for a batch of a worker; 0 waits without limit.
        worker_init_fn: Called in each worker with its number before it loads.
        multiprocessing_context: Start method of worker processes: ``"fork"``, ``"spawn"``, ``"forkserver"`` or a
            context of ``multiprocessing``; by default that of ``tensocket.multiprocessing``.
        generator: Source of randomness of the order and of the workers' seeds.
        prefetch_factor: Number of batches that each worker loads in advance; 2 by default.
        persistent_workers: Whether workers live until the loader is deleted, instead of for one pass.
        pin_memory_device: Passed to ``pin_memory``.
        in_order: Whether batches come in the order of indices, instead of as workers finish them.
        worker_method: ``"multiprocessing"``, or ``"thread"`` for worker threads: they start immediately and share the
            data set, and are fast if it waits for files or computes outside of Python. They use the generators of
            ``get_worker_info().rng``, because the global ones belong to the program.

    Raises:
        ArgumentError: Arguments contradict each other or are out of their domain.
        ArgumentTypeError: An argument has a wrong type.
    """

    dataset: Dataset[T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Sampler[Any] | Iterable[Any]
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: WorkersIterator | None = None
    _initialized: bool = False
    #: The length that ``len`` reported for an iterable data set; iteration warns if there are more batches.
    _reported_length: int | None = None

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_method: str = "multiprocessing",
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_method)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.worker_method = worker_method
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        self._dataset_kind = _DatasetKind.Iterable if isinstance(dataset, IterableDataset) else _DatasetKind.Map
        if self._dataset_kind:
            _exclusive("an IterableDataset", shuffle=shuffle or None, sampler=sampler, batch_sampler=batch_sampler)
        if sampler is not None:
            _exclusive("a sampler", shuffle=shuffle or None)
        if batch_sampler is not None:
            _exclusive("a batch_sampler", batch_size=None if batch_size == 1 else batch_size, shuffle=shuffle or None,
                       sampler=sampler, drop_last=drop_last or None)
            batch_size = None
        elif batch_size is None:
            _exclusive("batch_size=None", drop_last=drop_last or None)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = self._make_sampler(shuffle) if sampler is None else sampler
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        default: Callable[[Any], Any] = default_convert if batch_sampler is None else default_collate
        self.collate_fn: Callable[[Any], Any] = default if collate_fn is None else collate_fn
        self._initialized = True

    def _make_sampler(self, shuffle: bool | None) -> Sampler[Any] | Iterable[Any]:
        if self._dataset_kind:
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)  # type: ignore[arg-type]  # checked by len()
        return SequentialSampler(self.dataset)  # type: ignore[arg-type]  # checked by len()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self._initialized:
            raise ArgumentError("DataLoader", f"{name} of a loader",
                                f"{name} attribute should not be set after {type(self).__name__} is initialized",
                                "make another loader")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """Start method of worker processes: a context of ``multiprocessing``, or None for the default."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._multiprocessing_context = None if context is None else _context(context, self.num_workers)

    @property
    def _auto_collation(self) -> bool:
        """Whether samples are requested in lists."""
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Iterable[Any]:
        """The sampler of the indices, or lists of indices, by which samples are requested."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _task(self, base_seed: int) -> Task:
        return Task(self.dataset, bool(self._dataset_kind), self._auto_collation, self.collate_fn, self.drop_last,
                    self.worker_init_fn, base_seed, self.num_workers)

    def _get_iterator(self) -> LoaderIterator:
        return WorkersIterator(self) if self.num_workers else SingleIterator(self)

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers):
            return self._get_iterator()
        # The iterator gets a copy, which has no reference to it: loaders that are deleted stop their workers
        # immediately.
        if self._iterator is not None and self._iterator.is_usable:
            self._iterator.restart(copy.copy(self))
        else:
            self._iterator = WorkersIterator(copy.copy(self))
        return self._iterator

    def __len__(self) -> int:
        if not self._dataset_kind:
            return len(self._index_sampler)  # type: ignore[arg-type]  # needs __len__, as for len() of any generator
        size = len(self.dataset)  # type: ignore[arg-type]  # an iterable data set may have a length
        self._reported_length = size
        if self.batch_size is None:
            return size
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_iterator"}

    def check_worker_number_rationality(self) -> None:
        """Warn if the number of workers exceeds the number of cores that this process may use."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self.num_workers > cores:
            warnings.warn(f"This DataLoader will create {self.num_workers} workers in total. The suggested maximum "
                          f"here is {cores}, the number of cores that this process may use; more may be slower.",
                          UserWarning, stacklevel=2)


#: Names by which programs check the kind of a pass.
_BaseDataLoaderIter = LoaderIterator
_SingleProcessDataLoaderIter = SingleIterator
_MultiProcessingDataLoaderIter = WorkersIterator


class _InfiniteConstantSampler(Sampler[None]):
    """The sampler of streams: only the number of its indices matters."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def _exclusive(given: str, **others: Any) -> None:
    for name, value in others.items():
        if value is not None:
            raise ArgumentError("DataLoader", f"{name}={value!r} with {given}",
                                f"{given} is mutually exclusive with {name}", f"leave {name} out")


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool,
                   worker_method: str) -> None:
    if num_workers < 0:
        raise ArgumentError("DataLoader", f"num_workers={num_workers}", "num_workers option should be non-negative",
                            "pass 0 to load in the calling thread")
    if timeout < 0:
        raise ArgumentError("DataLoader", f"timeout={timeout}", "timeout option should be non-negative",
                            "pass 0 to wait without limit")
    if prefetch_factor is not None and (num_workers == 0 or prefetch_factor < 1):
        raise ArgumentError("DataLoader", f"prefetch_factor={prefetch_factor} with num_workers={num_workers}",
                            "prefetch_factor is a positive number for workers", "leave it out, or pass num_workers")
    if persistent_workers and num_workers == 0:
        raise ArgumentError("DataLoader", "persistent_workers=True with num_workers=0",
                            "persistent_workers option needs num_workers > 0", "leave it out, or pass num_workers")
    if worker_method not in ("multiprocessing", "thread"):
        raise ArgumentError("DataLoader", f"worker_method={worker_method!r}",
                            "workers are 'multiprocessing' or 'thread'", "pass one of these")


def _context(context: Any, num_workers: int) -> Any:
    if num_workers == 0:
        raise ArgumentError("DataLoader", f"multiprocessing_context={context!r} with num_workers=0",
                            "multiprocessing_context can only be used with worker processes",
                            "leave it out, or pass num_workers")
    from tensocket import multiprocessing

    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ArgumentError("DataLoader", f"multiprocessing_context={context!r}",
                                f"the valid start methods are {methods} here", "pass one of these")
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise ArgumentTypeError("DataLoader", f"multiprocessing_context={context!r}",
                                "multiprocessing_context is a start method or a context of multiprocessing",
                                "pass for example 'spawn'")
    return context


__all__ = ["DataLoader", "WorkerInfo", "default_collate", "default_convert", "get_worker_info"]
