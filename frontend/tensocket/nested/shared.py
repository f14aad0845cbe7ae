"""Functions with the same rule for nested tensors of both layouts."""

from __future__ import annotations

from typing import Any

import tensocket_operators as core
from tensocket_core.autograd import differentiate
from tensocket_core.formats import check_format, contiguous_format, preserve_format
from tensocket_core.geometry import normalize_axis
from tensocket_operators import Tensor, functions
from tensocket_plugins.contract.errors import ArgumentError, DimensionError, ShapeError, UnsupportedOperator

from . import padding
from .rules import rule
from .structures import Ragged
from .tensors import Nested, components, gradient_for, like, nested, plain, plain_geometry, shaped_like


@rule(Nested, "unbind")
def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """Return the components.

    Raises:
        UnsupportedOperator: ``dim`` is not that of the batch.
    """
    if dim not in (0, -input.ndim):
        raise UnsupportedOperator("unbind", f"dim={dim}", "unbind(): nested tensors are taken apart along dim=0 only",
                                  "unbind the components")
    return tuple(components(input))


@rule(Nested, "detach", "detach_")
def detach(input: Any) -> Any:
    """Return a nested tensor on the same memory that is detached from the graph."""
    return like(input, plain(input).detach())


@rule(Nested, "alias", "view_as_self")
def alias(input: Any) -> Any:
    """Return a nested tensor on the same memory."""
    return shaped_like(input, input)


def exchanged(input: Any, dim0: int, dim1: int, refused: str) -> tuple[int, int]:
    """Return two dimensions to transpose, counted from the first.

    Raises:
        UnsupportedOperator: One of them is that of the batch, for the reason ``refused``.
    """
    first, second = (normalize_axis("transpose", dim, input.ndim) for dim in (dim0, dim1))
    if first != second and 0 in (first, second):
        raise UnsupportedOperator("transpose", f"dimensions {dim0} and {dim1}", refused, "transpose other dimensions")
    return first, second


@rule(Nested, "clone")
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """Return a copy in the same layout, or with adjacent components for ``contiguous_format``.

    Raises:
        UnsupportedOperator: The format is not supported.
    """
    if memory_format not in (None, preserve_format, contiguous_format):
        named = "".join(word.capitalize() for word in str(memory_format).rpartition(".")[2].split("_"))
        raise UnsupportedOperator("clone", f"memory_format={memory_format}",
                                  "Nested tensor clone supports Preserve and Contiguous memory formats, called clone "
                                  f"with memory format: {named}", "pass preserve_format")
    if memory_format is contiguous_format and not input.is_contiguous():
        return contiguous(input)
    if isinstance(input._structure, Ragged) or input.is_contiguous():
        return like(input, plain(input).clone())
    return padding.joined([x.clone() for x in components(input)], input)


@rule(Nested, "contiguous")
def contiguous(input: Any, memory_format: Any = None) -> Any:
    """Return the tensor itself if its components are adjacent, otherwise a copy in which they are."""
    check_format("contiguous", memory_format)
    if input.is_contiguous():
        return input
    structure = input._structure
    if isinstance(structure, Ragged) and structure.lengths is None:
        return like(input, plain(input).clone(memory_format=contiguous_format))
    return padding.joined(components(input), input)


@rule(Nested, "to")
def to(input: Any, *args: Any, **keywords: Any) -> Any:
    """Convert to a dtype or device."""
    dense = plain(input) if isinstance(input, Nested) else input
    args = tuple([plain_geometry(x) if isinstance(x, Nested) else x for x in args])
    keywords = {name: plain_geometry(x) if isinstance(x, Nested) else x for name, x in keywords.items()}
    made = dense.to(*args, **keywords)
    if not isinstance(input, Nested):
        return made
    return input if made is dense else _placed(input, made)


def _placed(input: Any, made: Any) -> Any:
    structure = input._structure
    if isinstance(structure, Ragged) and made.device != input.device:
        lengths = None if structure.lengths is None else structure.lengths.to(made.device)
        structure = Ragged(structure.offsets.to(made.device), lengths, structure.axis, structure.ndim)
    return nested(made, structure)


def _conversion(name: str) -> None:
    @rule(Nested, name)
    def convert(input: Any, *args: Any, **keywords: Any) -> Any:
        dense = plain(input)
        made = getattr(dense, name)(*args, **keywords)
        return input if made is dense else _placed(input, made)


for _name in ("double", "float", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cpu", "cuda",
              "type_as", "cfloat", "cdouble"):
    if hasattr(Tensor, _name):
        _conversion(_name)


def _creation(name: str) -> None:
    create = getattr(core, name)

    @rule(Nested, name)
    def make(input: Any, *args: Any, **keywords: Any) -> Any:
        keywords.pop("layout", None)
        format = keywords.pop("memory_format", None)
        if format not in (None, preserve_format, contiguous_format):
            raise UnsupportedOperator(name, f"memory_format={format}",
                                      "nested tensors are made in preserve_format or contiguous_format",
                                      "leave memory_format out")
        requires_grad = keywords.pop("requires_grad", False)
        structure = input._structure
        if isinstance(structure, Ragged):
            made = _placed(input, create(plain_geometry(input), *args, **keywords))
        else:
            line = plain_geometry(input).new_empty(structure.numel())
            made = nested(create(line, *args, **keywords), type(structure)(structure.shapes, ndim=structure.ndim))
        return made.requires_grad_(requires_grad) if requires_grad else made


for _name in ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"):
    _creation(_name)


