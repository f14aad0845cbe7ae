"""Jacobians as real matrices, by differences, backward passes and forward mode, for ``gradcheck`` to compare.

A complex number counts as a pair of real numbers. With PyTorch's convention, the gradient of an output element for the
seed 1 holds the derivatives of its real part, and for the seed 1j those of its imaginary part; the real part of the
gradient is the derivative with respect to the real part of the input, and the imaginary part that with respect to its
imaginary part. So ``gradcheck`` compares one real matrix per input and output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensocket_core.autograd.differentiate import BATCHED
from tensocket_core.autograd.differentiate import grad as gradients
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from ..tensor_methods.subclasses import without_memory
from .dual_levels import pushed_along


class InconstantFunction(ArgumentError, AssertionError):
    """Error: differences of a function cannot be taken, as shapes or dtypes of its results depend on values."""


Vector = np.ndarray[Any, np.dtype[np.float64]]


def tensors_in(values: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple."""
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def reals(tensor: Any) -> Vector:
    """Return a tensor's values as a real vector."""
    plain = tensor.detach()
    if without_memory(plain):  # only the operators of its class can read it
        flat = plain.reshape(-1)
        values = np.array([flat[k].item() for k in range(flat.numel())],
                          np.complex128 if tensor.dtype.kind == "complex" else np.float64)
    else:
        values = np.ascontiguousarray(np.array(plain._values())).reshape(-1)
    if values.dtype.kind == "c":
        return values.astype(np.complex128).view(np.float64).copy()
    return values.astype(np.float64)


def count(tensor: Any) -> int:
    """Return the number of real numbers in a tensor."""
    return int(tensor.numel()) * (2 if tensor.dtype.kind == "complex" else 1)


def _set(tensor: Any, index: int, values: Vector) -> None:
    """Write one element of a tensor, bypassing autograd; ``values`` is the whole tensor as a real vector."""
    place = np.unravel_index(index, tuple(tensor.shape)) if tensor.ndim else ()
    at = tuple(int(k) for k in place)
    number = complex(*values[2 * index:2 * index + 2]) if tensor.dtype.kind == "complex" else float(values[index])
    tensor.detach()[at if at else ...] = number


def write(tensor: Any, values: Vector) -> None:
    """Write all elements of a tensor, bypassing autograd."""
    for index in range(tensor.numel()):
        _set(tensor, index, values)


