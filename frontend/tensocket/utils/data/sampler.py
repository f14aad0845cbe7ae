"""Samplers: the order in which a loader requests samples. Orders are drawn on the CPU for all devices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Final, Generic, TypeVar

from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket_operators import Generator, as_tensor, float64, multinomial, randint, randperm

T_co = TypeVar("T_co", covariant=True)

#: Number of indices per draw for draws with replacement.
_PIECE: Final = 1024


class Sampler(Generic[T_co]):
    """An iterable over indices, or over lists of them."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler[int]):
    """A sampler of 0, 1, 2, ... to the end of ``data_source``."""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A sampler of random indices: a permutation, or independent draws.

    Args:
        data_source: The data set to sample from.
        replacement: Whether draws are independent.
        num_samples: Number of draws; the size of the data set if not given.
        generator: Source of randomness. If not given, every pass seeds one from the CPU's default generator.

    Raises:
        ArgumentTypeError: ``replacement`` is not a bool.
        ArgumentError: ``num_samples`` is not positive.
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise ArgumentTypeError("RandomSampler", f"replacement={replacement!r}", "replacement is a bool",
                                    "pass True or False")
        _check_count("RandomSampler", self.num_samples)

    @property
    def num_samples(self) -> int:
        """Number of indices in one pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        return itertools.chain.from_iterable(self._draw())

    def _draw(self) -> Iterator[list[int]]:
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(int(randint(0, 2**62, ()).item()))
        size, wanted = len(self.data_source), self.num_samples
        while wanted > 0 and self.replacement:  # In pieces: programs request more numbers than they consume.
            yield randint(0, size, (min(wanted, _PIECE),), generator=generator).tolist()
            wanted -= _PIECE
        while wanted > 0:
            yield randperm(size, generator=generator).tolist()[:wanted]
            wanted -= size

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """A sampler of the given indices in random order, each once."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from map(self.indices.__getitem__, randperm(len(self.indices), generator=self.generator).tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """A sampler of indices with probabilities in proportion to weights.

    Args:
        weights: One weight for each sample; they need not add up to one.
        num_samples: Number of indices in one pass.
        replacement: Whether an index may be drawn again.
        generator: Source of randomness; the CPU's default one if not given.

    Raises:
        ArgumentError: An argument is out of its domain.
    """

    weights: Any
    num_samples: int
    replacement: bool

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        _check_count("WeightedRandomSampler", num_samples)
        if not isinstance(replacement, bool):
            raise ArgumentError("WeightedRandomSampler", f"replacement={replacement!r}", "replacement is a bool",
                                "pass True or False")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ArgumentError("WeightedRandomSampler", f"weights of shape {list(self.weights.shape)}",
                                "weights should be a 1d sequence", "flatten them")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """A sampler of lists of ``batch_size`` indices of another sampler; a shorter last one unless ``drop_last``.

    Raises:
        ArgumentError: ``batch_size`` is not a positive int, or ``drop_last`` is not a bool.
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        if type(batch_size) is not int or batch_size <= 0:
            raise ArgumentError("BatchSampler", f"batch_size={batch_size!r}", "batch_size is a positive int",
                                "pass a number from 1")
        if not isinstance(drop_last, bool):
            raise ArgumentError("BatchSampler", f"drop_last={drop_last!r}", "drop_last is a bool", "pass True or False")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]  # needs __len__, as for len() of any generator
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)


def _check_count(sampler: str, count: Any) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
        raise ArgumentError(sampler, f"num_samples={count!r}", "num_samples should be a positive integer value",
                            "draw at least one sample, from data that is not empty")


__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]
