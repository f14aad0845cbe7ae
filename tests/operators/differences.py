"""Tools of tests of derivatives: arguments as tensors, calls of records, gradients against central differences.

Arguments are NumPy arrays, numbers and lists of them; tests differentiate functions in the arrays of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket_operators as torch
from tensocket_core.device import open_device
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import OPERATORS


def is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64


def leaves(args: Any) -> list[np.ndarray]:
    """Float arrays among arguments, in order."""
    found: list[np.ndarray] = []
    for arg in args:
        found += leaves(arg) if isinstance(arg, list) else [arg] if is_float(arg) else []
    return found


def placed(args: Any, tensors: Any) -> list[Any]:
    """Arguments with float arrays replaced by the next of ``tensors``, others by constants."""
    result: list[Any] = []
    for arg in args:
        if isinstance(arg, list):
            result.append(placed(arg, tensors))
        elif is_float(arg):
            result.append(next(tensors))
        else:
            result.append(torch.tensor(arg) if isinstance(arg, np.ndarray) else arg)
    return result


def record_function(name: str) -> Callable[..., Any]:
    """A call of a record; one in place works on a copy."""
    operator = OPERATORS[name]

    def run(*args: Any) -> Any:
        if name == "convert":
            args = (args[0], open_device(args[1]), args[2])
        if operator.kind == "inplace":
            args = (args[0] * 1, *args[1:])
        return call(operator, *args)

    return run


def floats_of(result: Any, phase: float = 0.0) -> list[tuple[Any, np.ndarray]]:
    """The tensors of floats among results, and a weight for each of their elements, all different."""
    if isinstance(result, (tuple, list)):
        return [pair for k, part in enumerate(result) for pair in floats_of(part, phase + k)]
    if not result.dtype.is_floating_point:
        return []
    return [(result, np.cos(np.arange(result.numel()) + phase).reshape(tuple(result.shape)))]


def weighted(result: Any) -> Any:
    """One number of a result, as a tensor: the sum of its elements, each with another weight."""
    return sum((x * torch.tensor(w, dtype=torch.float64, device=x.device)).sum() for x, w in floats_of(result))


def number(result: Any, phase: float = 0.0) -> float:
    """The number that ``weighted`` computes, on the host, without further operators."""
    return float(sum(np.vdot(w, np.array(x.tolist())) for x, w in floats_of(result, phase)))


def gradients_of(result: Any, inputs: list[Any], phase: float = 0.0, create_graph: bool = False) -> Any:
    """Gradients of ``number(result, phase)``."""
    roots = [(x, w) for x, w in floats_of(result, phase) if x.requires_grad]
    weights = [torch.tensor(w, dtype=x.dtype, device=x.device) for x, w in roots]
    return torch.autograd.grad([x for x, _ in roots], inputs, weights, create_graph=create_graph,
                               materialize_grads=True)


def direction(shape: tuple[int, ...]) -> np.ndarray:
    """A unit vector whose elements are all distinct and of one magnitude, with both signs."""
    places = np.arange(int(np.prod(shape)))
    vector = (0.5 + places * 0.6180339887 % 1) * np.where(places % 3 == 1, -1.0, 1.0)
    return (vector / np.linalg.norm(vector)).reshape(shape)


def differences(value: Callable[[list[np.ndarray]], float], points: list[np.ndarray]) -> list[float]:
    """Central differences of a number along a direction of every array.

    Two evaluations for each array instead of two for each element. As the directions and the weights of results have
    nothing to do with the functions, a wrong gradient has the right product with them by accident only.
    """
    slopes = []
    for k, point in enumerate(points):
        step = 1e-5 * direction(point.shape)
        high, low = (value([*points[:k], point + sign * step, *points[k + 1:]]) for sign in (1, -1))
        slopes.append((high - low) / 2e-5)
    return slopes


def agree(gradients: Any, slopes: list[float], rtol: float, atol: float) -> None:
    for k, (gradient, slope) in enumerate(zip(gradients, slopes, strict=True)):
        found = np.vdot(np.array(gradient.tolist()), direction(tuple(gradient.shape)))
        np.testing.assert_allclose(found, slope, rtol, atol, err_msg=f"gradient {k}: {gradient.tolist()}")


def tensors_of(arrays: list[np.ndarray], requires_grad: bool) -> list[Any]:
    return [torch.tensor(a, dtype=torch.float64, requires_grad=requires_grad) for a in arrays]


def check_gradient(function: Callable[..., Any], args: Any) -> None:
    points = leaves(args)

    def value(arrays: list[np.ndarray]) -> float:
        with torch.no_grad():
            return number(function(*placed(args, iter(tensors_of(arrays, False)))))

    inputs = tensors_of(points, True)
    gradients = gradients_of(function(*placed(args, iter(inputs))), inputs)
    for gradient, point in zip(gradients, points, strict=True):
        assert gradient.dtype is torch.float64
        assert tuple(gradient.shape) == point.shape
    agree(gradients, differences(value, points), 1e-7, 1e-8)


def check_second_gradient(function: Callable[..., Any], args: Any) -> None:
    points = leaves(args)

    def first(inputs: list[Any], create_graph: bool) -> Any:
        return gradients_of(function(*placed(args, iter(inputs))), inputs, create_graph=create_graph)

    inputs = tensors_of(points, True)
    gradients = first(inputs, True)
    expected = differences(lambda arrays: number(first(tensors_of(arrays, True), False), 0.5), points)
    if not any(gradient.requires_grad for gradient in gradients):  # linear: the gradient is a constant
        assert all(abs(slope) < 1e-9 for slope in expected)
        return
    agree(gradients_of(gradients, inputs, 0.5), expected, 1e-6, 1e-7)
