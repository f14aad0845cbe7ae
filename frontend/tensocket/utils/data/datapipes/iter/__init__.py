"""Steps over elements in their order."""

from __future__ import annotations

from .combinatorics import SamplerIterDataPipe as Sampler
from .combinatorics import ShufflerIterDataPipe as Shuffler
from .steps import BatcherIterDataPipe as Batcher
from .steps import CollatorIterDataPipe as Collator
from .steps import ConcaterIterDataPipe as Concater
from .steps import FilterIterDataPipe as Filter
from .steps import IterableWrapperIterDataPipe as IterableWrapper
from .steps import MapperIterDataPipe as Mapper
from .steps import UnBatcherIterDataPipe as UnBatcher
from .steps import ZipperIterDataPipe as Zipper

__all__ = ["Batcher", "Collator", "Concater", "Filter", "IterableWrapper", "Mapper", "Sampler", "Shuffler", "UnBatcher",
           "Zipper"]
