"""Nested tensors: one dense tensor that holds the elements, and a structure with the position of each component.

A nested tensor and its dense tensor have the same handle, history and version counter, so gradients, views and in-place
changes are those of an ordinary tensor. ``plain`` returns it; ``nested`` gives a tensor a structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import tensocket_operators as core
from tensocket_core.autograd import differentiate
from tensocket_core.dispatch.modes import thread_state
from tensocket_core.formats import jagged, strided
from tensocket_core.formats import layout as Layout
from tensocket_core.geometry import normalize_axis
from tensocket_operators import Size, Tensor
from tensocket_operators.tensor_methods.subclasses import SubclassHooks, retyped
from tensocket_plugins.contract.errors import ArgumentError, AutogradError, UnsupportedOperator

from .sizes import NestedInt, size_of
from .structures import Pieces, Ragged

T = TypeVar("T", bound="Nested")

#: The handler of function calls with a nested tensor; set by ``rules``, which imports this module.
HANDLERS: Final[list[Callable[..., Any]]] = []


class Nested(Tensor):
    """A batch of tensors of different shapes.

    Attributes:
        _structure: Positions of the components in its dense tensor.
    """

    _structure: Any
    is_nested = True

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        return HANDLERS[0](func, args, kwargs or {})

    # ------------------------------------------------------------------------------------------ metadata

    @property
    def ndim(self) -> int:
        """Number of dimensions, including that of the batch."""
        return int(self._structure.ndim)

    def dim(self) -> int:
        """Return the number of dimensions, including that of the batch."""
        return self.ndim

    ndimension = dim

    def __len__(self) -> int:
        return len(self._structure)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(components(self))

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the components are adjacent and in order, each of them row-major."""
        return bool(self._structure.is_contiguous(plain_geometry(self)))

    def _nested_tensor_size(self) -> Any:
        """Return the shapes of the components, one per row."""
        return matrix([tuple(x.shape) for x in described(self)])

    def _nested_tensor_strides(self) -> Any:
        """Return the strides of the components, one per row."""
        return matrix([tuple(x.stride()) for x in described(self)])

    def _nested_tensor_storage_offsets(self) -> Any:
        """Return the start of each component."""
        return matrix(self._structure.places(plain_geometry(self)))

    def is_same_size(self, other: Any) -> bool:
        """Whether another nested tensor has components of the same shapes."""
        return isinstance(other, Nested) and self._structure.matches(plain_geometry(self), other._structure,
                                                                     plain_geometry(other))

    # ------------------------------------------------------------------------------------------ gradients

    @property
    def grad(self) -> Any:
        """The accumulated gradient, with the structure of this tensor."""
        value = Tensor.grad.fget(self)  # type: ignore[attr-defined]
        if value is None:
            return None
        known = self.__dict__.get("_shown_grad")
        if known is None or known[0] is not value:
            known = self.__dict__["_shown_grad"] = (value, shaped_like(self, value))
        return known[1]

    @grad.setter
    def grad(self, value: Any) -> None:
        Tensor.grad.fset(self, value if value is None else gradient_for(self, value))  # type: ignore[attr-defined]

    @grad.deleter
    def grad(self) -> None:
        Tensor.grad.fdel(self)  # type: ignore[attr-defined]

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
                 inputs: Any = None) -> None:
        """Accumulate gradients of the leaves.

        Args:
            gradient: A nested tensor with components of the same shapes.
            retain_graph: Whether the graph stays usable.
            create_graph: Whether the computation is recorded.
            inputs: The leaves that get gradients; all of them if not given.

        Raises:
            AutogradError: The gradient is missing or has another structure.
        """
        differentiate.backward((self,), (gradient,), retain_graph, create_graph, inputs=inputs)

    def _root(self, gradient: Any) -> tuple[Any, Any]:
        """Return this tensor's dense tensor, and the gradient in its shape."""
        if gradient is None:
            raise AutogradError("backward", "a nested tensor without a gradient",
                                "grad can be implicitly created only for scalar outputs", "pass a nested tensor")
        return plain_geometry(self), gradient_for(self, gradient)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._grad_fn is not None:
            raise AutogradError("deepcopy", "a nested tensor made by an operator",
                                "Only Tensors created explicitly by the user support the deepcopy protocol",
                                "detach it first")
        copy = memo[id(self)] = self.detach().clone()
        copy.requires_grad_(self.requires_grad)
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = (type(self), plain(self).detach(), self._structure, self.requires_grad)
        return _rebuilt, state

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Any:
        """Pad the components to a dense tensor; see ``nested.to_padded_tensor``."""
        return HANDLERS[0](Nested.to_padded_tensor, (self, padding, output_size), {})

    def _multi_head_attention(self, *args: Any) -> Any:
        """Return the attention of a layer to keys and values; see ``nested.encoder``."""
        return HANDLERS[0](Nested._multi_head_attention, (self, *args), {})

    def tolist(self) -> list[Any]:
        """Return a list of the components' nested lists."""
        return [x.tolist() for x in components(self)]


