"""Fetching: from an index, or a list of indices, to a batch or a sample."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..dataset import gathered
from .collate import default_collate


class MapFetcher:
    """A fetcher of samples of a data set by index.

    Args:
        dataset: The data set.
        batched: Whether requests are lists of indices.
        collate_fn: Function that makes a batch of samples, or an output of a sample.
        drop_last: Ignored; it is for data sets without indices.
    """

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset = dataset
        self.batched = batched
        self.collate_fn = collate_fn

    def fetch(self, index: Any) -> Any:
        """Return the batch of a list of indices, or the sample of one."""
        dataset = self.dataset
        if not self.batched:
            return self.collate_fn(dataset[index])
        # The same batch as collating row by row, without an operator call for each row.
        if self.collate_fn is default_collate and (batch := gathered(dataset, index)) is not None:
            return batch
        if getattr(dataset, "__getitems__", None):
            return self.collate_fn(dataset.__getitems__(index))
        return self.collate_fn([dataset[each] for each in index])


class StreamFetcher:
    """A fetcher of samples of an iterable data set; only the number of indices matters.

    Args:
        dataset: The data set.
        batched: Whether requests are lists of indices.
        collate_fn: Function that makes a batch of samples, or an output of a sample.
        drop_last: Whether a shorter last batch is dropped.
    """

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        self.samples = iter(dataset)
        self.batched = batched
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, index: Any) -> Any:
        """Return the next batch, or the next sample.

        Raises:
            StopIteration: The data set has no more samples.
        """
        if not self.batched:
            return self.collate_fn(next(self.samples))
        batch = list(itertools.islice(self.samples, len(index)))
        if not batch or (self.drop_last and len(batch) < len(index)):
            raise StopIteration
        return self.collate_fn(batch)


__all__ = ["MapFetcher", "StreamFetcher"]