@rule(Nested, "copy_")
def copy_(input: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy the elements of a nested tensor with components of the same shapes.

    Raises:
        ShapeError: The components have other shapes, or ``src`` is not nested.
    """
    if not isinstance(input, Nested) or not isinstance(src, Nested) or not _alike(input, src):
        raise ShapeError("copy_", "a tensor with components of other shapes",
                         "copy_ only supports tensors that are the same size for Nested implementations",
                         "copy the components")
    if src._structure.lies_like(input._structure) and src._array.shape == input._array.shape:
        plain(input).copy_(plain(src), non_blocking)
        return input
    for part, value in zip(components(input), components(src), strict=True):
        part.copy_(value, non_blocking)
    return input


def _alike(first: Any, second: Any) -> bool:
    return [x.shape for x in first._structure.parts(plain_geometry(first))] == [
        x.shape for x in second._structure.parts(plain_geometry(second))]


@rule(Nested, "fill_")
def fill_(input: Any, value: Any) -> Any:
    """Fill all components with a number.

    Raises:
        ShapeError: ``value`` is a tensor with dimensions.
    """
    if isinstance(value, Tensor) and value.dim():
        raise ShapeError("fill_", f"a value with {value.dim()} dimension(s)",
                         "fill_ only supports 0-dimension value tensor", "pass a number")
    plain(input).fill_(value)
    return input


@rule(Nested, "embedding")
def embedding(weight: Any, indices: Any, *args: Any, **keywords: Any) -> Any:
    """Return the rows of ``weight`` at the indices in the components.

    Raises:
        ArgumentError: The table is nested.
    """
    if isinstance(weight, Nested):
        raise ArgumentError("embedding", "a nested table of embeddings", "only the indices may be nested",
                            "pass a dense table")
    indices = contiguous(indices)
    made = functions.embedding(weight, plain(indices), *args, **keywords)
    return padding.extended(indices, made, (weight.shape[1],))


@rule(Nested, "equal")
def equal(input: Any, other: Any) -> bool:
    """Whether two nested tensors have the same components."""
    return _compared(input, other, lambda a, b: a.shape == b.shape and functions.equal(a, b))


@rule(Nested, "allclose")
def allclose(input: Any, other: Any, *args: Any, **keywords: Any) -> bool:
    """Whether the components of two nested tensors are close."""
    return _compared(input, other, lambda a, b: functions.allclose(a, b, *args, **keywords))


def _compared(input: Any, other: Any, same: Any) -> bool:
    if not (isinstance(input, Nested) and isinstance(other, Nested)) or len(input) != len(other):
        return False
    return all(same(a, b) for a, b in zip(components(input), components(other), strict=True))


@rule(Nested, "grad")
def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, **keywords: Any) -> Any:
    """Return ``autograd.grad`` from and to nested tensors."""
    roots = tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
    given = (grad_outputs,) * len(roots) if grad_outputs is None else (
        tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,))
    seeds = [gradient_for(root, seed) if isinstance(root, Nested) and seed is not None else seed
             for root, seed in zip(roots, given, strict=True)]
    found = differentiate.computed(tuple([plain(x) for x in roots]), inputs, tuple(seeds), **keywords)
    if isinstance(inputs, dict):
        return {key: _returned(tensor, found[key]) for key, tensor in inputs.items()}
    wanted = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    return tuple([_returned(tensor, value) for tensor, value in zip(wanted, found, strict=True)])


def _returned(tensor: Any, value: Any) -> Any:
    return shaped_like(tensor, value) if isinstance(tensor, Nested) and value is not None else value


@rule(Nested, "to_padded_tensor")
def to_padded_tensor(input: Any, padding_value: float = 0.0, output_size: Any = None) -> Any:
    """Return the components in a dense tensor; see ``nested.to_padded_tensor``."""
    return padding.padded(input, padding_value, output_size)


@rule(Nested, "__getitem__")
def get_item(input: Any, index: Any) -> Any:
    """Return a component, or an element or part of one.

    Raises:
        DimensionError: The component does not exist.
        UnsupportedOperator: The index of the batch is not an integer.
    """
    first, *rest = index if isinstance(index, tuple) else (index,)
    if first is Ellipsis and all(type(k) is int for k in rest) and len(rest) < input.ndim:
        found = alias(input)
        for k in rest:
            found = functions.select(found, input.ndim - len(rest), k)
        return found
    found, rest = _component(input, first, rest)
    return found[tuple(rest)] if rest else found


@rule(Nested, "__setitem__")
def set_item(input: Any, index: Any, value: Any) -> None:
    """Write a component, or an element or part of one."""
    first, *rest = index if isinstance(index, tuple) else (index,)
    found, rest = _component(input, first, rest)
    found[tuple(rest) or ...] = value


def _component(input: Any, first: Any, rest: list[Any]) -> tuple[Any, list[Any]]:
    if isinstance(first, bool) or not hasattr(first, "__index__"):
        raise UnsupportedOperator("__getitem__", f"an index of type {type(first).__name__} in dimension 0",
                                  "the batch of a nested tensor is indexed by integers", "index the components")
    return select(input, 0, first.__index__()), rest


def select(input: Any, dim: int, index: int) -> Any:
    """Return the component ``index``.

    Raises:
        DimensionError: The component does not exist.
    """
    if not -len(input) <= index < len(input):
        raise DimensionError("select", f"index {index}",
                             f"index {index} is out of bounds for dimension {dim} with size {len(input)}",
                             "pass an index of a component")
    return components(input)[index]
