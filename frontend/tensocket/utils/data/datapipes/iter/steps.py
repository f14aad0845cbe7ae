"""Steps that keep the order of elements."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.utils.data._utils.collate import default_collate

from ..datapipe import IterDataPipe, functional_datapipe


class IterableWrapperIterDataPipe(IterDataPipe):
    """The elements of an iterable.

    Args:
        iterable: The elements.
        deepcopy: Whether each iteration is over a copy.
    """

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        return iter(copy.deepcopy(self.iterable) if self.deepcopy else self.iterable)

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe):
    """A function of every element.

    Args:
        datapipe: The elements.
        fn: The function.
        input_col: The entry of an element that it takes, or a list of entries; the element by default.
        output_col: The entry that gets the result; that of ``input_col`` by default, and -1 appends it.
    """

    def __init__(self, datapipe: Iterable[Any], fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
                 ) -> None:
        self.datapipe, self.fn, self.input_col, self.output_col = datapipe, fn, input_col, output_col

    def _applied(self, element: Any) -> Any:
        if self.input_col is None:
            return self.fn(element)
        columns = self.input_col if isinstance(self.input_col, (list, tuple)) else [self.input_col]
        result = self.fn(*(element[column] for column in columns))
        entries = dict(element) if isinstance(element, dict) else list(element)
        if self.output_col == -1 and isinstance(entries, list):
            entries.append(result)
        else:
            entries[columns[0] if self.output_col is None else self.output_col] = result
        return tuple(entries) if isinstance(element, tuple) else entries

    def __iter__(self) -> Iterator[Any]:
        return map(self._applied, self.datapipe)

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches as tensors.

    Args:
        datapipe: Lists of examples.
        collate_fn: The function of a list; that of ``DataLoader`` by default.
    """

    def __init__(self, datapipe: Iterable[Any], collate_fn: Callable[..., Any] | None = None) -> None:
        super().__init__(datapipe, default_collate if collate_fn is None else collate_fn)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe):
    """The elements for which a function is true.

    Args:
        datapipe: The elements.
        filter_fn: The function.
        input_col: The entry of an element that it takes, or a list of entries; the element by default.
    """

    def __init__(self, datapipe: Iterable[Any], filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def _wanted(self, element: Any) -> Any:
        if self.input_col is None:
            return self.filter_fn(element)
        columns = self.input_col if isinstance(self.input_col, (list, tuple)) else [self.input_col]
        return self.filter_fn(*(element[column] for column in columns))

    def __iter__(self) -> Iterator[Any]:
        return filter(self._wanted, self.datapipe)


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
    """Lists of successive elements.

    Args:
        datapipe: The elements.
        batch_size: Elements per list.
        drop_last: Whether a shorter last list is left out.
        wrapper_class: The type of batches.

    Raises:
        ArgumentError: ``batch_size`` is not positive.
    """

    def __init__(self, datapipe: Iterable[Any], batch_size: int, drop_last: bool = False, wrapper_class: Any = list
                 ) -> None:
        if batch_size < 1:
            raise ArgumentError("Batcher", f"batch_size={batch_size}", "Batch size is required to be larger than 0!",
                                "pass a positive number")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[Any]:
        elements = iter(self.datapipe)
        while batch := list(islice(elements, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = len(self.datapipe)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
    """The elements of lists.

    Args:
        datapipe: The lists.
        unbatch_level: How many levels of lists to open; -1 for all.
    """

    def __init__(self, datapipe: Iterable[Any], unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def _opened(self, element: Any, level: int) -> Iterator[Any]:
        if level == 0 or (level < 0 and not isinstance(element, list)):
            yield element
        else:
            for each in element:
                yield from self._opened(each, level - 1)

    def __iter__(self) -> Iterator[Any]:
        for element in self.datapipe:
            yield from self._opened(element, self.unbatch_level)


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe):
    """The elements of several data sets, one after the other."""

    def __init__(self, *datapipes: Iterable[Any]) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.datapipes)

    def __len__(self) -> int:
        lengths: list[int] = [len(each) for each in self.datapipes]  # type: ignore[arg-type]
        return sum(lengths)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe):
    """Tuples of the elements of several data sets, as many as the shortest has."""

    def __init__(self, *datapipes: Iterable[Any]) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(len(each) for each in self.datapipes)  # type: ignore[arg-type]
