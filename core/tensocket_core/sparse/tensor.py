"""Sparse tensors: a subclass over plain tensors of positions and values.

Values take part in autograd as ever; positions do not. A function that is called with a sparse tensor arrives in
``__torch_function__``, which looks its rule up by name; everything is computed by operators on plain tensors, so that
every device runs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tensocket_plugins.contract.arrays import DeviceArray, contiguous_strides
from tensocket_plugins.contract.errors import ArgumentError, AutogradError, DtypeError, UnsupportedOperator

from .._generated import functions
from ..autograd import differentiate
from ..dispatch.keys import AUTOGRAD, DIM0, LAZY, SCALAR_MASK
from ..dispatch.modes import is_grad_enabled, thread_state
from ..formats import layout, sparse_coo, sparse_csr
from ..promotion import can_cast
from ..tensors import Tensor
from .recording import Assembled, Stored, records

F = TypeVar("F", bound=Callable[..., Any])
#: Attributes of a sparse tensor that a program has not set.
PARTS: Final = frozenset({"positions", "raw", "coalesced", "_kind"})
#: Rules by the name of the function: ``rule(*args, **kwargs)``, with at least one sparse tensor among the arguments.
RULES: Final[dict[str, Callable[..., Any]]] = {}
#: Methods that only look at geometry and device: those of plain tensors are right.
_PLAIN: Final = frozenset({
    "dim", "element_size", "get_device", "is_complex", "is_floating_point", "is_same_size", "nelement", "numel",
    "register_hook", "register_post_accumulate_grad_hook", "requires_grad", "requires_grad_", "retain_grad", "size",
    "__len__"})


def sparse_rule(*names: str) -> Callable[[F], F]:
    """Register the decorated function for calls of these names with sparse tensors."""

    def register(rule: F) -> F:
        for name in names:
            RULES[name] = rule
        return rule

    return register


class SparseTensor(Tensor):
    """A tensor of which only some elements are stored; the others are 0.

    Attributes:
        positions: COO: int64 [sparse dimensions, nnz]. CSR: the pair of row starts [rows + 1] and columns [nnz].
        raw: The values without history.
        coalesced: Whether every position appears once, in row-major order.
    """

    positions: Any
    raw: Any
    coalesced: bool
    _kind: layout

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Run the rule for a function.

        Raises:
            UnsupportedOperator: There is none.
        """
        if func is differentiate.grad:
            return differentiate.computed(*args, **(kwargs or {}))
        name = func.__name__.removeprefix("method_")
        if name in _PLAIN:
            with thread_state(overrides_off=True):
                return func(*args, **(kwargs or {}))
        rule = RULES.get(name)
        if rule is None:
            raise UnsupportedOperator(name, "a sparse tensor", "the operator has no rule for sparse tensors",
                                      "convert it with to_dense() first")
        return rule(*args, **(kwargs or {}))

    # ------------------------------------------------------------------------------------------ metadata

    @property
    def layout(self) -> layout:
        """``sparse_coo`` or ``sparse_csr``."""
        return self._kind

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether the layout is ``sparse_coo``."""
        return self._kind is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the layout is ``sparse_csr``."""
        return self._kind is sparse_csr

    def sparse_dim(self) -> int:
        """Number of dimensions with positions."""
        return 2 if self._kind is sparse_csr else int(self.positions.shape[0])

    def dense_dim(self) -> int:
        """Number of dimensions behind these."""
        return self.ndim - self.sparse_dim()

    def _nnz(self) -> int:
        return int(self.raw.shape[0])

    def is_coalesced(self) -> bool:
        """Whether every position appears once, in row-major order."""
        _expect(self, sparse_coo, "is_coalesced")
        return self.coalesced

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        """Say whether every position appears once, in row-major order; nothing is checked."""
        _expect(self, sparse_coo, "_coalesced_").coalesced = bool(coalesced)
        return self

    def indices(self) -> Any:
        """Positions of a coalesced COO tensor, [sparse dimensions, nnz]."""
        return self._checked("indices").positions

    def values(self) -> Any:
        """Stored values, [nnz, ...]."""
        return self.stored if self._kind is sparse_csr else self._checked("values").stored

    def _checked(self, name: str) -> SparseTensor:
        _expect(self, sparse_coo, name)
        if not self.coalesced:
            raise ArgumentError(name, "an uncoalesced tensor", "positions of a coalesced tensor appear once",
                                "call .coalesce() first")
        return self

    def _indices(self) -> Any:
        return _expect(self, sparse_coo, "_indices").positions

    def _values(self) -> Any:
        return self.raw

    def crow_indices(self) -> Any:
        """Where each row starts, [rows + 1]."""
        return _expect(self, sparse_csr, "crow_indices").positions[0]

    def col_indices(self) -> Any:
        """Columns of the values, [nnz]."""
        return _expect(self, sparse_csr, "col_indices").positions[1]

    # ------------------------------------------------------------------------------------------ autograd

    @property
    def stored(self) -> Any:
        """The values, [nnz, ...]; dimensions behind the first one are dense. Gradients pass through them."""
        return Stored.apply(self) if records((self,)) else self.raw

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
                 inputs: Any = None) -> None:
        """Gradients of this tensor, added to the leaves' ``grad``; the first one is dense or sparse."""
        differentiate.backward((self,), (gradient,), retain_graph, create_graph, inputs=inputs)

    def alias(self) -> SparseTensor:
        """A tensor of the same parts that is cut off from the graph."""
        return like(self, self.raw)

    def with_gradient(self, grad: Any) -> SparseTensor:
        """A gradient of the stored values as one of the tensor."""
        if self._kind is sparse_csr or self.coalesced:
            return like(self, grad)
        # Values at one position have equal gradients, that of their sum.
        total, count = coalesced(like(self, grad)), coalesced(like(self, grad * 0 + 1))
        return like(total, total.stored / count.stored)

    def values_in(self, other: Any) -> Any:
        """Elements of another tensor at the positions of this one, in the order of the stored values."""
        if not is_sparse(other):
            found = values_at(other, coo_positions(self))
        elif other.positions is self.positions and other.raw.shape == self.raw.shape:
            return other.stored
        else:
            found = looked_up(as_coo(other), coo_positions(self), self.sparse_dim())
        return found.reshape(tuple(self.raw.shape))

    # ------------------------------------------------------------------------------------------ presentation

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        parts = {"indices": self.positions} if self._kind is sparse_coo else {
            "crow_indices": self.positions[0], "col_indices": self.positions[1]}
        parts["values"] = self.raw
        lines = [f"{name}={_indented(value, len(name) + 8)}" for name, value in parts.items()]
        lines[0] = "tensor(" + lines[0]
        tail = f"size={tuple(self.shape)}, nnz={self._nnz()}, layout={self._kind!r}"
        if self.grad_fn is not None:
            tail += f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            tail += ", requires_grad=True"
        return ",\n       ".join([*lines, tail]) + ")"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuilt, (self.positions, self.raw, tuple(self.shape), self._kind, self.coalesced,
                          self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        made = memo[id(self)] = RULES["clone"](self.alias())
        made.requires_grad_(self.requires_grad)
        return made  # type: ignore[no-any-return]


def _indented(value: Any, width: int) -> str:
    return repr(value).replace("\n", "\n" + " " * width)


def _rebuilt(positions: Any, values: Any, size: tuple[int, ...], kind: layout, whole: bool,
             requires_grad: bool) -> Any:
    made = wrap_sparse(positions, values, size, kind, whole)
    return made.requires_grad_(requires_grad)


def wrap_sparse(positions: Any, values: Any, size: Any, kind: layout, coalesced: bool = False) -> SparseTensor:
    """A sparse tensor over these parts, which are not checked."""
    if values._key & LAZY:
        values = functions.resolve_neg(functions.resolve_conj(values))
    if records((values,)):
        return Assembled.apply(  # type: ignore[no-any-return]
            values, lambda plain: wrap_sparse(positions, plain, size, kind, coalesced))
    values = values.detach() if values._key & AUTOGRAD else values
    made = object.__new__(SparseTensor)
    shape = tuple(size)
    made._array = DeviceArray(None, values.dtype, shape, contiguous_strides(shape), 0)
    made._key = values._key & ~(AUTOGRAD | DIM0 | SCALAR_MASK) | SparseTensor._class_key | (0 if shape else DIM0)
    made._grad = made._grad_fn = made._version_counter = made._base = None
    made.positions, made.raw, made._kind, made.coalesced = positions, values, kind, coalesced
    return made


def replace_parts(target: SparseTensor, positions: Any, values: Any, size: Any, whole: bool) -> SparseTensor:
    """The tensor itself with other parts, as operators do that write to it; see ``adopt``."""
    return adopt(target, wrap_sparse(positions, values, size, target._kind, whole))


def adopt(target: SparseTensor, made: SparseTensor) -> SparseTensor:
    """The tensor itself with the parts and the history of another one.

    Raises:
        AutogradError: It is a leaf that requires grad, or the graph could not follow.
    """
    if target.is_leaf and target.requires_grad and is_grad_enabled():
        raise AutogradError("sparse", "a leaf that requires grad and is written", "leaves that require grad keep their "
                            "values while gradients are recorded", "use tensocket.no_grad(), or write to a copy")
    target._array, target._key = made._array, made._key
    target._grad_fn = made._grad_fn
    target.positions, target.raw, target.coalesced = made.positions, made.raw, made.coalesced
    return target


def like(source: SparseTensor, values: Any) -> SparseTensor:
    """Other values at the same positions."""
    return wrap_sparse(source.positions, values, source.shape, source._kind, source.coalesced)


def detached(source: SparseTensor) -> SparseTensor:
    """Cut off from the graph."""
    return source.alias()


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse tensor."""
    return isinstance(value, SparseTensor)


def _expect(tensor: Any, kind: layout, name: str) -> Any:
    """The tensor itself.

    Raises:
        ArgumentError: It has another layout.
    """
    if getattr(tensor, "_kind", None) is not kind:
        raise ArgumentError(name, f"a tensor of layout {tensor.layout!r}", f"the layout is {kind.name}",
                            f"convert it with to_{kind.name}()")
    return tensor


# ------------------------------------------------------------------------------------------ positions as numbers


def coo_positions(tensor: SparseTensor) -> Any:
    """Positions in COO form."""
    if tensor._kind is sparse_coo:
        return tensor.positions
    starts, columns = tensor.positions
    rows = functions.repeat_interleave(starts.new_arange(0, tensor.shape[0], 1), starts.diff())
    return functions.stack([rows, columns.to(rows.dtype)])


def flat_positions(positions: Any, sizes: Any) -> Any:
    """Row-major numbers of positions, [nnz]."""
    total = positions.new_zeros((positions.shape[1],))
    for k, size in enumerate(sizes):
        total = total * size + positions.select(0, k)
    return total


def split_positions(numbers: Any, sizes: Any) -> Any:
    """The inverse of ``flat_positions``."""
    rows = []
    for size in reversed(tuple(sizes)):
        rows.append(numbers.remainder(max(size, 1)))
        numbers = numbers.floor_divide(max(size, 1))
    return functions.stack(rows[::-1]) if rows else numbers.new_zeros((0, numbers.shape[0]))


def summed_rows(count: int, numbers: Any, values: Any) -> Any:
    """Rows of ``values`` added up by their numbers, [count, ...]."""
    return values.new_zeros((count, *values.shape[1:])).index_add(0, numbers, values)


def coalesced(tensor: SparseTensor) -> SparseTensor:
    """Every position once, in row-major order, with the sum of its values."""
    if tensor.coalesced or tensor._kind is sparse_csr:
        return tensor
    sizes = tensor.shape[:tensor.sparse_dim()]
    numbers = flat_positions(tensor.positions, sizes)
    distinct, places = functions.unique(numbers, return_inverse=True)
    values = summed_rows(distinct.shape[0], places, tensor.stored)
    return wrap_sparse(split_positions(distinct, sizes), values, tensor.shape, sparse_coo, True)


def dense_of(tensor: SparseTensor) -> Any:
    """All elements as a plain tensor."""
    sizes = tuple(tensor.shape[:tensor.sparse_dim()])
    numbers = flat_positions(coo_positions(tensor), sizes)
    return summed_rows(math.prod(sizes), numbers, tensor.stored).reshape(tuple(tensor.shape))


def as_coo(tensor: SparseTensor) -> SparseTensor:
    """The same tensor in COO layout."""
    if tensor._kind is sparse_coo:
        return tensor
    return wrap_sparse(coo_positions(tensor), tensor.stored, tensor.shape, sparse_coo, True)


def as_csr(tensor: SparseTensor) -> SparseTensor:
    """The same matrix in CSR layout.

    Raises:
        ArgumentError: It is no matrix.
    """
    if tensor._kind is sparse_csr:
        return tensor
    if tensor.sparse_dim() != 2:
        raise ArgumentError("to_sparse_csr", f"{tensor.sparse_dim()} sparse dimensions",
                            "the layout sparse_csr is one of matrices", "keep sparse_coo")
    source = coalesced(tensor)
    rows, columns = source.positions.select(0, 0), source.positions.select(0, 1)
    counts = summed_rows(tensor.shape[0], rows, rows * 0 + 1)
    starts = functions.cat([counts.new_zeros((1,)), counts.cumsum(0)])
    return wrap_sparse((starts, columns.contiguous()), source.stored, tensor.shape, sparse_csr, True)


def in_layout(tensor: SparseTensor, kind: layout) -> SparseTensor:
    """In one of both layouts."""
    return as_csr(tensor) if kind is sparse_csr else as_coo(tensor)


def become(target: Any, made: Any, name: str) -> Any:
    """Write a result to a sparse tensor, in its dtype.

    Raises:
        DtypeError: The result's dtype is of a higher category.
    """
    if not can_cast(made.dtype, target.dtype):
        raise DtypeError(name, f"a result of dtype {made.dtype.name} for a tensor of dtype {target.dtype.name}",
                         "what is written can be cast to the tensor's dtype", f"use {name.removesuffix('_')}")
    if made._kind is not target._kind:
        made = in_layout(as_coo(made), target._kind)
    return adopt(target, made if made.dtype is target.dtype else RULES["to"](made, target.dtype))


def looked_up(source: SparseTensor, positions: Any, count: int) -> Any:
    """Elements of a tensor in COO layout at positions of its first ``count`` dimensions; 0 where it has none."""
    if source.sparse_dim() != count:
        return values_at(dense_of(source), positions)
    source = coalesced(source)
    sizes, values = source.shape[:count], source.stored
    if not source._nnz():
        return values.new_zeros((positions.shape[1], *values.shape[1:]))
    known, wanted = flat_positions(source.positions, sizes), flat_positions(positions, sizes)
    places = functions.searchsorted(known, wanted).clamp(max=known.shape[0] - 1)
    found = known.index_select(0, places) == wanted
    chosen = values.index_select(0, places)
    return functions.where(found.reshape((-1, *([1] * (values.ndim - 1)))), chosen, chosen.new_zeros(()))


def values_at(plain: Any, positions: Any) -> Any:
    """A plain tensor's elements (or slices behind the sparse dimensions) at positions, [nnz, ...]."""
    if not positions.shape[0]:
        return plain.unsqueeze(0).expand((positions.shape[1], *plain.shape))
    return plain[tuple(positions.unbind(0))]


__all__ = ["RULES", "SparseTensor", "sparse_rule", "wrap_sparse"]
