"""Helpers of layers: sizes that are given as one number, and names of state dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tensocket.errors import ShapeError


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats a number ``n`` times and leaves sequences unchanged."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """Return each element ``n`` times, the last one first, which is the order in which ``pad`` takes sizes."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    """Replace each None in ``out_size`` by its entry of the last ``defaults``.

    Raises:
        ShapeError: There are fewer defaults than sizes.
    """
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ShapeError("_list_with_default", f"{len(out_size)} sizes for an input of {len(defaults)} dimensions",
                         "Input dimension should be at least one more than the sizes", "add dimensions to the input")
    return [default if size is None else size
            for size, default in zip(out_size, defaults[-len(out_size):], strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove ``prefix`` from the names of a state dict that start with it, in place.

    Use it to load the state of a wrapped module, as in ``DataParallel``, into the module itself.
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix):]] = state_dict.pop(key)
    metadata: dict[str, Any] = getattr(state_dict, "_metadata", None) or {}
    for key in list(metadata):
        # The metadata of the module itself has the prefix without its dot; that of the wrapper has the empty name.
        if key and (key == prefix.rstrip(".") or key.startswith(prefix)):
            metadata[key[len(prefix):]] = metadata.pop(key)


__all__ = ["consume_prefix_in_state_dict_if_present"]
