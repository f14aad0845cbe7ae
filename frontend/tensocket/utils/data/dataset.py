"""Data sets: what can be indexed, or iterated, for samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from tensocket.errors import ArgumentError, ShapeError
from tensocket_core import Generator, Tensor, randperm, tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index. Subclasses implement ``__getitem__`` and, for most samplers, ``__len__``."""

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")


class IterableDataset(Dataset[T_co]):
    """Samples in the order in which ``__iter__`` gives them."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples are the rows of tensors, by their first dimension.

    Raises:
        ShapeError: The first dimensions differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [t.size(0) for t in tensors]
        if len(set(sizes)) > 1:
            raise ShapeError("TensorDataset", f"first dimensions {sizes}", "all tensors have equally many rows",
                             "pass tensors of the same first dimension")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))

    def gather(self, indices: Sequence[int]) -> list[Tensor]:
        """What ``default_collate`` makes of these samples, in one indexing operation for each tensor."""
        by_device = {t.device: t.device for t in self.tensors}
        at = {device: tensor(list(indices), device=device) for device in by_device}
        return [t[at[t.device]] for t in self.tensors]


class Subset(Dataset[T_co]):
    """The samples of ``dataset`` at ``indices``."""

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T_co], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[T_co]]:
    """Split a data set at random into parts that don't overlap.

    Args:
        dataset: A data set with a length.
        lengths: Sizes that add up to that of the data set, or fractions that add up to one.
        generator: Source of randomness; the CPU's default one if not given.

    Raises:
        ArgumentError: The lengths don't add up.
    """
    size = len(dataset)  # type: ignore[arg-type]  # needs __len__, as documented
    counts = _counts(size, lengths)
    if sum(counts) != size:
        raise ArgumentError("random_split", f"lengths {list(lengths)} for {size} samples", "lengths add up to the "
                            "number of samples, or fractions to one", f"change them by {size - sum(counts)} in total")
    order = randperm(size, generator=generator).tolist()
    ends = [sum(counts[: k + 1]) for k in range(len(counts))]
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts, strict=True)]


def _counts(size: int, lengths: Sequence[int | float]) -> list[int]:
    """Sizes of parts; fractions are rounded down and what remains goes to the first parts."""
    if not (math.isclose(sum(lengths), 1) and all(0 <= length <= 1 for length in lengths)):
        return [int(length) for length in lengths]
    counts = [math.floor(size * fraction) for fraction in lengths]
    for k in range(size - sum(counts)):
        counts[k % len(counts)] += 1
    return counts