class StridedNested(Nested):
    """Components of any shapes with the same number of dimensions, in one line of memory."""

    _structure: Pieces

    @property
    def layout(self) -> Layout:
        """``strided``."""
        return strided

    @property
    def shape(self) -> Any:
        """Refused: components have individual shapes.

        Raises:
            UnsupportedOperator: Always.
        """
        raise UnsupportedOperator("shape", "a nested tensor of layout strided",
                                  "Internal error: NestedTensorImpl doesn't support sizes", "use size(dim) or unbind()")

    def size(self, dim: int | None = None) -> Any:
        """Return the size of a dimension in which all components have the same size.

        Raises:
            UnsupportedOperator: No dimension is given.
            ArgumentError: The components' sizes differ.
        """
        if dim is None:
            return self.shape
        axis = normalize_axis("size", dim, self.ndim)
        if axis == 0:
            return len(self)
        sizes = {shape[axis - 1] for shape in self._structure.shapes}
        if len(sizes) != 1:
            raise ArgumentError("size", f"dimension {axis}",
                                f"Given dimension {axis} is irregular and does not have a size", "use unbind()")
        return sizes.pop()

    def stride(self, dim: int | None = None) -> Any:
        """Refuse: components have individual strides.

        Raises:
            UnsupportedOperator: Always.
        """
        raise UnsupportedOperator("stride", "a nested tensor of layout strided",
                                  "Internal error: NestedTensorImpl doesn't support strides", "use unbind()")

    def numel(self) -> int:
        """Return the number of elements of all components."""
        return self._structure.numel()

    nelement = numel

    def values(self) -> Any:
        """Return all elements in the order of memory."""
        return plain(self)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        with thread_state(function_modes=()):
            lines = [_indented(repr(x.detach())) for x in components(self)]
        grad = _history(self)
        return "nested_tensor([\n" + ",\n".join(lines) + "\n]" + grad + ")"


class NestedTensor(Nested):
    """Components that differ in only one dimension: a dense tensor that concatenates them, and offsets.

    Args:
        values: The components, concatenated along the ragged dimension.
        offsets: Start of each component, and end of the last one.
        lengths: Sizes of the components; None if each ends where the next begins.
        _ragged_idx: The ragged dimension.
        _metadata_cache: ``min_seqlen`` and ``max_seqlen``, if the caller knows them.
    """

    _structure: Ragged

    def __new__(cls, values: Tensor, offsets: Tensor, *, lengths: Tensor | None = None, **keywords: Any) -> Any:
        """Return a nested tensor on the memory of ``values``."""
        cache = keywords.get("_metadata_cache") or {}
        structure = Ragged(offsets, lengths, keywords.get("_ragged_idx", 1), values.dim() + 1,
                           cache.get("min_seqlen"), cache.get("max_seqlen"))
        return nested(view_of(values), structure)

    @property
    def layout(self) -> Layout:
        """``jagged``."""
        return jagged

    @property
    def shape(self) -> Any:
        """Sizes; that of the ragged dimension is a symbol."""
        sizes: list[Any] = list(self._array.shape)
        structure = self._structure
        sizes[structure.axis - 1:structure.axis] = [size_of(structure.source)] if structure.axis else []
        return tuple.__new__(Size, [len(structure), *sizes])

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension."""
        return self.shape if dim is None else self.shape[normalize_axis("size", dim, self.ndim)]

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides; that of the batch is the largest stride times its size."""
        inner = plain_geometry(self).stride()
        at = max(range(len(inner)), key=lambda k: inner[k], default=0)
        steps = (self.shape[at + 1] * inner[at], *inner) if inner else (1,)
        return steps if dim is None else steps[normalize_axis("stride", dim, self.ndim)]

    def values(self) -> Any:
        """Return the dense tensor that concatenates the components."""
        return plain(self)

    def offsets(self) -> Any:
        """Return the start of each component, and the end of the last one."""
        return self._structure.offsets

    def lengths(self) -> Any:
        """Return the sizes of the components along the ragged dimension if there are gaps, otherwise None."""
        return self._structure.lengths

    @property
    def _values(self) -> Any:
        return plain(self)

    _offsets = property(offsets)
    _lengths = property(lengths)

    @property
    def _ragged_idx(self) -> int:
        return self._structure.axis

    @property
    def _max_seqlen(self) -> int:
        return self._structure.longest

    @property
    def _min_seqlen(self) -> int:
        return self._structure.shortest

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        lengths = "" if self._structure.lengths is None else f", lengths={self._structure.lengths}"
        return (f"NestedTensor(size={tuple(self.shape)}, offsets={self._structure.offsets}{lengths}{_history(self)}, "
                f"contiguous={self.is_contiguous()})")


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))


