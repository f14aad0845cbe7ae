"""Elements: the values that stand in for tensors while a rule over tensors becomes a kernel."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from tensocket_core.dispatch.registry import OPERATORS
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.element_types import arithmetic_dtype

from .pointwise import Pointwise


class Element:
    """A value with the pointwise methods and operators of tensors; each result is rounded as a tensor would store it.

    Args:
        value: An expression, or a complex pair of expressions, in the dtype in which kernels compute for ``dtype``.
        dtype: Dtype of the tensor's elements in memory.
    """

    __slots__ = ("dtype", "value")

    def __init__(self, value: Any, dtype: DType) -> None:
        self.value = value
        self.dtype = dtype

    def __getattr__(self, name: str) -> Callable[..., Element]:
        operator = OPERATORS.get(name)
        if not isinstance(operator, Pointwise):
            raise AttributeError(name)
        return partial(_apply, operator, self)

    def where(self, condition: Element, other: Any) -> Element:
        """Select this element where the condition holds, else ``other``."""
        return _apply(_pointwise("where"), condition, self, other)

    def masked_fill(self, mask: Element, value: Any) -> Element:
        """Select ``value`` where the mask holds, else this element."""
        return _apply(_pointwise("where"), mask, value, self)

    def __neg__(self) -> Element:
        return _apply(_pointwise("neg"), self)

    def __add__(self, other: Any) -> Element:
        return _apply(_pointwise("add"), self, other)

    def __sub__(self, other: Any) -> Element:
        return _apply(_pointwise("sub"), self, other)

    def __mul__(self, other: Any) -> Element:
        return _apply(_pointwise("mul"), self, other)

    def __truediv__(self, other: Any) -> Element:
        return _apply(_pointwise("div"), self, other)

    def __lt__(self, other: Any) -> Element:
        return _apply(_pointwise("lt"), self, other)

    def __gt__(self, other: Any) -> Element:
        return _apply(_pointwise("gt"), self, other)


def _pointwise(name: str) -> Pointwise:
    operator = OPERATORS[name]
    assert isinstance(operator, Pointwise)
    return operator


def _apply(operator: Pointwise, first: Element, *args: Any, **keywords: Any) -> Element:
    """Apply an operator's formula to elements and numbers."""
    from tensocket_plugins.ir.build.math import ExprMath
    from tensocket_plugins.ir.nodes import Expr, cast

    given = [first, *args]
    for parameter in operator.schema.parameters[len(given):]:
        default = None if parameter.default is None else ast.literal_eval(parameter.default)
        given.append(keywords.pop(parameter.name, default))
    if keywords:
        raise TypeError(f"{operator.name} has no parameter {next(iter(keywords))!r}")
    stored = next(x.dtype for x in given[operator.condition:] if isinstance(x, Element))
    values = [x.value if isinstance(x, Element) else x for x in given]
    math = ExprMath(arithmetic_dtype(stored), stored)
    result = operator.formula(math, *values)
    if isinstance(result, Expr) and operator.result == "same" and math.dtype is not stored:
        result = cast(cast(result, stored), math.dtype)
    return Element(result, stored)
