"""Steps that change the order of elements."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.utils.data.sampler import SequentialSampler
from tensocket_operators import initial_seed

from ..datapipe import IterDataPipe, functional_datapipe


class SamplerIterDataPipe(IterDataPipe):
    """The elements that a sampler chooses.

    Args:
        datapipe: The elements.
        sampler: The class of the sampler.
        sampler_args: Its arguments.
        sampler_kwargs: Its options.
    """

    def __init__(self, datapipe: Any, sampler: Any = SequentialSampler, sampler_args: tuple[Any, ...] = (),
                 sampler_kwargs: dict[str, Any] | None = None) -> None:
        self.datapipe = datapipe
        self.sampler = sampler(datapipe, *sampler_args, **(sampler_kwargs or {}))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe):
    """The elements in an order of chance, of a limited number at a time.

    Args:
        datapipe: The elements.
        buffer_size: How many elements wait, of which one is drawn.
        unbatch_level: How many levels of lists to open before.

    Raises:
        ArgumentError: ``buffer_size`` is not positive.
    """

    def __init__(self, datapipe: Iterable[Any], *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size < 1:
            raise ArgumentError("Shuffler", f"buffer_size={buffer_size}", "buffer_size should be larger than 0",
                                "pass a positive number")
        self.datapipe: Any = datapipe if unbatch_level == 0 else datapipe.unbatch(  # type: ignore[attr-defined]
            unbatch_level=unbatch_level)
        self.buffer_size, self._shuffle_enabled = buffer_size, True
        self._seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe:
        """Set whether elements change their order."""
        self._shuffle_enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe:
        """Set the seed of the next iteration."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._shuffle_enabled:
            yield from self.datapipe
            return
        chance = random.Random(initial_seed() + random.getrandbits(32) if self._seed is None else self._seed)
        self._seed = None
        waiting: list[Any] = []
        for element in self.datapipe:
            if len(waiting) < self.buffer_size:
                waiting.append(element)
                continue
            place = chance.randrange(self.buffer_size)
            yield waiting[place]
            waiting[place] = element
        chance.shuffle(waiting)
        yield from waiting

    def __len__(self) -> int:
        return len(self.datapipe)
