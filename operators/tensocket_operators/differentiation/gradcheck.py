"""Checks of gradients against differences, which compare the real matrices of ``jacobians``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tensocket_core.autograd.differentiate import grad as gradients
from tensocket_core.formats import strided
from tensocket_core.geometry import element_strides
from tensocket_core.recording import SlowPathReason
from tensocket_plugins.contract.errors import ArgumentError, AutogradError

from .delayed import UndefinedGrad
from .jacobians import (
    Vector,
    analytical,
    batched_tangents,
    count,
    evaluate,
    forward_jacobian,
    gradients_for_seed,
    numerical,
    outputs_of,
    places_of_outputs,
    pushed_once,
    reals,
    shaped_like,
    tensors_in,
    write,
    zeros_like,
)

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


#: Functions that turn a function of sparse tensors and its inputs into those of dense tensors; the package of sparse
#: tensors fills it.
SPARSE: Final[list[Callable[..., tuple[Callable[..., Any], tuple[Any, ...]]]]] = []


class GradcheckError(AutogradError):
    """Error: gradients and differences disagree."""


@dataclass(frozen=True)
class _Settings:
    """Settings of a comparison; see ``gradcheck``."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    undefined: bool
    batched: bool
    dtypes: bool
    fast: bool
    backward: bool
    forward: bool
    batched_forward: bool


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
    differences = [numerical(function, inputs, x, settings.eps) for x in wanted]
    outputs = outputs_of(function, inputs)  # after the last change of the inputs
    for j, output in enumerate(outputs):
        backward = analytical(output, wanted)
        for i, matrix in enumerate(backward):
            expected = differences[i][j]
            if not np.allclose(matrix, expected, settings.rtol, settings.atol):
                raise _fail(f"a Jacobian of output {j} with respect to input {i}\nby differences:\n{expected}\n"
                            f"by backward:\n{matrix}\n", "gradients agree with differences")
        _check_repeated(analytical(output, wanted), backward, j, settings)


def _check_repeated(again: list[Vector], before: list[Vector], j: int, settings: _Settings) -> None:
    for one, two in zip(again, before, strict=True):
        if one.size and not np.max(np.abs(one - two)) <= settings.nondet_tol:
            raise _fail(f"gradients of output {j} that differ by {np.max(np.abs(one - two))} in two backward passes",
                        "the same backward gives the same gradients")


def _compare_projected(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any],
                       settings: _Settings) -> None:
    """Compare gradients and differences along one random direction per input and output."""
    random = np.random.default_rng(0)
    outputs = outputs_of(function, inputs)
    seeds = [random.uniform(0.1, 1, count(y)) for y in outputs]
    rows = [gradients_for_seed(y, wanted, seed) for y, seed in zip(outputs, seeds, strict=True)]
    for j, (again, before) in enumerate(
            zip([gradients_for_seed(y, wanted, s) for y, s in zip(outputs, seeds, strict=True)], rows, strict=True)):
        _check_repeated(again, before, j, settings)
    for i, x in enumerate(wanted):
        direction = random.uniform(0.1, 1, count(x))
        direction /= math.sqrt(float(direction @ direction)) or 1
        values, sides = reals(x), []
        places = [(tuple(y.shape), y.dtype) for y in outputs]
        for step in (settings.eps, -settings.eps):
            write(x, values + step * direction)
            sides.append(evaluate(function, inputs, places))
        write(x, values)
        for j, (high, low) in enumerate(zip(*sides, strict=True)):
            expected = float(seeds[j] @ (high - low)) / (2 * settings.eps)
            actual = float(rows[j][i] @ direction)
            bound = settings.atol * float(seeds[j].sum() * direction.sum()) + settings.rtol * abs(expected)
            if not abs(actual - expected) <= bound:
                raise _fail(f"a derivative of output {j} along a direction of input {i}: {expected} by differences, "
                            f"{actual} by backward", "gradients agree with differences")


