"""The table of launch parameters of Triton's kernels for blocks of sparse tensors. It holds what programs store."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final, NoReturn

from tensocket.errors import UnsupportedOperator
from tensocket_plugins.contract import dtypes

#: Parameters by operator, device, version and the key of the call. Programs add entries, one for each size they tune.
_TABLE: Final[dict[tuple[Any, Any, Any], dict[Any, Any]]] = {}
_NAMES: Final = {
    "scatter_mm": ("GROUP_SIZE", "SPLIT_N", "TILE_M", "TILE_N", "num_stages", "num_warps"),
    "bsr_dense_addmm": ("GROUP_SIZE_ROW", "SPLIT_N", "num_stages", "num_warps"),
    "_int_bsr_dense_addmm": ("GROUP_SIZE_ROW", "SPLIT_N", "num_stages", "num_warps"),
}


def get_meta(op: str, key: tuple[Any, ...], device_name: str | None = None,
             version: Any = (0, dtypes.float16, 0.5), exact: bool = False) -> dict[str, Any] | None:
    """Return the stored parameters of a call by name, or None.

    Args:
        op: The operator.
        key: The sizes of the call.
        device_name: The device's name.
        version: The version of the parameters.
        exact: Whether parameters of similar devices are refused; there are none of those.
    """
    values = _TABLE.get((op, device_name, version), {}).get(key)
    return None if values is None else dict(zip(_NAMES[op], values, strict=True))


def update(op: str, device_name: str, version: Any, key: tuple[Any, ...], value: Any) -> None:
    """Store the parameters of a call; empty ones, which a failed search returns, are not stored."""
    if not value:
        warnings.warn(f"skipping empty value for {op}: device_name={device_name!r} version={version!r} key={key!r}",
                      stacklevel=2)
        return
    _TABLE.setdefault((op, device_name, version), {})[key] = value


def minimize(target_func: Callable[..., Any], *_: Any, **__: Any) -> NoReturn:
    """Refuse to search parameters, for which Triton's kernels must run.

    Raises:
        UnsupportedOperator: Always.
    """
    raise UnsupportedOperator("sparse._triton_ops_meta.minimize", "a search of launch parameters",
                              "Triton's kernels do not run on this package's tensors",
                              "multiply the sparse tensor with @, whose kernels need no parameters")
