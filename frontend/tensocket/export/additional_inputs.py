"""Dynamic shapes from further examples of inputs."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ArgumentCombinationError, ExportError
from tensocket.utils._pytree import tree_flatten, tree_map
from tensocket_operators import Tensor

from .capture import named_arguments
from .dynamic_shapes import Dim
from .exported_program import ExportedProgram


class AdditionalInputs:
    """Further examples of inputs for ``export(..., dynamic_shapes=inputs)``.

    Sizes that differ among the examples are dynamic; all others are fixed. The exported program accepts every example.
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def add(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Add an example.

        Raises:
            ArgumentCombinationError: The arguments are not a tuple, or those by keyword not a dict.
        """
        if type(args) is not tuple or (kwargs is not None and type(kwargs) is not dict):
            raise ArgumentCombinationError("AdditionalInputs.add", f"a {type(args).__name__} and a "
                                           f"{type(kwargs).__name__}", "Representative args must be a tuple, and "
                                           "representative kwargs must be None or a dict", "pass add((x, y), {'k': z})")
        self._examples.append((args, kwargs or {}))

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return dynamic shapes by argument.

        Args:
            m: The module.
            args: The positional arguments of the export.
            kwargs: Its keyword arguments.

        Raises:
            ExportError: The examples have other structures, numbers of dimensions, types or values.
        """
        given = [dict(named_arguments(m, *example)) for example in [(args, kwargs or {}), *self._examples]]
        spec = tree_flatten(given[0])[1]
        if any(tree_flatten(example)[1] != spec for example in given[1:]):
            raise ExportError("export", "additional inputs of another structure", "all examples have the structure of "
                              "the arguments", "pass the same containers")
        found: dict[str, Any] = tree_map(_merged, given[0], *given[1:])
        return found

    def verify(self, ep: ExportedProgram) -> None:
        """Check that a program accepts all examples.

        Raises:
            GuardError: It refuses one.
        """
        if ep._guards is not None:
            for args, kwargs in self._examples:
                ep._guards(*tree_flatten((args, kwargs))[0])


def _merged(value: Any, *others: Any) -> Any:
    """Return the dynamic shape of an input from its examples."""
    if any(type(x) is not type(value) for x in others):
        raise ExportError("export", f"inputs of types {[type(x).__name__ for x in (value, *others)]}", "The following "
                          "inputs were found to have differing types, so they cannot be marked as dynamic",
                          "pass examples of one type")
    if not isinstance(value, Tensor):
        if any(x != value for x in others):
            raise ExportError("export", f"inputs {(value, *others)}", "The following inputs were found to have "
                              "differing values, but they cannot be marked as dynamic", "pass tensors, or export a "
                              "program for each value")
        return None
    if any(x.dim() != value.dim() for x in others):
        raise ExportError("export", f"inputs with {[x.dim() for x in (value, *others)]} dimensions", "the number of "
                          "dimensions is fixed", "pass examples with as many dimensions")
    sizes = [None if all(x.size(k) == n for x in others) else Dim.DYNAMIC for k, n in enumerate(value.shape)]
    return tuple(sizes) if any(sizes) else None
