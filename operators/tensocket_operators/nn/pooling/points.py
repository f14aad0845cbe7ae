"""Weighted sums of an image's elements at points, for ``grid_sample``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensocket_core import functions
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import dtype_bit
from tensocket_core.tensor import wrap

from ...kinds.composite import composite
from ...kinds.private import private
from ...kinds.programs import processors_only
from . import points_kernel_cpu

if TYPE_CHECKING:
    from .points_kernel_cpu import Kind



def _direct(kind: Kind) -> Any:
    """Return a shortcut that launches one kernel, on processors with a code generator.

    The operands are two floating-point arrays and the positions.
    """

    @processors_only(f"{kind}_points")
    def shortcut(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        def host_path(first: Any, second: Any, index: Any, size: int) -> Any:
            dtype = first.dtype
            if dtype.kind != "float" or dtype.itemsize < 4 or second.dtype is not dtype:
                return next_path(first, second, index, size)
            batch, count, points = index.shape
            channels = first.shape[1]
            many, few, weights = (batch, channels, size), (batch, channels, points), (batch, count, points)
            needed, shape = {"read": ((many, weights), few), "place": ((few, weights), many),
                             "slopes": ((few, many), weights)}[kind]
            if (tuple(first.shape), tuple(second.shape)) != needed:
                return next_path(first, second, index, size)
            arrays = [x.contiguous()._array for x in (first, second, index)]
            sizes = (batch, channels, size, points)
            made = points_kernel_cpu.run_point_kernel(state, kind, shape, arrays, dtype, sizes)
            return wrap(made, state.key | dtype_bit(dtype))

        return private("grid_sample", host_path)

    return shortcut


def _elements(flat: Any, index: Any) -> Any:
    """Return the elements [B, C, points] at positions [B, points]; 0 at position -1."""
    shape = (flat.shape[0], flat.shape[1], index.shape[-1])
    found = flat.gather(2, index.clamp_min(0).unsqueeze(1).expand(shape))
    return functions.where((index >= 0).unsqueeze(1), found, 0)


@composite("point_weight_gradients(Tensor grad, Tensor flat, Tensor index, int size) -> Tensor", method=False,
           function=False, replayable=True,
           host_path=_direct("slopes"))
def point_weight_gradients(grad: Any, flat: Any, index: Any, size: int) -> Any:
    """Return the gradients of the weights of ``gather_points``."""
    return functions.stack([(_elements(flat, index.select(1, k)) * grad).sum(1) for k in range(index.shape[1])], 1)


@composite("scatter_points(Tensor grad, Tensor weights, Tensor index, int size) -> Tensor", method=False,
           function=False, replayable=True,
           host_path=_direct("place"))
def scatter_points(grad: Any, weights: Any, index: Any, size: int) -> Any:
    """Return the gradients of the elements of ``gather_points``, [B, C, size]."""
    total = grad.new_zeros((*grad.shape[:2], size))
    for k in range(index.shape[1]):
        places = index.select(1, k).unsqueeze(1)
        part = functions.where(places >= 0, grad * weights.select(1, k).unsqueeze(1), 0)
        total = total.scatter_add(2, places.clamp_min(0).expand(grad.shape), part)
    return total


@composite(
    "gather_points(Tensor flat, Tensor weights, Tensor index, int size) -> Tensor", method=False, function=False,
    replayable=True, host_path=_direct("read"), derivative=Derivative(
        flat=lambda grad, weights, index, size: call(COMPOSITES["scatter_points"], grad, weights, index, size),
        weights=lambda grad, flat, index, size: call(COMPOSITES["point_weight_gradients"], grad, flat, index, size)))
def gather_points(flat: Any, weights: Any, index: Any, size: int) -> Any:
    """Return the weighted sums of the elements at the positions of each point.

    Args:
        flat: [B, C, size].
        weights: [B, K, points].
        index: int64 positions below ``size``, -1 for a missing element, [B, K, points].
        size: Elements of a channel.

    Returns:
        [B, C, points].
    """
    total = None
    for k in range(index.shape[1]):
        part = _elements(flat, index.select(1, k)) * weights.select(1, k).unsqueeze(1)
        total = part if total is None else total + part
    return total
