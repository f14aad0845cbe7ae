"""The base classes of steps, and the methods by which steps follow each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, TypeVar

from tensocket.errors import ArgumentError
from tensocket.utils.data.dataset import Dataset, IterableDataset

T = TypeVar("T", bound=type)

__all__ = ["IterDataPipe", "MapDataPipe", "functional_datapipe"]


class _Chained:
    """A data set whose methods are the registered steps after it."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        """Return the step of a name, which takes this data set first."""
        if name in type(self).functions:
            return partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function of a data set a method."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name: str, cls_to_register: type,
                                      enable_df_api_tracing: bool = False) -> None:
        """Make a step a method of the data sets before it.

        Raises:
            ArgumentError: There is a step of that name.
        """
        if function_name in cls.functions:
            raise ArgumentError("register_datapipe_as_function", f"another step {function_name!r}", "Unable to add "
                                f"DataPipe function name {function_name} as it is already taken", "choose another name")
        cls.functions[function_name] = cls_to_register


class IterDataPipe(_Chained, IterableDataset[Any]):
    """A step over the elements of a data set, in their order. Subclasses define ``__iter__``."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __repr__(self) -> str:
        return type(self).__qualname__


class MapDataPipe(_Chained, Dataset[Any]):
    """A step over a data set whose elements have keys. Subclasses define ``__getitem__``."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __repr__(self) -> str:
        return type(self).__qualname__


class functional_datapipe:
    """A decorator that makes a class of steps a method of the data sets before it.

    Args:
        name: The method.
        enable_df_api_tracing: Accepted as in PyTorch; it is about tables, which have no methods of their own.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: T) -> T:
        """Register the class.

        Raises:
            ArgumentError: The class is no step.
        """
        base = next((each for each in (IterDataPipe, MapDataPipe) if issubclass(cls, each)), None)
        if base is None:
            raise ArgumentError("functional_datapipe", f"the class {cls.__name__}", "functional_datapipe only can "
                                "decorate IterDataPipe or MapDataPipe", "derive it from one of these")
        base.register_datapipe_as_function(self.name, cls)
        return cls
