"""Samplers: the order in which a loader asks for samples. Orders are drawn on the CPU, whatever the data's device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Generic, TypeVar

from tensocket.errors import ArgumentError
from tensocket_core import Generator, randint, randperm

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """An iterable over indices, or over lists of them."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... to the end of ``data_source``."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Random indices: a permutation, or independent draws.

    Args:
        data_source: What is sampled from.
        replacement: Whether draws are independent.
        num_samples: How many; as many as there are if not given.
        generator: Source of randomness. Without one a new one is seeded from the CPU's default generator in every pass.

    Raises:
        ArgumentError: ``num_samples`` is not positive.
    """

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
        if self.num_samples <= 0:
            raise ArgumentError("RandomSampler", f"num_samples={self.num_samples}", "at least one sample is drawn",
                                "pass a positive num_samples and a data source that is not empty")

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(int(randint(0, 2**62, ()).item()))
        size, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            yield from randint(0, size, (wanted,), generator=generator).tolist()
            return
        while wanted > 0:
            yield from randperm(size, generator=generator).tolist()[:wanted]
            wanted -= size

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` indices of another sampler; a shorter last one unless ``drop_last``.

    Raises:
        ArgumentError: ``batch_size`` is not a positive int.
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        if type(batch_size) is not int or batch_size <= 0:
            raise ArgumentError("BatchSampler", f"batch_size={batch_size!r}", "batch_size is a positive int",
                                "pass a number from 1")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]  # needs __len__, as for len() of any generator
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)
