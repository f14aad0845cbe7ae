"""Data sets: objects that give samples by index or by iteration."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np

from tensocket.errors import ArgumentError, DatasetError
from tensocket_operators import Generator, Tensor, as_tensor, randperm

T_co = TypeVar("T_co", covariant=True)

_INTEGERS: Final = frozenset({int, np.int64})


class Dataset(Generic[T_co]):
    """A collection of samples by index.

    Subclasses implement ``__getitem__`` and, for most samplers, ``__len__``. If they define ``__getitems__(indices)``,
    which returns a list of samples, loaders use it.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """A collection of samples in the order in which ``__iter__`` yields them.

    Each worker has a copy of the data set and would yield all of its samples: divide them by ``get_worker_info()`` in
    ``__iter__``, or in a ``worker_init_fn``.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]  # as in PyTorch
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """A data set whose samples are the rows of tensors along their first dimension.

    Raises:
        DatasetError: The first dimensions differ.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [t.size(0) for t in tensors]
        if len(set(sizes)) > 1:
            raise DatasetError("TensorDataset", f"Size mismatch between tensors: first dimensions {sizes}",
                               "all tensors have equally many rows", "pass tensors of the same first dimension")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """A data set whose samples combine those of several data sets.

    Args:
        *args: Data sets; a sample is a tuple.
        **kwargs: Data sets by name, instead; a sample is a dict.

    Raises:
        ArgumentError: No data set is given, both kinds are, or the lengths differ.
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Dataset[T_co], **kwargs: Dataset[T_co]) -> None:
        if bool(args) == bool(kwargs):
            raise ArgumentError("StackDataset", f"{len(args)} data sets by position and {len(kwargs)} by name",
                                "there is at least one data set, and either all have names or none has",
                                "name all of them, or none")
        self.datasets = args or kwargs
        sizes = [len(each) for each in self._each()]
        if len(set(sizes)) > 1:
            raise ArgumentError("StackDataset", f"Size mismatch between datasets: {sizes}",
                                "all data sets have equally many samples", "use Subset to cut them")
        self._length = sizes[0]

    def _each(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _sample(self, parts: Sequence[Any]) -> Any:
        return dict(zip(self.datasets, parts, strict=True)) if isinstance(self.datasets, dict) else tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._sample([each[index] for each in self._each()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Return several samples."""
        columns = [_column(each, indices) for each in self._each()]
        return [self._sample(parts) for parts in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


def _column(dataset: Any, indices: list[Any]) -> Sequence[Any]:
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    samples: Sequence[Any] = dataset.__getitems__(indices)
    if len(samples) != len(indices):
        raise ArgumentError("StackDataset", f"{len(samples)} samples for {len(indices)} indices",
                            "__getitems__ of a nested data set returns one sample for each index",
                            f"correct {type(dataset).__name__}.__getitems__")
    return samples


class ConcatDataset(Dataset[T_co]):
    """The concatenation of several data sets.

    Raises:
        DatasetError: The list is empty, or one of the data sets is an ``IterableDataset``.
    """

    datasets: list[Dataset[T_co]]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise DatasetError("ConcatDataset", "datasets should not be an empty iterable",
                               "at least one data set is joined", "pass data sets")
        if any(isinstance(each, IterableDataset) for each in self.datasets):
            raise DatasetError("ConcatDataset", "ConcatDataset does not support IterableDataset",
                               "joined data sets have an index", "use ChainDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the running total of the lengths."""
        return list(itertools.accumulate(len(each) for each in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ArgumentError("ConcatDataset", f"index {index} of {len(self)} samples",
                                    "absolute value of index should not exceed dataset length", "pass a smaller one")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    @property
    def cummulative_sizes(self) -> list[int]:
        """``cumulative_sizes`` under an old misspelt name."""
        warnings.warn("cummulative_sizes attribute is renamed to cumulative_sizes", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """The concatenation of several iterable data sets."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        super().__init__()
        self.datasets = datasets

    def _each(self) -> Iterator[Any]:
        for each in self.datasets:
            if not isinstance(each, IterableDataset):
                raise DatasetError("ChainDataset", f"a {type(each).__name__}",
                                   "ChainDataset only supports IterableDataset", "use ConcatDataset")
            yield each

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._each())

    def __len__(self) -> int:
        return sum(len(each) for each in self._each())


class Subset(Dataset[T_co]):
    """The samples of ``dataset`` at ``indices``."""

    dataset: Dataset[T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[Any]) -> list[T_co]:
        """Return several samples."""
        chosen = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)  # type: ignore[attr-defined, no-any-return]
        return [self.dataset[i] for i in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def gathered(dataset: Any, indices: Sequence[int]) -> list[Tensor] | None:
    """Return the result of ``default_collate`` for rows of tensors, with one indexing operation per tensor.

    Returns:
        None if samples must be fetched one by one, because the data set is of another class.
    """
    while type(dataset) is Subset:
        dataset, indices = dataset.dataset, [dataset.indices[i] for i in indices]
    if type(dataset) is not TensorDataset or not set(map(type, indices)) <= _INTEGERS:
        return None
    positions = as_tensor(np.array(indices, np.int64))
    return [t[positions.to(t.device)] for t in dataset.tensors]


def random_split(
    dataset: Dataset[T_co], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[T_co]]:
    """Split a data set at random into disjoint parts.

    Args:
        dataset: A data set with a length.
        lengths: Sizes that add up to that of the data set, or fractions that add up to one.
        generator: Source of randomness; the CPU's default one if not given.

    Raises:
        ArgumentError: The lengths don't add up, or a fraction is negative.
    """
    size = len(dataset)  # type: ignore[arg-type]  # needs __len__, as documented
    counts = _counts(size, lengths)
    if sum(counts) != size:
        raise ArgumentError("random_split", f"lengths {list(lengths)} for {size} samples",
                            "Sum of input lengths does not equal the length of the input dataset",
                            f"change them by {size - sum(counts)} in total, or pass fractions that add up to 1")
    order = randperm(size, generator=generator).tolist()
    ends = itertools.accumulate(counts)
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts, strict=True)]


def _counts(size: int, lengths: Sequence[int | float]) -> list[int]:
    """Return the sizes of parts; fractions are rounded down, and the first parts get the remainder."""
    if not (math.isclose(sum(lengths), 1) and sum(lengths) <= 1):
        return [int(length) for length in lengths]
    for position, fraction in enumerate(lengths):
        if not 0 <= fraction <= 1:
            raise ArgumentError("random_split", f"Fraction {fraction} at index {position}",
                                "a fraction lies between 0 and 1", "pass shares of the data set, which add up to 1")
    counts = [math.floor(size * fraction) for fraction in lengths]
    for k in range(size - sum(counts)):
        counts[k % len(counts)] += 1
    for position, count in enumerate(counts):
        if count == 0:
            warnings.warn(f"Length of split at index {position} is 0. This might result in an empty dataset.",
                          UserWarning, stacklevel=3)
    return counts


__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]
