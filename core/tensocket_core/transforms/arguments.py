"""Arguments of transforms: which are differentiated, pairs of results."""

from __future__ import annotations

from typing import Any

from tensocket_plugins.contract.errors import AutogradError


def chosen(name: str, args: tuple[Any, ...], argnums: Any) -> frozenset[int]:
    """Positions of the differentiated arguments, not negative; None means all.

    Raises:
        AutogradError: ``argnums`` is no int or tuple of ints, names an argument twice or one that is not given.
    """
    if argnums is None:
        return frozenset(range(len(args)))
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers or not all(isinstance(k, int) and not isinstance(k, bool) for k in numbers):
        raise AutogradError(name, f"argnums={argnums!r}", "argnums is an int or a tuple of ints",
                            "pass the positions of the arguments to differentiate")
    for k in numbers:
        if not -len(args) <= k < len(args):
            raise AutogradError(name, f"argnums={argnums!r} for {len(args)} positional arguments",
                                "argnums are positions of arguments", "pass the argument by position")
    positions = frozenset(k % len(args) for k in numbers)
    if len(positions) != len(numbers):
        raise AutogradError(name, f"argnums={argnums!r}", "every argument is named once", "remove the repetition")
    return positions


def picked(args: tuple[Any, ...], argnums: Any) -> Any:
    """The differentiated arguments: all, one, or a tuple in the order of ``argnums``."""
    if argnums is None:
        return args
    return tuple(args[k] for k in argnums) if isinstance(argnums, tuple) else args[argnums]


def replaced(args: tuple[Any, ...], argnums: Any, new: Any) -> tuple[Any, ...]:
    """The arguments with other differentiated ones; the inverse of ``picked``."""
    if argnums is None:
        return tuple(new)
    result = list(args)
    for k, value in zip(argnums, new, strict=True) if isinstance(argnums, tuple) else ((argnums, new),):
        result[k] = value
    return tuple(result)


def split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """What is differentiated, and the rest.

    Raises:
        AutogradError: ``has_aux`` promises a pair and the result is none.
    """
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise AutogradError(name, f"a function with has_aux=True that returns {type(result).__name__}",
                            "the function returns a pair (output, aux)", "return a tuple of two")
    return result[0], result[1]
