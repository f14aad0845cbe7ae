"""Names of the reductions of a loss, as PyTorch's internal functions take them."""

from __future__ import annotations

from tensocket_plugins.contract.errors import ArgumentError

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return the number of ``none``, ``mean`` or ``sum``.

    Raises:
        ArgumentError: It is none of these.
    """
    if reduction not in _NUMBERS:
        raise ArgumentError("reduction", repr(reduction), "a reduction is 'none', 'mean' or 'sum'", "pass one of these")
    return _NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Return the reduction that two deprecated arguments mean; None counts as True."""
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """Return the number of the reduction that two deprecated arguments mean."""
    return get_enum(legacy_get_string(size_average, reduce))
