"""``opcheck``: checks that the registrations of an operator agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_core.dispatch.protocol import tensors_in
from tensocket_core.dispatch.schema import bound
from tensocket_core.keys import AUTOGRAD
from tensocket_core.pytree import tree_flatten, tree_map
from tensocket_plugins.contract.errors import ArgumentError, AutogradError, TensocketError, UnsupportedOperator

from ..differentiation.gradcheck import gradcheck
from .custom import shares_memory
from .libraries import find_operator
from .operators import LibraryOperator


class OpCheckError(AutogradError):
    """An error for registrations of an operator that contradict each other."""


def _fail(operator: LibraryOperator, given: str, rule: str, advice: str) -> OpCheckError:
    return OpCheckError(operator.name, given, rule, advice)


def _fresh(value: Any) -> Any:
    """Return an argument with memory of its own."""
    return value.detach().clone().requires_grad_(value.requires_grad) if hasattr(value, "_key") else value


def _same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(np.asarray(a.tolist()), np.asarray(b.tolist()), equal_nan=a.dtype.kind == "float"))


def _check_schema(operator: LibraryOperator, args: tuple[Any, ...]) -> None:
    """Check that only arguments that the schema marks change, and that results are new and match the schema."""
    given, before = tree_map(_fresh, args), tree_map(_fresh, args)
    before, plain = (tree_map(lambda x: x.detach() if hasattr(x, "_key") else x, tree) for tree in (before, given))
    result = operator(*plain)
    for parameter, old, new in zip(operator.schema.parameters, before, plain, strict=True):
        if parameter.mutated:
            continue
        for x, y in zip(tensors_in((old,)), tensors_in((new,)), strict=True):
            if not _same(x, y):
                raise _fail(operator, f"argument {parameter.name!r} changed",
                            "only what the schema marks is written to",
                            "mark it in the schema (mutates_args), or do not write to it")
    expected = operator.schema.results
    found = result if isinstance(result, tuple) else () if result is None else (result,)
    if len(found) != len(expected) and expected != ("Tensor[]",):
        raise _fail(operator, f"{len(found)} results", f"the schema returns {operator.schema.returns}",
                    "return as many, or change the schema")
    for kind, value in zip(expected, found, strict=False):
        if (kind == "Tensor") != hasattr(value, "_key") and kind in ("Tensor", "int", "float", "bool"):
            raise _fail(operator, f"a result of type {type(value).__name__}",
                        f"the schema returns {operator.schema.returns}", "return that type, or change the schema")
    inputs = list(tensors_in(plain))
    if not operator.mutated and any(shares_memory(x, y) for x in tensors_in((result,)) for y in inputs):
        raise _fail(operator, "a result that shares memory with an argument", "results are new tensors", "clone() it")


def _check_autograd(operator: LibraryOperator, args: tuple[Any, ...]) -> str | None:
    """Check that a gradient is registered if an argument requires one."""
    if operator.mutated or not any(x._key & AUTOGRAD for x in tensors_in(args)):
        return "SKIPPED"
    layered = any(place.startswith("Autograd") for place in operator.overrides)
    if operator.rule is None and operator.body is None and not layered:
        raise _fail(operator, "arguments that require grad", "a gradient is registered",
                    "use register_autograd, or pass arguments that require no grad")
    return None


def _check_fake(operator: LibraryOperator, args: tuple[Any, ...]) -> None:
    """Check that results on meta have the shapes, strides and dtypes of real ones."""
    plain = tree_map(lambda x: x.detach().clone() if hasattr(x, "_key") else x, args)
    real, real_spec = tree_flatten(operator(*plain))
    try:
        fake, spec = tree_flatten(operator(*tree_map(lambda x: x.to("meta") if hasattr(x, "_key") else x, plain)))
    except UnsupportedOperator as error:
        raise _fail(operator, str(error), "shapes of results are known on meta", "use register_fake") from error
    if spec != real_spec:
        raise _fail(operator, f"results {spec.brief()} on meta instead of {real_spec.brief()}",
                    "results have one structure",
                    "correct the function registered with register_fake")
    for x, y in zip(real, fake, strict=True):
        if hasattr(x, "_key") and (x.shape, x.dtype, x.stride()) != (y.shape, y.dtype, y.stride()):
            raise _fail(operator, f"shape {list(y.shape)}, dtype {y.dtype.name}, strides {y.stride()} on meta instead "
                        f"of {list(x.shape)}, {x.dtype.name}, {x.stride()}", "meta tells the truth",
                        "correct the function registered with register_fake")


def _check_gradient(operator: LibraryOperator, args: tuple[Any, ...]) -> str | None:
    """Check gradients against finite differences, for float64 arguments that require grad."""
    if operator.mutated or not any(x._key & AUTOGRAD and x.dtype.name == "float64" for x in tensors_in(args)):
        return "SKIPPED"
    fresh = tree_map(_fresh, args)
    inputs = [x for x in tensors_in(fresh) if x._key & AUTOGRAD]
    gradcheck(lambda *ignored: operator(*fresh), inputs)
    return None


_CHECKS: Final[dict[str, Callable[[LibraryOperator, tuple[Any, ...]], str | None]]] = {
    "test_schema": _check_schema, "test_autograd_registration": _check_autograd, "test_faketensor": _check_fake,
    "test_gradcheck": _check_gradient,
}  # fmt: skip


def opcheck(op: Any, args: Any, kwargs: Any = None, *, test_utils: Any = tuple(_CHECKS),
            raise_exception: bool = True) -> dict[str, Any]:
    """Check an operator of a library on a sample.

    Args:
        op: The operator.
        args: Positional arguments.
        kwargs: Keyword arguments.
        test_utils: Names of checks: ``test_schema``: mutated arguments and results. ``test_autograd_registration``:
            a gradient is registered. ``test_faketensor``: results on meta. ``test_gradcheck``: gradients against
            finite differences, for float64.
        raise_exception: Whether to raise errors or to return them.

    Returns:
        For each check, ``SUCCESS``, ``SKIPPED`` or the error.

    Raises:
        OpCheckError: A check fails.
        ArgumentError: A check or the operator does not exist.
    """
    operator = find_operator(op)
    if not isinstance(operator, LibraryOperator):
        raise ArgumentError("opcheck", f"the built-in operator {operator.name}", "operators of libraries are checked",
                            "pass one")
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    unknown = [name for name in names if name not in _CHECKS]
    if unknown:
        raise ArgumentError("opcheck", f"checks {', '.join(unknown)}", f"checks are {', '.join(_CHECKS)}",
                            "pass some of these")
    given = bound(operator.schema, tuple(args), dict(kwargs or {}))
    results: dict[str, Any] = {}
    for name in names:
        try:
            results[name] = _CHECKS[name](operator, given) or "SUCCESS"
        except TensocketError as error:
            if raise_exception:
                raise
            results[name] = error
    return results
