"""Arguments of transforms: choosing the differentiated ones, and splitting auxiliary results."""

from __future__ import annotations

from typing import Any

from tensocket_plugins.contract.errors import AutogradError

from ..pytree import tree_leaves


def chosen(name: str, args: tuple[Any, ...], argnums: Any) -> frozenset[int]:
    """Return the positions of the differentiated arguments, non-negative; None means all.

    Raises:
        AutogradError: ``argnums`` is not an int or a tuple of ints, or names an argument twice or a missing one.
    """
    if argnums is None:
        return frozenset(range(len(args)))
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers or not all(isinstance(k, int) and not isinstance(k, bool) for k in numbers):
        raise AutogradError(name, f"argnums={argnums!r}", "argnums must be non-empty" if numbers == () else
                            f"argnums must be int or Tuple[int, ...], got: {type(argnums)}",
                            "pass the positions of the arguments to differentiate")
    for k in numbers:
        if not -len(args) <= k < len(args):
            raise AutogradError(name, f"argnums={argnums!r}", f"Got argnum={k}, but only {len(args)} positional inputs",
                                "pass the argument by position")
    positions = frozenset(k % len(args) for k in numbers)
    if len(positions) != len(numbers):
        raise AutogradError(name, f"argnums={argnums!r}", f"argnums elements must be unique, got {argnums}",
                            "remove the repetition")
    return positions


def picked(args: tuple[Any, ...], argnums: Any) -> Any:
    """Return the differentiated arguments: all, one, or a tuple in the order of ``argnums``."""
    if argnums is None:
        return args
    return tuple(args[k] for k in argnums) if isinstance(argnums, tuple) else args[argnums]


def replaced(args: tuple[Any, ...], argnums: Any, new: Any) -> tuple[Any, ...]:
    """Return the arguments with the differentiated ones replaced; the inverse of ``picked``."""
    if argnums is None:
        return tuple(new)
    result = list(args)
    for k, value in zip(argnums, new, strict=True) if isinstance(argnums, tuple) else ((argnums, new),):
        result[k] = value
    return tuple(result)


def split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """Split a result into the part to differentiate and the rest.

    Args:
        name: The call, as errors show it.
        result: Result of the function.
        has_aux: Whether the result is a pair.

    Raises:
        AutogradError: ``has_aux`` promises a pair of tensors, or trees of them, but the result is not one.
    """
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise AutogradError(name, f"a function with has_aux=True that returns {type(result).__name__}",
                            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True",
                            "return a tuple of two")
    for leaf in tree_leaves(result[1]):
        if not hasattr(leaf, "_key"):
            raise AutogradError(name, "an aux that is not a tree of tensors",
                                f"Expected tensors, got unsupported type {type(leaf)}", "return tensors only")
    return result[0], result[1]


def check_outputs(name: str, outputs: list[Any]) -> None:
    """Raise for results of a differentiated function that are not tensors.

    Args:
        name: The call, as errors show it.
        outputs: Leaves of the function's result.

    Raises:
        AutogradError: The result has no leaves, or one is not a tensor.
    """
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise AutogradError(name, f"a function that returns {outputs}", f"{name}: Expected f to be a function that has "
                            "non-empty output", "return the tensors to differentiate")
    for output in outputs:
        if not hasattr(output, "_key"):
            raise AutogradError(name, f"a function that returns {type(output).__name__}", f"{name}: expected "
                                f"f(*primals) to return only tensors, got unsupported type {type(output)}",
                                "return tensors, or use has_aux=True for the rest")


def check_real(name: str, what: str, tree: Any) -> None:
    """Raise for complex tensors, for which Jacobians are not defined by single parts.

    Raises:
        AutogradError: A tensor is complex.
    """
    for index, leaf in enumerate(tree_leaves(tree)):
        if hasattr(leaf, "_key") and leaf.dtype.is_complex:
            raise AutogradError(name, f"complex {what}", f"{name}: Expected all {what} to be real but received complex "
                                f"tensor at flattened input idx: {index}", "use view_as_real, or vjp and jvp")
