"""Gradients against differences.

A complex number is a pair of real ones here. With PyTorch's convention, the gradient of an output element for the seed
1 holds the derivatives of its real part, for the seed 1j those of its imaginary part, with respect to the real (real
part) and imaginary (imaginary part) parts of the inputs. So one real matrix per input and output is compared.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, AutogradError

from ..execute.geometry import element_strides
from .differentiate import grad as gradients

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Vector = np.ndarray[Any, np.dtype[np.float64]]


class GradcheckError(AutogradError):
    """Gradients and differences disagree."""


@dataclass(frozen=True)
class _Settings:
    """How to compare; see ``gradcheck``."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    undefined: bool
    batched: bool
    dtypes: bool
    fast: bool


def _tensors(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _reals(tensor: Any) -> Vector:
    """A tensor's values as a real vector."""
    values = np.ascontiguousarray(np.array(tensor.detach()._values())).reshape(-1)
    if values.dtype.kind == "c":
        return values.astype(np.complex128).view(np.float64).copy()
    return values.astype(np.float64)


def _count(tensor: Any) -> int:
    """Real numbers in a tensor."""
    return int(tensor.numel()) * (2 if tensor.dtype.kind == "complex" else 1)


def _set(tensor: Any, index: int, values: Vector) -> None:
    """Write one element of a tensor, past autograd; ``values`` is the whole as a real vector."""
    place = np.unravel_index(index, tuple(tensor.shape)) if tensor.ndim else ()
    at = tuple(int(k) for k in place)
    number = complex(*values[2 * index:2 * index + 2]) if tensor.dtype.kind == "complex" else float(values[index])
    tensor.detach()[at if at else ...] = number


def _write(tensor: Any, values: Vector) -> None:
    for index in range(tensor.numel()):
        _set(tensor, index, values)


def _outputs(function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Results that have gradients; where none has, those that could, whose differences are then zero."""
    found = _tensors(function(*inputs))
    for value in found:
        if not hasattr(value, "_key"):
            raise ArgumentTypeError("gradcheck", f"a result of type {type(value).__name__}",
                                    "the function returns tensors", "return tensors")
    differentiable = tuple([y for y in found if y.requires_grad])
    return differentiable or tuple([y for y in found if y.dtype.kind in ("float", "complex")])


def _like(tensor: Any, values: Vector) -> Any:
    """A tensor of these values with the shape and dtype of another."""
    numbers = values.view(np.complex128) if tensor.dtype.kind == "complex" else values
    return tensor.detach().new_tensor(numbers.reshape(tuple(tensor.shape)).tolist(), dtype=tensor.dtype)


# ------------------------------------------------------------------------------------------------------ the two sides


def _evaluate(function: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Vector]:
    return [_reals(y) for y in _outputs(function, inputs)]


def _numerical(function: Callable[..., Any], inputs: tuple[Any, ...], x: Any, eps: float) -> list[Vector]:
    """By output, the real Jacobian with respect to one input: rows are outputs."""
    values, columns = _reals(x), []
    parts = 2 if x.dtype.kind == "complex" else 1
    for k in range(len(values)):
        sides = []
        for step in (eps, -eps):
            changed = values.copy()
            changed[k] += step
            _set(x, k // parts, changed)
            sides.append(_evaluate(function, inputs))
        _set(x, k // parts, values)
        columns.append([(high - low) / (2 * eps) for high, low in zip(*sides, strict=True)])
    if not columns:
        return [np.zeros((_count(y), 0)) for y in _outputs(function, inputs)]
    return [np.stack(column, axis=1) for column in zip(*columns, strict=True)]


def _seeded(output: Any, wanted: Sequence[Any], seed: Vector) -> list[Vector]:
    """Gradients of one output for a seed, as real vectors; zeros for inputs that it does not depend on."""
    if not output.requires_grad:
        return [np.zeros(_count(x)) for x in wanted]
    found = gradients(output, wanted, _like(output, seed), retain_graph=True, allow_unused=True)
    return [np.zeros(_count(x)) if g is None else _reals(g) for x, g in zip(wanted, found, strict=True)]


def _analytical(output: Any, wanted: Sequence[Any]) -> list[Vector]:
    """By input, the real Jacobian of one output by backward passes."""
    rows = []
    for k in range(_count(output)):
        seed = np.zeros(_count(output))
        seed[k] = 1
        rows.append(_seeded(output, wanted, seed))
    if not rows:
        return [np.zeros((0, _count(x))) for x in wanted]
    return [np.stack(column) for column in zip(*rows, strict=True)]


# ----------------------------------------------------------------------------------------------------------- checking


def _fail(given: str, rule: str) -> GradcheckError:
    return GradcheckError("gradcheck", given, rule, "look at the backward of the function, its inputs' precision, and "
                          "points where it has no derivative")


def _check_inputs(inputs: tuple[Any, ...]) -> list[Any]:
    wanted = [x for x in inputs if hasattr(x, "_key") and x.requires_grad]
    if not wanted:
        raise ArgumentError("gradcheck", "no input that requires grad", "at least one input requires grad",
                            "set requires_grad=True")
    for k, x in enumerate(wanted):
        if x.dtype.name not in ("float64", "complex128"):
            warnings.warn(f"gradcheck: input {k} has dtype {x.dtype.name}; differences need float64 or complex128",
                          stacklevel=4)
        if x.numel() and any(s == 0 and n > 1 for s, n in zip(element_strides(x._array), x.shape, strict=True)):
            raise ArgumentError("gradcheck", f"input {k} of shape {list(x.shape)} with elements that share memory",
                                "elements are changed one by one", "clone() it")
    return wanted


def _compare(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any], settings: _Settings) -> None:
    numerical = [_numerical(function, inputs, x, settings.eps) for x in wanted]
    outputs = _outputs(function, inputs)  # after the inputs were changed for the last time
    for j, output in enumerate(outputs):
        analytical = _analytical(output, wanted)
        for i, matrix in enumerate(analytical):
            expected = numerical[i][j]
            if not np.allclose(matrix, expected, settings.rtol, settings.atol):
                raise _fail(f"a Jacobian of output {j} with respect to input {i}\nby differences:\n{expected}\n"
                            f"by backward:\n{matrix}\n", "gradients agree with differences")
        _check_repeated(_analytical(output, wanted), analytical, j, settings)


def _check_repeated(again: list[Vector], before: list[Vector], j: int, settings: _Settings) -> None:
    for one, two in zip(again, before, strict=True):
        if one.size and not np.max(np.abs(one - two)) <= settings.nondet_tol:
            raise _fail(f"gradients of output {j} that differ by {np.max(np.abs(one - two))} in two backward passes",
                        "the same backward gives the same gradients")


def _compare_projected(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any],
                       settings: _Settings) -> None:
    """One random direction of every input and output instead of all."""
    random = np.random.default_rng(0)
    outputs = _outputs(function, inputs)
    seeds = [random.uniform(0.1, 1, _count(y)) for y in outputs]
    rows = [_seeded(y, wanted, seed) for y, seed in zip(outputs, seeds, strict=True)]
    for j, (again, before) in enumerate(
            zip([_seeded(y, wanted, s) for y, s in zip(outputs, seeds, strict=True)], rows, strict=True)):
        _check_repeated(again, before, j, settings)
    for i, x in enumerate(wanted):
        direction = random.uniform(0.1, 1, _count(x))
        direction /= math.sqrt(float(direction @ direction)) or 1
        values, sides = _reals(x), []
        for step in (settings.eps, -settings.eps):
            _write(x, values + step * direction)
            sides.append(_evaluate(function, inputs))
        _write(x, values)
        for j, (high, low) in enumerate(zip(*sides, strict=True)):
            expected = float(seeds[j] @ (high - low)) / (2 * settings.eps)
            actual = float(rows[j][i] @ direction)
            bound = settings.atol * float(seeds[j].sum() * direction.sum()) + settings.rtol * abs(expected)
            if not abs(actual - expected) <= bound:
                raise _fail(f"a derivative of output {j} along a direction of input {i}: {expected} by differences, "
                            f"{actual} by backward", "gradients agree with differences")


def _check_undefined(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any]) -> None:
    """Where no gradient arrives, or zeros do, nothing or zeros go on."""
    outputs = [y for y in _outputs(function, inputs) if y.requires_grad]
    for chosen in [outputs, *[[y] for y in outputs]] if len(outputs) > 1 else [outputs]:
        if not chosen:
            continue
        zeros = [y.detach().new_zeros(y.shape) for y in chosen]
        for g in gradients(chosen, wanted, zeros, retain_graph=True, allow_unused=True):
            if g is not None and np.any(_reals(g) != 0):
                raise _fail("a gradient that is not zero for output gradients of zero",
                            "backward is linear in the gradients it is given")


def _check_batched(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any]) -> None:
    """Batched output gradients give the gradients of each."""
    random = np.random.default_rng(1)
    for output in [y for y in _outputs(function, inputs) if y.requires_grad]:
        seeds = [random.standard_normal(_count(output)) for _ in range(2)]
        rows = [_seeded(output, wanted, seed) for seed in seeds]
        stacked = output.detach().new_zeros((2, *output.shape))
        for k, seed in enumerate(seeds):
            stacked[k] = _like(output, seed)
        found = gradients(output, wanted, stacked, retain_graph=True, allow_unused=True, is_grads_batched=True)
        for i, g in enumerate(found):
            if g is not None and not np.allclose(_reals(g).reshape(2, -1), [row[i] for row in rows]):
                raise _fail(f"batched gradients of input {i}", "batched gradients are those of each entry")


def _check_dtypes(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any]) -> None:
    for output in [y for y in _outputs(function, inputs) if y.requires_grad]:
        seed = output.detach().new_ones(output.shape)
        for x, g in zip(wanted, gradients(output, wanted, seed, retain_graph=True, allow_unused=True), strict=True):
            if g is not None and (g.dtype is not x.dtype or g.shape != x.shape):
                raise _fail(f"a gradient of dtype {g.dtype.name} and shape {list(g.shape)} for an input of "
                            f"{x.dtype.name} and {list(x.shape)}", "a gradient has its input's dtype and shape")


def _run(function: Callable[..., Any], inputs: tuple[Any, ...], settings: _Settings) -> None:
    wanted = _check_inputs(inputs)
    (_compare_projected if settings.fast else _compare)(function, inputs, wanted, settings)
    if settings.undefined:
        _check_undefined(function, inputs, wanted)
    if settings.batched:
        _check_batched(function, inputs, wanted)
    if settings.dtypes:
        _check_dtypes(function, inputs, wanted)


def gradcheck(func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
              raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
              check_grad_dtypes: bool = False, check_batched_grad: bool = False,
              check_batched_forward_grad: bool = False, check_forward_ad: bool = False,
              check_backward_ad: bool = True, fast_mode: bool = False, masked: bool | None = None) -> bool:
    """Compare gradients with central differences.

    Args:
        func: Takes the inputs and returns a tensor or several.
        inputs: A tensor or several, of float64 or complex128 where they require grad.
        eps: Step of the differences.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        raise_exception: Whether to raise, or to return False.
        nondet_tol: How much two backward passes may differ.
        check_undefined_grad: Whether to check that zero gradients give zero gradients.
        check_grad_dtypes: Whether to check dtypes and shapes of gradients.
        check_batched_grad: Whether to check batched gradients.
        check_batched_forward_grad: Not available.
        check_forward_ad: Not available.
        check_backward_ad: Whether to check backward at all.
        fast_mode: Compare along one random direction instead of element by element.
        masked: For sparse tensors, which there are none of.

    Returns:
        Whether they agree.

    Raises:
        GradcheckError: They do not.
        ArgumentError: No input requires grad, or what is asked for is not available.
    """
    if check_forward_ad or check_batched_forward_grad:
        raise ArgumentError("gradcheck", "check_forward_ad or check_batched_forward_grad",
                            "gradients of backward mode are checked", "leave them out")
    settings = _Settings(eps, atol, rtol, nondet_tol, check_undefined_grad, check_batched_grad, check_grad_dtypes,
                         fast_mode)
    if not check_backward_ad:
        return True
    try:
        _run(func, _tensors(inputs), settings)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6,
                  atol: float = 1e-5, rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False,
                  raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
                  check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_fwd_over_rev: bool = False,
                  check_rev_over_rev: bool = True, fast_mode: bool = False, masked: bool = False) -> bool:
    """Compare gradients of gradients with central differences; arguments as in ``gradcheck``.

    Args:
        func: Takes the inputs and returns a tensor or several.
        inputs: A tensor or several.
        grad_outputs: Gradients to start from; random ones if not given.
        eps: Step of the differences.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        gen_non_contig_grad_outputs: Whether the random ones lie in memory with gaps.
        raise_exception: Whether to raise, or to return False.
        nondet_tol: How much two backward passes may differ.
        check_undefined_grad: Whether to check that zero gradients give zero gradients.
        check_grad_dtypes: Whether to check dtypes and shapes of gradients.
        check_batched_grad: Whether to check batched gradients.
        check_fwd_over_rev: Not available.
        check_rev_over_rev: Whether to check at all.
        fast_mode: Compare along one random direction.
        masked: For sparse tensors, which there are none of.

    Raises:
        GradcheckError: They do not agree.
    """
    items = _tensors(inputs)
    if grad_outputs is None:
        seeds = _random_seeds([y for y in _outputs(func, items) if y.requires_grad], gen_non_contig_grad_outputs)
    else:
        seeds = _tensors(grad_outputs)

    def slope(*arguments: Any) -> tuple[Any, ...]:
        given, weights = arguments[:len(items)], arguments[len(items):]
        wanted = [x for x in given if hasattr(x, "_key") and x.requires_grad]
        outputs = [y for y in _outputs(func, given) if y.requires_grad]
        found = gradients(outputs, wanted, list(weights), create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradcheck(slope, (*items, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
                     check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
                     check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode)


def _random_seeds(outputs: list[Any], gaps: bool) -> tuple[Any, ...]:
    random = np.random.default_rng(2)
    seeds = []
    for output in outputs:
        seed = _like(output, random.standard_normal(_count(output)))
        if gaps and seed.ndim:
            wide = seed.new_zeros((*seed.shape, 2))
            wide[..., 0] = seed
            seed = wide.select(-1, 0)
        seeds.append(seed.requires_grad_())
    return tuple(seeds)
