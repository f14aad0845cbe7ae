"""Derivatives of functions: products with Jacobians and Hessians, and the matrices themselves.

One backward pass computes one row of a Jacobian. The product of a Jacobian with a vector uses that v -> J^T v is
linear: the gradient of this map along the vector is the product (the "double backward trick").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core.autograd.differentiate import BATCHED
from tensocket_core.autograd.differentiate import grad as gradients
from tensocket_core.dispatch.modes import enable_grad
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, AutogradError, ShapeError

from .stacking import stack

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Any, ...]


def _tuple(operator: str, values: Any, what: str) -> tuple[bool, Tensors]:
    """Return whether ``values`` is a sequence, and the values as a tuple.

    Raises:
        ArgumentTypeError: A value is not a tensor.
    """
    several = isinstance(values, tuple)
    items = values if several else (values,)
    for item in items:
        if not hasattr(item, "_key"):
            raise ArgumentTypeError(operator, f"{what} of type {type(item).__name__}",
                                    "inputs and outputs are tensors or tuples of tensors", "pass or return tensors")
    return several, items


def _leaves(inputs: Tensors, create_graph: bool) -> Tensors:
    """Return the inputs as leaves to differentiate; with ``create_graph``, as views in the caller's graph."""
    return tuple([x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs])


def _result(several: bool, values: Any, create_graph: bool) -> Any:
    items = tuple([v if create_graph else v.detach() for v in values])
    return items if several else items[0]


def _run(operator: str, func: Callable[..., Any], inputs: Any, create_graph: bool) -> tuple[Any, ...]:
    several_in, items = _tuple(operator, inputs, "an input")
    leaves = _leaves(items, create_graph)
    several_out, outputs = _tuple(operator, func(*leaves), "an output")
    return several_in, leaves, several_out, outputs


def _strict_outputs(operator: str, outputs: Tensors, strict: bool) -> None:
    if strict and not all(y.requires_grad for y in outputs):
        raise AutogradError(operator, "an output that does not depend on the inputs",
                            "with strict=True every output depends on every input", "pass strict=False to get zeros")


def _gradients(operator: str, outputs: Tensors, inputs: Tensors, vectors: Any, create_graph: bool,
               strict: bool) -> Tensors:
    """Return the gradients of the outputs that are part of a graph; zeros for inputs that get none.

    Raises:
        AutogradError: ``strict`` is set, and a gradient is missing, or cannot be differentiated as wanted.
    """
    pairs = [(y, None if vectors is None else v)
             for y, v in zip(outputs, vectors or outputs, strict=True) if y.requires_grad]
    found: Tensors = (None,) * len(inputs)
    if pairs:
        found = gradients([y for y, _ in pairs], inputs, None if vectors is None else [v for _, v in pairs],
                          retain_graph=True, create_graph=create_graph, allow_unused=True)
    if strict and any(g is None for g in found):
        raise AutogradError(operator, "an input that an output does not depend on",
                            "with strict=True every output depends on every input", "pass strict=False to get zeros")
    if strict and create_graph and not all(g.requires_grad for g in found):
        raise AutogradError(operator, "a derivative to differentiate that is the same for all inputs",
                            "with strict=True every output depends on every input", "pass strict=False")
    return tuple([x.new_zeros(x.shape) if g is None else g for x, g in zip(inputs, found, strict=True)])


def _vectors(operator: str, v: Any, like: Tensors) -> Tensors:
    """Return the vectors of a product, checked against the tensors that they multiply.

    Raises:
        ArgumentError: No vector is given, and there is more than one element.
        ShapeError: The number of vectors or their shapes differ from those of the tensors.
    """
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise ArgumentError(operator, "no v", "v is implied for a single element only", "pass v")
        return tuple([x.new_ones(x.shape) for x in like])
    items = _tuple(operator, v, "v")[1]
    if [tuple(a.shape) for a in items] != [tuple(b.shape) for b in like]:
        raise ShapeError(operator, f"v of shapes {[list(a.shape) for a in items]} for {[list(b.shape) for b in like]}",
                         "v has the shapes of what it is multiplied with", "reshape v")
    return items


