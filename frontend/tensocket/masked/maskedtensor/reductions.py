"""Reductions: a result is valid if the mask holds one of its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.formats import strided
from tensocket_core.geometry import normalize_axes
from tensocket_operators import functions
from tensocket_operators.reductions.masked import fill_unselected
from tensocket_operators.sparse.layouts import as_coo, flat_positions
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from .core import is_masked_tensor, joined, name_of, rule

#: Reductions of masked tensors.
REDUCE_NAMES: Final = ["sum", "mean", "amin", "amax", "argmin", "argmax", "prod", "all", "norm", "var", "std"]
#: Operations of ``masked`` on one tensor.
_MASKED_NAMES: Final = (*(n for n in REDUCE_NAMES if n != "all"), "median", "logsumexp", "cumsum", "cumprod",
                        "softmax", "log_softmax", "softmin", "normalize")


def _all(data: Any, dim: Any = None, *, keepdim: bool = False, mask: Any) -> Any:
    return fill_unselected("all", data.bool(), mask).all(normalize_axes("all", dim, data.ndim), keepdim)


def _fold(name: str) -> Callable[..., Any]:
    return _all if name == "all" else getattr(functions, f"masked_{name}")


def _result_mask(name: str, mask: Any, dim: Any, keepdim: bool) -> Any:
    return mask.any(normalize_axes(name, dim, mask.ndim), keepdim)


def _reduced(name: str, masked: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
    """Reduce a masked tensor over some dimensions, by default over all."""
    mask = masked.get_mask()
    if mask.layout is strided:
        result = _fold(name)(masked.get_data(), dim=dim, keepdim=keepdim, mask=mask, **options)
        return joined(result, _result_mask(name, mask, dim, keepdim))
    if dim is not None:
        raise ArgumentTypeError(name, f"dim={dim!r} for layout {mask.layout!r}: The sparse version of {name} is not "
                                "implemented in reductions.", "sparse masked tensors are reduced over all dimensions",
                                f"use masked.{name}(data, dim, mask=mask)")
    stored = masked.get_data().values()
    held = mask.values()
    result = _fold(name)(stored, mask=held, **options)
    if name in ("argmin", "argmax"):
        numbers = flat_positions(as_coo(mask).positions, mask.shape)
        result = numbers[result.long()].to(result.dtype) if stored.shape[0] else result
    return joined(result, held.any())


def _plain_rule(name: str) -> Callable[..., Any]:
    def reduce(masked: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        return _reduced(name, masked, dim, keepdim, **({} if dtype is None else {"dtype": dtype}))

    return reduce


def _norm(masked: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if p == "nuc":
        raise ArgumentError("norm", "p='nuc' of a MaskedTensor", "norms are those of vectors", "pass a number")
    return _reduced("norm", masked, dim, keepdim, ord=2.0 if p in ("fro", None) else p, dtype=dtype)


def _spread_rule(name: str) -> Callable[..., Any]:
    def reduce(masked: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
               correction: Any = None) -> Any:
        dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
        return _reduced(name, masked, dim, keepdim, unbiased=unbiased, correction=correction)

    return reduce


_RULES: Final[dict[str, Callable[..., Any]]] = {
    **{name: _plain_rule(name) for name in REDUCE_NAMES}, "norm": _norm, "var": _spread_rule("var"),
    "std": _spread_rule("std")}


@rule(*REDUCE_NAMES)
def reduce(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Reduce the elements that the mask holds."""
    return _RULES[name_of(func)](*args, **kwargs)


@rule(*(f"masked_{name}" for name in _MASKED_NAMES))
def reduce_masked(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply an operation of ``masked`` to data with their own mask and return a plain tensor.

    Raises:
        ArgumentTypeError: The mask is a masked tensor.
    """
    masked, *rest = args
    if not is_masked_tensor(masked):
        raise ArgumentTypeError(name_of(func), "a MaskedTensor as mask", "masks are plain tensors of bools",
                                "pass its get_mask()")
    return func(masked.get_data(), *rest, **{**kwargs, "mask": masked.get_mask()})


@rule("masked_logaddexp")
def logaddexp(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply ``masked.logaddexp`` to data with their masks and return a plain tensor."""
    given = dict(zip(("input", "other"), args, strict=False)) | kwargs
    for name in ("input", "other"):
        if is_masked_tensor(given[name]):
            given[f"{name}_mask"] = given[name].get_mask()
            given[name] = given[name].get_data()
    return func(**given)