def _check_undefined(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any]) -> None:
    """Check that an undefined or zero output gradient yields undefined or zero input gradients."""
    outputs = [y for y in outputs_of(function, inputs) if y.requires_grad]
    nothing = [UndefinedGrad()(y) for y in outputs]
    chosen = [nothing, *[[*outputs[:k], nothing[k], *outputs[k + 1:]] for k in range(len(outputs)) if len(outputs) > 1]]
    for ends in chosen if outputs else []:
        zeros = [y.detach().new_zeros(y.shape) for y in ends]
        try:
            found = gradients(ends, wanted, zeros, retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            warnings.warn("Backwards compatibility: New undefined gradient support checking feature is enabled by "
                          "default; pass check_undefined_grad=False to leave it out", UserWarning, stacklevel=5)
            raise _fail(f"a backward that fails where no gradient arrives ({error})",
                        "Expected backward function to handle undefined output grads") from error
        for g in found:
            if g is not None and np.any(reals(g) != 0):
                raise _fail("a gradient that is not zero for output gradients of zero: Expected all input grads to be "
                            "undefined or zero when all output grads are undefined or zero",
                            "backward is linear in the gradients it is given")


def _check_batched(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any]) -> None:
    """Check that batched output gradients yield the gradients of each."""
    random = np.random.default_rng(1)
    for output in [y for y in outputs_of(function, inputs) if y.requires_grad]:
        seeds = [random.standard_normal(count(output)) for _ in range(2)]
        rows = [gradients_for_seed(output, wanted, seed) for seed in seeds]
        stacked = output.detach().new_zeros((2, *output.shape))
        for k, seed in enumerate(seeds):
            stacked[k] = shaped_like(output, seed)
        found = gradients(output, wanted, stacked, retain_graph=True, allow_unused=True, is_grads_batched=True)
        for i, g in enumerate(found):
            if g is not None and not np.allclose(reals(g).reshape(2, -1), [row[i] for row in rows]):
                raise _fail(f"batched gradients of input {i}", "batched gradients are those of each entry")


def _check_dtypes(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any]) -> None:
    for output in [y for y in outputs_of(function, inputs) if y.requires_grad]:
        seed = output.detach().new_ones(output.shape)
        for x, g in zip(wanted, gradients(output, wanted, seed, retain_graph=True, allow_unused=True), strict=True):
            if g is not None and (g.dtype is not x.dtype or g.shape != x.shape):
                raise _fail(f"a gradient of dtype {g.dtype.name} and shape {list(g.shape)} for an input of "
                            f"{x.dtype.name} and {list(x.shape)}", "a gradient has its input's dtype and shape")


def _check_forward(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any],
                   settings: _Settings) -> None:
    """Check that tangents agree with differences."""
    places = places_of_outputs(function, inputs)
    moving = [k for k, x in enumerate(inputs) if any(x is y for y in wanted)]
    for i, at in enumerate(moving):
        expected = numerical(function, inputs, inputs[at], settings.eps)
        found = forward_jacobian(function, inputs, moving, places, at)
        for j, (matrix, tangents) in enumerate(zip(expected, found, strict=True)):
            if not np.allclose(tangents, matrix, settings.rtol, settings.atol):
                raise _fail(f"a Jacobian of output {j} with respect to input {i}\nby differences:\n{matrix}\n"
                            f"by forward mode:\n{tangents}\n", "tangents agree with differences")
    if settings.undefined:
        _check_undefined_forward(function, inputs, moving, places)
    if settings.batched_forward:
        _check_batched_forward(function, inputs, moving, places)


def _check_undefined_forward(function: Callable[..., Any], inputs: tuple[Any, ...], moving: list[int],
                             places: list[int]) -> None:
    """Check that an input without a tangent is equivalent to one whose tangent is zero."""
    random = np.random.default_rng(4)
    given = {k: shaped_like(inputs[k], random.uniform(0.1, 1, count(inputs[k]))) for k in moving}
    for at in moving:
        tangents = [given.get(k) for k in range(len(inputs))]
        found = []
        for tangent in (zeros_like(inputs[at]), None):
            tangents[at] = tangent
            if any(t is not None for t in tangents):
                found.append(pushed_once(function, inputs, places, tangents))
        for j, (zero, none) in enumerate(zip(*found, strict=True) if len(found) > 1 else ()):
            if not np.allclose(reals(zero), reals(none)):
                raise _fail(f"tangents of output {j} that differ with a zero tangent of input {at} and with none",
                            "an input without tangent is like one whose tangent is zero")


def _check_batched_forward(function: Callable[..., Any], inputs: tuple[Any, ...], moving: list[int],
                           places: list[int]) -> None:
    """Check that batched tangents yield the tangents of each."""
    random = np.random.default_rng(3)
    for at in moving:
        rows = [random.standard_normal(count(inputs[at])) for _ in range(2)]
        single, batch = batched_tangents(function, inputs, places, at, rows)
        for j, (tangents, together) in enumerate(zip(single, batch, strict=True)):
            if not np.allclose(together, tangents):
                raise _fail(f"batched tangents of output {j}", "batched tangents are those of each entry")


def _run(function: Callable[..., Any], inputs: tuple[Any, ...], settings: _Settings) -> None:
    wanted = _check_inputs(inputs)
    rules_run = SlowPathReason()  # their replays, which begin after some passes, may round otherwise
    try:
        _check_modes(function, inputs, wanted, settings)
    finally:
        del rules_run


def _check_modes(function: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[Any], settings: _Settings) -> None:
    if settings.backward:
        (_compare_projected if settings.fast else _compare)(function, inputs, wanted, settings)
    if settings.forward:
        _check_forward(function, inputs, wanted, settings)
    if not settings.backward:
        return
    if settings.batched:
        _check_batched(function, inputs, wanted)
    if settings.undefined:
        _check_undefined(function, inputs, wanted)
    if settings.dtypes:
        _check_dtypes(function, inputs, wanted)