def _one_value(operator: str, outputs: Tensors) -> None:
    if len(outputs) != 1 or outputs[0].numel() != 1:
        raise ShapeError(operator, f"outputs of shapes {[list(y.shape) for y in outputs]}",
                         "the function returns one element", "reduce with .sum()")


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """Return the product of a vector and the Jacobian.

    Args:
        func: Takes and returns tensors, or tuples of them.
        inputs: A tensor or a tuple.
        v: A vector with the shapes of the outputs; it may be omitted for an output of one element.
        create_graph: Whether the results can be differentiated.
        strict: Whether an output that does not depend on an input is an error.

    Returns:
        The outputs, and the product with the shapes of the inputs.

    Raises:
        AutogradError: With ``strict``, an output does not depend on an input.
    """
    with enable_grad():
        several_in, leaves, several_out, outputs = _run("vjp", func, inputs, create_graph)
        _strict_outputs("vjp", outputs, strict)
        vectors = _vectors("vjp", v, outputs)
        products = _gradients("vjp", outputs, leaves, vectors, create_graph, strict)
    return _result(several_out, outputs, create_graph), _result(several_in, products, create_graph)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """Return the product of the Jacobian and a vector; arguments as in ``vjp``, but ``v`` has the inputs' shapes.

    Raises:
        AutogradError: With ``strict``, an output does not depend on an input.
    """
    with enable_grad():
        _, leaves, several_out, outputs = _run("jvp", func, inputs, create_graph)
        _strict_outputs("jvp", outputs, strict)
        vectors = _vectors("jvp", v, leaves)
        weights = tuple([y.new_zeros(y.shape).requires_grad_() for y in outputs])
        rows = _gradients("jvp", outputs, leaves, weights, True, strict)
        products = _gradients("jvp", rows, weights, vectors, create_graph, strict)
    return _result(several_out, outputs, create_graph), _result(several_out, products, create_graph)


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """Return the product of a vector and the Hessian of a scalar function.

    The arguments are those of ``vjp``, but ``v`` has the shapes of the inputs.

    Raises:
        ShapeError: The function returns more than one element.
        AutogradError: With ``strict``, the gradient does not depend on an input.
    """
    with enable_grad():
        several_in, leaves, several_out, outputs = _run("vhp", func, inputs, create_graph)
        _one_value("vhp", outputs)
        _strict_outputs("vhp", outputs, strict)
        vectors = _vectors("vhp", v, leaves)
        first = _gradients("vhp", outputs, leaves, None, True, strict)
        products = _gradients("vhp", first, leaves, vectors, create_graph, strict)
    return _result(several_out, outputs, create_graph), _result(several_in, products, create_graph)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """Return the product of the Hessian of a scalar function and a vector; arguments as in ``vhp``, which is faster.

    Raises:
        ShapeError: The function returns more than one element.
        AutogradError: With ``strict``, the gradient does not depend on an input.
    """
    with enable_grad():
        several_in, leaves, several_out, outputs = _run("hvp", func, inputs, create_graph)
        _one_value("hvp", outputs)
        _strict_outputs("hvp", outputs, strict)
        vectors = _vectors("hvp", v, leaves)
        first = _gradients("hvp", outputs, leaves, None, True, strict)
        weights = tuple([x.new_zeros(x.shape).requires_grad_() for x in leaves])
        rows = _gradients("hvp", first, leaves, weights, True, strict)
        products = _gradients("hvp", rows, weights, vectors, create_graph, strict)
    return _result(several_out, outputs, create_graph), _result(several_in, products, create_graph)


def jacobian(func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
             vectorize: bool = False, strategy: str = "reverse-mode") -> Any:
    """Return the Jacobian: a tensor of shape ``output.shape + input.shape``, nested tuples for several of either.

    Args:
        func: Takes and returns tensors, or tuples of them.
        inputs: A tensor or a tuple.
        create_graph: Whether the result can be differentiated.
        strict: Whether an output that does not depend on an input is an error.
        vectorize: Whether all elements of an output (in forward mode, of an input) are a batch for one pass.
        strategy: ``reverse-mode``, or with ``vectorize`` also ``forward-mode``, which computes columns.

    Raises:
        AutogradError: With ``strict``, an output does not depend on an input.
        ArgumentError: The strategy is unknown, or is ``forward-mode`` without ``vectorize``.
    """
    if strategy not in ("reverse-mode", "forward-mode") or (strategy == "forward-mode" and not vectorize):
        raise ArgumentError("jacobian", f"strategy {strategy!r} with vectorize={vectorize}",
                            "the strategy is 'reverse-mode', or with vectorize=True 'forward-mode'",
                            "pass one of them")
    if strict and vectorize:
        raise ArgumentError("jacobian", "strict=True with vectorize=True",
                            "dependence is found out without vectorize only", "leave one of them out")
    if strategy == "forward-mode":
        return _by_columns(func, inputs, create_graph)
    with enable_grad():
        several_in, leaves, several_out, outputs = _run("jacobian", func, inputs, create_graph)
        _strict_outputs("jacobian", outputs, strict)
        blocks = [_rows_at_once(output, leaves, create_graph) if vectorize
                  else _rows(output, leaves, create_graph, strict) for output in outputs]
    return _nested(several_out, several_in, blocks, create_graph)


