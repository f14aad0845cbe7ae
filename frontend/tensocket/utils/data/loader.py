"""The loader: a data set, a sampler and a function that makes batches."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from tensocket.errors import ArgumentError
from tensocket_core import Generator

from .collate import default_collate, default_convert
from .dataset import Dataset, IterableDataset, TensorDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

T_co = TypeVar("T_co", covariant=True)


class DataLoader(Generic[T_co]):
    """Iterates over batches of a data set, in this process.

    Args:
        dataset: Samples by index, or an ``IterableDataset``.
        batch_size: Samples in a batch; None gives single samples.
        shuffle: Whether every pass has a new random order.
        sampler: The order of indices, instead of ``shuffle``.
        batch_sampler: Lists of indices, instead of ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: Must be 0: there are no worker processes yet.
        collate_fn: Makes a batch of a list of samples; ``default_collate`` if not given.
        pin_memory: Has no effect yet, which a warning says.
        drop_last: Whether a shorter last batch is left out.
        timeout: For worker processes only.
        worker_init_fn: For worker processes only.
        multiprocessing_context: For worker processes only.
        generator: Source of randomness of the order.
        prefetch_factor: For worker processes only.
        persistent_workers: For worker processes only.

    Raises:
        ArgumentError: Arguments that exclude each other or are not supported.
    """

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
    ) -> None:
        _check_workers(num_workers, timeout=timeout or None, worker_init_fn=worker_init_fn,
                       multiprocessing_context=multiprocessing_context, prefetch_factor=prefetch_factor,
                       persistent_workers=persistent_workers or None)
        if pin_memory:
            warnings.warn("DataLoader: pin_memory has no effect yet; batches stay in ordinary memory", UserWarning,
                          stacklevel=2)
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.generator = generator
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            _exclusive("an IterableDataset", shuffle=shuffle or None, sampler=sampler, batch_sampler=batch_sampler)
        if batch_sampler is not None:
            _exclusive("a batch_sampler", batch_size=None if batch_size == 1 else batch_size, shuffle=shuffle or None,
                       sampler=sampler, drop_last=drop_last or None)
            batch_size = None
        elif batch_size is None:
            _exclusive("batch_size=None", drop_last=drop_last or None)
        if sampler is not None:
            _exclusive("a sampler", shuffle=shuffle or None)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = self._make_sampler(shuffle) if sampler is None else sampler
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self.batch_sampler = batch_sampler
        default: Callable[[Any], Any] = default_convert if batch_sampler is None else default_collate
        self.collate_fn: Callable[[Any], Any] = default if collate_fn is None else collate_fn

    def _make_sampler(self, shuffle: bool | None) -> Sampler[Any] | Iterable[Any]:
        if self._iterable:
            return _Endless()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)  # type: ignore[arg-type]  # checked by len()
        return SequentialSampler(self.dataset)  # type: ignore[arg-type]  # checked by len()

    def __iter__(self) -> Iterator[Any]:
        if self._iterable:
            return self._iterate_stream()
        if self.batch_sampler is None:
            return (self.collate_fn(self.dataset[index]) for index in self.sampler)
        return (self._fetch(indices) for indices in self.batch_sampler)

    def _fetch(self, indices: list[Any]) -> Any:
        dataset = self.dataset
        # The same batch as collating rows one by one, without an operator call for each row.
        if type(dataset) is TensorDataset and self.collate_fn is default_collate:
            return dataset.gather(indices)
        if hasattr(dataset, "__getitems__"):
            return self.collate_fn(dataset.__getitems__(indices))
        return self.collate_fn([dataset[index] for index in indices])

    def _iterate_stream(self) -> Iterator[Any]:
        samples = iter(self.dataset)
        if self.batch_sampler is None:
            yield from map(self.collate_fn, samples)
            return
        for indices in self.batch_sampler:
            batch = list(itertools.islice(samples, len(indices)))
            if not batch or (self.drop_last and len(batch) < len(indices)):
                return
            yield self.collate_fn(batch)

    def __len__(self) -> int:
        if not self._iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]
        size = len(self.dataset)  # type: ignore[arg-type]  # an iterable data set may have a length
        if self.batch_size is None:
            return size
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


class _Endless(Sampler[None]):
    """The sampler of streams: how many indices are drawn says how many samples are taken."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def _exclusive(given: str, **others: Any) -> None:
    for name, value in others.items():
        if value is not None:
            raise ArgumentError("DataLoader", f"{name}={value!r} with {given}", f"{given} excludes {name}",
                                f"leave {name} out")


def _check_workers(num_workers: int, **options: Any) -> None:
    if num_workers != 0:
        raise ArgumentError("DataLoader", f"num_workers={num_workers}", "samples are loaded in the calling process; "
                            "there are no worker processes yet", "pass num_workers=0")
    for name, value in options.items():
        if value is not None:
            raise ArgumentError("DataLoader", f"{name}={value!r} with num_workers=0", f"{name} is for worker processes",
                                f"leave {name} out")