class GradcheckRequestError(ArgumentError, AssertionError):
    """Error: the requested checks contradict each other. PyTorch raises AssertionError for them."""


def _check_request(backward: bool, forward: bool, batched: bool, batched_forward: bool) -> None:
    if not (backward or forward):
        raise GradcheckRequestError("gradcheck", "neither check_forward_ad nor check_backward_ad",
                                    "one of the modes is checked", "pass True for one of them")
    for name, requested, mode, there in (("check_batched_grad", batched, "check_backward_ad", backward),
                                     ("check_batched_forward_grad", batched_forward, "check_forward_ad", forward)):
        if requested and not there:
            raise GradcheckRequestError("gradcheck", f"{name} without {mode}",
                                        "batches are checked in modes that are checked", f"pass {mode}=True")


def gradcheck(func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
              raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
              check_grad_dtypes: bool = False, check_batched_grad: bool = False,
              check_batched_forward_grad: bool = False, check_forward_ad: bool = False,
              check_backward_ad: bool = True, fast_mode: bool = False, masked: bool | None = None) -> bool:
    """Compare gradients with central differences.

    Args:
        func: Takes the inputs and returns a tensor or several.
        inputs: A tensor or several, of float64 or complex128 if they require grad.
        eps: Step of the differences.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        raise_exception: Whether to raise, or to return False.
        nondet_tol: How much two backward passes may differ.
        check_undefined_grad: Whether to check that zero gradients give zero gradients.
        check_grad_dtypes: Whether to check dtypes and shapes of gradients.
        check_batched_grad: Whether to check batched gradients.
        check_batched_forward_grad: Whether to check batched tangents.
        check_forward_ad: Whether to compare the tangents of forward mode, element by element.
        check_backward_ad: Whether to check backward at all.
        fast_mode: Whether to compare along one random direction instead of element by element.
        masked: Whether only stored elements of sparse inputs vary; by default all do.

    Returns:
        Whether gradients and differences agree.

    Raises:
        GradcheckError: They do not agree.
        ArgumentError: No input requires grad.
        GradcheckRequestError: Neither mode is checked, or batches are to be checked in a mode that is not.
        InconstantFunction: Shapes or dtypes of results depend on the values of the inputs.
    """
    _check_request(check_backward_ad, check_forward_ad, check_batched_grad, check_batched_forward_grad)
    given = tensors_in(inputs)
    if any(getattr(x, "layout", strided) is not strided for x in given):
        func, given = SPARSE[0](func, given, bool(masked))
        check_batched_grad = False  # positions are not batched
    settings = _Settings(eps, atol, rtol, nondet_tol, check_undefined_grad, check_batched_grad, check_grad_dtypes,
                         fast_mode, check_backward_ad, check_forward_ad, check_batched_forward_grad)
    try:
        _run(func, given, settings)
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
    """Compare gradients of gradients with central differences; other arguments are those of ``gradcheck``.

    Args:
        func: Takes the inputs and returns a tensor or several.
        inputs: A tensor or several.
        grad_outputs: Gradients of the outputs; by default random.
        eps: Step of the differences.
        atol: Absolute tolerance.
        rtol: Relative tolerance.
        gen_non_contig_grad_outputs: Whether the random gradients are not contiguous.
        raise_exception: Whether to raise, or to return False.
        nondet_tol: How much two backward passes may differ.
        check_undefined_grad: Whether to check that zero gradients give zero gradients.
        check_grad_dtypes: Whether to check dtypes and shapes of gradients.
        check_batched_grad: Whether to check batched gradients.
        check_fwd_over_rev: Whether to compare the tangents of gradients.
        check_rev_over_rev: Whether to compare the gradients of gradients.
        fast_mode: Whether to compare along one random direction.
        masked: As in ``gradcheck``.

    Raises:
        GradcheckError: They do not agree.
    """
    items = tensors_in(inputs)
    if grad_outputs is None:
        seeds = _random_seeds([y for y in outputs_of(func, items) if y.requires_grad], gen_non_contig_grad_outputs)
    else:
        seeds = tensors_in(grad_outputs)

    recorded = [hasattr(x, "_key") and x.requires_grad for x in items]

    def slope(*arguments: Any) -> tuple[Any, ...]:
        given, weights = arguments[:len(items)], arguments[len(items):]
        wanted = [x for x, requested in zip(given, recorded, strict=True) if requested]
        for x in wanted:
            x.requires_grad_()  # forward mode detaches its inputs
        outputs = [y for y in outputs_of(func, given) if y.requires_grad]
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
        seed = shaped_like(output, random.standard_normal(count(output)))
        if gaps and seed.ndim:
            wide = seed.new_zeros((*seed.shape, 2))
            wide[..., 0] = seed
            seed = wide.select(-1, 0)
        seeds.append(seed.requires_grad_())
    return tuple(seeds)