def _nested(several_out: bool, several_in: bool, blocks: Any, create_graph: bool) -> Any:
    results = tuple([_result(several_in, row, create_graph) for row in blocks])
    return results if several_out else results[0]


def _rows(output: Any, leaves: Tensors, create_graph: bool, strict: bool) -> list[Any]:
    """Return the derivatives of one output, by one backward pass per element."""
    shapes = [(*output.shape, *x.shape) for x in leaves]
    elements = output.reshape(-1)
    if not elements.numel():
        return [x.new_zeros(shape) for x, shape in zip(leaves, shapes, strict=True)]
    rows = [_gradients("jacobian", (elements[k],), leaves, (elements.new_ones(()),), create_graph, strict)
            for k in range(elements.numel())]
    return [stack(column).reshape(shape) for column, shape in zip(zip(*rows, strict=True), shapes, strict=True)]


def _units(tensor: Any) -> Any:
    """Return the unit tensors of a shape, which are 1 at one position and 0 elsewhere, stacked."""
    count = tensor.numel()
    units = tensor.detach().new_zeros((count, count))
    units.diagonal().fill_(1)
    return units.reshape((count, *tensor.shape))


def _rows_at_once(output: Any, leaves: Tensors, create_graph: bool) -> list[Any]:
    """Return the derivatives of one output, by one batched pass for all its elements."""
    found: Tensors = (None,) * len(leaves)
    if output.requires_grad and output.numel():
        found = gradients([output], leaves, [_units(output)], retain_graph=True, create_graph=create_graph,
                          allow_unused=True, is_grads_batched=True)
    return [x.new_zeros((*output.shape, *x.shape)) if g is None else g.reshape((*output.shape, *x.shape))
            for x, g in zip(leaves, found, strict=True)]


def _by_columns(func: Callable[..., Any], inputs: Any, create_graph: bool) -> Any:
    """Return the derivatives of all outputs, by one batched product of Jacobian and unit vectors per input."""
    several_in, items = _tuple("jacobian", inputs, "an input")
    columns: list[list[Any]] = []
    for position, x in enumerate(items):
        def along(unit: Any, position: int = position) -> Any:
            v = tuple([unit if k == position else t.new_zeros(t.shape) for k, t in enumerate(items)])
            return _tuple("jacobian", jvp(func, items if several_in else items[0], v, create_graph)[1], "an output")[1]

        columns.append([column.movedim(0, -1).reshape((*column.shape[1:], *x.shape))
                        for column in BATCHED[0](along)(_units(x))])
    several_out = isinstance(func(*items), tuple)
    return _nested(several_out, several_in, list(zip(*columns, strict=True)), create_graph)


def hessian(func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
            vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """Return the Hessian of a scalar function: ``input.shape + input.shape``, nested tuples for several inputs.

    Args:
        func: Takes tensors and returns one element.
        inputs: A tensor or a tuple.
        create_graph: Whether the result can be differentiated.
        strict: Whether a gradient that does not depend on an input is an error.
        vectorize: As in ``jacobian``.
        outer_jacobian_strategy: Like ``strategy`` of ``jacobian``.

    Raises:
        ShapeError: The function returns more than one element.
        AutogradError: With ``strict``, a gradient does not depend on an input.
    """
    several, items = _tuple("hessian", inputs, "an input")

    def slope(*arguments: Any) -> Any:
        _, outputs = _tuple("hessian", func(*arguments), "an output")
        _one_value("hessian", outputs)
        _strict_outputs("hessian", outputs, strict)
        value = outputs[0].reshape(())
        rows = _gradients("hessian", (value,), arguments, None, True, strict)
        return rows if several else rows[0]

    return jacobian(slope, items if several else items[0], create_graph, strict, vectorize, outer_jacobian_strategy)