def _history(tensor: Nested) -> str:
    if tensor._grad_fn is not None:
        return f", grad_fn=<{tensor._grad_fn.name()}>"
    return ", requires_grad=True" if tensor.requires_grad else ""


def _rebuilt(cls: Any, values: Tensor, structure: Any, requires_grad: bool) -> Any:
    return nested(view_of(values), structure).requires_grad_(requires_grad)


# ------------------------------------------------------------------------------------------ conversion


def view_of(tensor: Tensor) -> Any:
    """Return an ordinary tensor on the same memory, with the same history."""
    with thread_state(overrides_off=True, function_modes=()):
        return SubclassHooks.as_subclass(tensor, Tensor)


def plain(tensor: Any) -> Any:
    """Return the dense tensor of a nested tensor as a view that passes gradients."""
    return view_of(tensor) if isinstance(tensor, Nested) else tensor


def plain_geometry(tensor: Nested) -> Any:
    """Return the dense tensor of a nested tensor, to read only its shape and strides."""
    return Tensor._cut(tensor)


def nested(values: Any, structure: Any) -> Any:
    """Turn a tensor without other references into a nested tensor of the given structure."""
    cls = StridedNested if isinstance(structure, Pieces) else NestedTensor
    if isinstance(structure, Pieces) and not values.is_contiguous():
        values = values.contiguous()
    made = retyped(values, cls)
    made.__dict__["_structure"] = structure
    return made


def like(tensor: Nested, values: Any) -> Any:
    """Return a fresh dense tensor with the structure of a nested tensor."""
    return nested(values, tensor._structure)


def shaped_like(tensor: Nested, values: Any) -> Any:
    """Return a view of a dense tensor that may have other references, with the structure of a nested tensor."""
    return nested(view_of(values), tensor._structure)


def components(tensor: Nested) -> list[Any]:
    """Return the components as views of the dense tensor that pass gradients."""
    return list(tensor._structure.parts(plain(tensor)))


def described(tensor: Nested) -> list[Any]:
    """Return the components, to read only their shapes and strides."""
    return list(tensor._structure.parts(plain_geometry(tensor)))


def gradient_for(tensor: Nested, gradient: Any) -> Any:
    """Return the gradient of a nested tensor's dense tensor.

    Raises:
        AutogradError: ``gradient`` is not nested, or has components of other shapes.
    """
    if not isinstance(gradient, Nested):
        if tuple(gradient.shape) == tuple(tensor._array.shape):
            return gradient
        raise AutogradError("backward", f"a gradient of shape {list(gradient.shape)} for a nested tensor",
                            "a nested tensor has a nested gradient", "pass a nested tensor")
    if gradient._structure.lies_like(tensor._structure) and gradient._array.shape == tensor._array.shape:
        return plain(gradient)
    if not tensor.is_same_size(gradient):
        raise AutogradError("backward", "a gradient with components of other shapes",
                            "a gradient has the shapes of the components of its tensor", "pass one like the tensor")
    inner = plain_geometry(tensor)
    total = inner.new_zeros(inner.shape)
    for part, value in zip(tensor._structure.parts(total), components(gradient), strict=True):
        part.copy_(value)
    return total


def matrix(rows: list[Any]) -> Any:
    """Return rows of integers as an int64 tensor on the host."""
    return core.tensor(rows, dtype=core.int64)


def ragged_size(tensor: NestedTensor) -> NestedInt:
    """Return the symbol of the ragged dimension."""
    return size_of(tensor._structure.source)