def outputs_of(function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the results that have gradients; if none has, those whose dtype could, as their differences are zero."""
    return _chosen(tensors_in(function(*inputs)))


def _chosen(found: tuple[Any, ...]) -> tuple[Any, ...]:
    for value in found:
        if not hasattr(value, "_key"):
            raise ArgumentTypeError("gradcheck", f"a result of type {type(value).__name__}",
                                    "the function returns tensors", "return tensors")
    differentiable = tuple([y for y in found if y.requires_grad])
    return differentiable or tuple([y for y in found if y.dtype.kind in ("float", "complex")])


def shaped_like(tensor: Any, values: Vector) -> Any:
    """Return a tensor of these values with the shape and dtype of another."""
    numbers = values.view(np.complex128) if tensor.dtype.kind == "complex" else values
    return tensor.detach().new_tensor(numbers.tolist(), dtype=tensor.dtype).reshape(tuple(tensor.shape))


# ------------------------------------------------------------------------------------------------------ the two sides


def evaluate(function: Callable[..., Any], inputs: tuple[Any, ...], places: list[tuple[Any, Any]]) -> list[Vector]:
    """Return the results that have gradients, as real vectors.

    Raises:
        InconstantFunction: Their shapes and dtypes are not those in ``places``.
    """
    outputs = outputs_of(function, inputs)
    for y, (shape, dtype) in zip(outputs, places, strict=True):
        if tuple(y.shape) != shape or y.dtype is not dtype:
            raise InconstantFunction("gradcheck", f"a result of shape {list(y.shape)} and {y.dtype.name} after one of "
                                     f"shape {list(shape)} and {dtype.name}",
                                     "results keep shape and dtype when the inputs are changed a little",
                                     "check at another point")
    return [reals(y) for y in outputs]


def numerical(function: Callable[..., Any], inputs: tuple[Any, ...], x: Any, eps: float) -> list[Vector]:
    """Return by output the real Jacobian with respect to one input, by differences; rows are output elements."""
    values, columns = reals(x), []
    places = [(tuple(y.shape), y.dtype) for y in outputs_of(function, inputs)]
    parts = 2 if x.dtype.kind == "complex" else 1
    for k in range(len(values)):
        sides = []
        for step in (eps, -eps):
            changed = values.copy()
            changed[k] += step
            _set(x, k // parts, changed)
            sides.append(evaluate(function, inputs, places))
        _set(x, k // parts, values)
        columns.append([(high - low) / (2 * eps) for high, low in zip(*sides, strict=True)])
    if not columns:
        return [np.zeros((count(y), 0)) for y in outputs_of(function, inputs)]
    return [np.stack(column, axis=1) for column in zip(*columns, strict=True)]


def gradients_for_seed(output: Any, wanted: Sequence[Any], seed: Vector) -> list[Vector]:
    """Return the gradients of one output for a seed, as real vectors; zeros for inputs that it does not depend on."""
    if not output.requires_grad:
        return [np.zeros(count(x)) for x in wanted]
    found = gradients(output, wanted, shaped_like(output, seed), retain_graph=True, allow_unused=True)
    return [np.zeros(count(x)) if g is None else reals(g) for x, g in zip(wanted, found, strict=True)]


def analytical(output: Any, wanted: Sequence[Any]) -> list[Vector]:
    """Return by input the real Jacobian of one output, by backward passes."""
    rows = []
    for k in range(count(output)):
        seed = np.zeros(count(output))
        seed[k] = 1
        rows.append(gradients_for_seed(output, wanted, seed))
    if not rows:
        return [np.zeros((0, count(x))) for x in wanted]
    return [np.stack(column) for column in zip(*rows, strict=True)]


# ------------------------------------------------------------------------------------------------------- forward mode


def places_of_outputs(function: Callable[..., Any], inputs: tuple[Any, ...]) -> list[int]:
    """Return the indices of the results that ``outputs_of`` selects."""
    found = tensors_in(function(*inputs))
    chosen = {id(y) for y in _chosen(found)}
    return [k for k, y in enumerate(found) if id(y) in chosen]


def _tangents(inputs: tuple[Any, ...], wanted: list[int], moving: dict[int, Any]) -> list[Any]:
    """Return a tangent for each input: for the wanted inputs, the given tangent or zeros; for others None."""
    return [(moving[k] if k in moving else zeros_like(x)) if k in wanted else None for k, x in enumerate(inputs)]


def zeros_like(tensor: Any) -> Any:
    """Return zeros of a tensor's shape, without history."""
    return tensor.detach().new_zeros(tuple(tensor.shape))


def pushed_once(function: Callable[..., Any], inputs: tuple[Any, ...], places: list[int],
                tangents: list[Any]) -> list[Any]:
    """Return the tangents of the results at ``places``; zeros where a result has none."""
    found = pushed_along(function, inputs, tangents)
    return [zeros_like(found[k].primal) if found[k].tangent is None else found[k].tangent for k in places]


def forward_jacobian(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[int], places: list[int],
           at: int) -> list[Vector]:
    """Return by output the real Jacobian with respect to one input, by forward mode.

    Args:
        function: Takes the inputs.
        inputs: Tensors and other values.
        wanted: Indices of the inputs that have tangents.
        places: Indices of the results to compare.
        at: Index of the input whose tangent is not zero.
    """
    x = inputs[at]
    columns = [[reals(y) for y in pushed_once(function, inputs, places, _tangents(
        inputs, wanted, {at: shaped_like(x, row)}))] for row in np.eye(count(x))]
    if not columns:
        return [np.zeros((count(y), 0)) for y in outputs_of(function, inputs)]
    return [np.stack(column, axis=1) for column in zip(*columns, strict=True)]


def batched_tangents(function: Callable[..., Any], inputs: tuple[Any, ...], places: list[int], at: int,
                    rows: list[Vector]) -> tuple[list[list[Vector]], list[Vector]]:
    """Return by output the tangents for several tangents of one input: computed one by one, and in one batch."""
    x = inputs[at]
    tangents = x.detach().new_zeros((len(rows), *x.shape))
    for k, row in enumerate(rows):
        tangents[k] = shaped_like(x, row)

    def along(tangent: Any) -> tuple[Any, ...]:
        return tuple(pushed_once(function, inputs, places, [tangent if k == at else None for k in range(len(inputs))]))

    single = [[reals(y) for y in along(tangent)] for tangent in tangents.unbind()]
    return ([list(ys) for ys in zip(*single, strict=True)],
            [reals(y).reshape(len(rows), -1) for y in BATCHED[0](along)(tangents)])
