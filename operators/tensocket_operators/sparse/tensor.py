"""Sparse tensors: a subclass over dense tensors of positions and values.

Values take part in autograd as usual; positions do not. A function that is called with a sparse tensor arrives in
``__torch_function__``, which looks up its rule by name. Rules compute with operators on dense tensors, so that every
device runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from tensocket_core import functions
from tensocket_core.autograd import differentiate
from tensocket_core.dispatch.modes import is_grad_enabled, thread_state
from tensocket_core.formats import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from tensocket_core.keys import AUTOGRAD, DIM0, LAZY, SCALAR_MASK
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.arrays import DeviceArray, contiguous_strides
from tensocket_plugins.contract.errors import ArgumentError, AutogradError, UnsupportedOperator

from ..tensor_methods.printing import format_sparse
from .recording import Assembled, Stored, records


class LayoutError(ArgumentError):
    """Error: a tensor has a layout that the operator does not support."""


_COO: Final = (sparse_coo,)
_ROWS: Final = (sparse_csr, sparse_bsr)
_COLUMNS: Final = (sparse_csc, sparse_bsc)
_WORDS: Final = {_COO: "sparse coordinate", _ROWS: "sparse row compressed", _COLUMNS: "sparse column compressed"}
#: Layouts as PyTorch's errors call them.
CAMEL: Final = {"strided": "Strided", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr", "sparse_csc": "SparseCsc",
                "sparse_bsr": "SparseBsr", "sparse_bsc": "SparseBsc"}
F = TypeVar("F", bound=Callable[..., Any])
#: Attributes of a sparse tensor that do not belong to the program.
PARTS: Final = frozenset({"positions", "raw", "coalesced", "_kind"})
#: Rules by the name of the function: ``rule(*args, **kwargs)``, with at least one sparse tensor among the arguments.
RULES: Final[dict[str, Callable[..., Any]]] = {}
#: Methods that read only shape, device and history: those of dense tensors are correct.
_PLAIN: Final = frozenset({
    "_has_compatible_shallow_copy_type", "detach_", "dim", "element_size", "get_device", "is_complex",
    "is_floating_point", "is_same_size", "nelement", "numel", "register_hook", "register_post_accumulate_grad_hook",
    "requires_grad", "requires_grad_", "retain_grad", "size", "__len__"})


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
        positions: COO: int64 [sparse dimensions, nnz]. Compressed layouts: a pair, the starts of the rows (or columns),
            [batches ..., rows + 1], and the columns (or rows) of the elements, [batches ..., nnz].
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
            UnsupportedOperator: The function has no rule.
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
        given = dict(kwargs or {})
        out = given.pop("out", None)
        made = rule(*args, **given)
        return made if out is None else RULES["out"](name, made, out)

    # ------------------------------------------------------------------------------------------ metadata

    @property
    def layout(self) -> layout:
        """``sparse_coo``, ``sparse_csr``, ``sparse_csc``, ``sparse_bsr`` or ``sparse_bsc``."""
        return self._kind

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is ``sparse_coo``."""
        return self._kind is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the layout is ``sparse_csr``."""
        return self._kind is sparse_csr

    def batch_dim(self) -> int:
        """Return the number of batch dimensions before the sparse ones, which compressed layouts may have."""
        return 0 if self._kind is sparse_coo else self.positions[0].ndim - 1

    def sparse_dim(self) -> int:
        """Return the number of dimensions with positions."""
        return int(self.positions.shape[0]) if self._kind is sparse_coo else 2

    def dense_dim(self) -> int:
        """Return the number of dimensions after the sparse ones."""
        return self.ndim - self.batch_dim() - self.sparse_dim()

    _dimI, _dimV = sparse_dim, dense_dim  # noqa: N815  PyTorch's names

    def _nnz(self) -> int:
        return int((self.positions if self._kind is sparse_coo else self.positions[1]).shape[-1])

    def is_coalesced(self) -> bool:
        """Whether every position appears once, in row-major order."""
        expect(self, _COO, "is_coalesced")
        return self.coalesced

    def _coalesced_(self, coalesced: bool) -> SparseTensor:
        """Set whether every position appears once, in row-major order, without a check."""
        expect(self, _COO, "_coalesced_").coalesced = bool(coalesced)
        return self

    def indices(self) -> Any:
        """Return the positions of a coalesced COO tensor, [sparse dimensions, nnz]."""
        return self._checked("indices").positions

    def values(self) -> Any:
        """Return the values, [nnz, ...]; in compressed layouts [batches ..., nnz, block ..., dense dimensions ...]."""
        return (self._checked("values") if self._kind is sparse_coo else self).stored

    def _checked(self, name: str) -> SparseTensor:
        expect(self, _COO, name)
        if not self.coalesced:
            raise ArgumentError(name, f"an uncoalesced tensor: Cannot get {name} on an uncoalesced tensor",
                                "positions of a coalesced tensor appear once", "call .coalesce() first")
        return self

    def _indices(self) -> Any:
        return expect(self, _COO, "_indices").positions

    def _values(self) -> Any:
        return self.raw

    def crow_indices(self) -> Any:
        """Return the starts of the rows, [..., rows + 1]."""
        return expect(self, _ROWS, "crow_indices").positions[0]

    def col_indices(self) -> Any:
        """Return the columns of the values, [..., nnz]."""
        return expect(self, _ROWS, "col_indices").positions[1]

    def ccol_indices(self) -> Any:
        """Return the starts of the columns, [..., columns + 1]."""
        return expect(self, _COLUMNS, "ccol_indices").positions[0]

    def row_indices(self) -> Any:
        """Return the rows of the values, [..., nnz]."""
        return expect(self, _COLUMNS, "row_indices").positions[1]

    # ------------------------------------------------------------------------------------------ autograd

    @property
    def stored(self) -> Any:
        """Values through which gradients pass, [nnz, ...]; dimensions after the first are dense."""
        return Stored.apply(self) if records((self,)) else self.raw

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
                 inputs: Any = None) -> None:
        """Add the gradients of this tensor to the leaves' ``grad``; ``gradient`` is dense or sparse."""
        differentiate.backward((self,), (gradient,), retain_graph, create_graph, inputs=inputs)

    def alias(self) -> SparseTensor:
        """Return a tensor of the same parts that is detached from the graph."""
        return like(self, self.raw)

    def _cut(self) -> SparseTensor:
        """Return an ``alias`` that shares the version counter, as recording needs it."""
        made = self.alias()
        if self._version_counter is None:
            self._version_counter = [0]
        made._version_counter = self._version_counter
        return made

    # ------------------------------------------------------------------------------------------ presentation

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        if self._kind is sparse_coo:
            parts = {"indices": self.positions}
        else:
            names = ("crow_indices", "col_indices") if self._kind in _ROWS else ("ccol_indices", "row_indices")
            parts = dict(zip(names, self.positions, strict=True))
        return format_sparse(self, {**parts, "values": self.raw})

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuilt, (self.positions, self.raw, tuple(self.shape), self._kind, self.coalesced,
                          self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        made = memo[id(self)] = RULES["clone"](self.alias())
        made.requires_grad_(self.requires_grad)
        return made  # type: ignore[no-any-return]


def _rebuilt(positions: Any, values: Any, size: tuple[int, ...], kind: layout, whole: bool,
             requires_grad: bool) -> Any:
    made = wrap_sparse(positions, values, size, kind, whole)
    return made.requires_grad_(requires_grad)


def wrap_sparse(positions: Any, values: Any, size: Any, kind: layout, coalesced: bool = False) -> SparseTensor:
    """Return a sparse tensor over these parts, without checking them."""
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
    """Replace the parts of a tensor, as operators do that write to it, and return it; see ``adopt``."""
    return adopt(target, wrap_sparse(positions, values, size, target._kind, whole))


def adopt(target: SparseTensor, made: SparseTensor) -> SparseTensor:
    """Give a tensor the parts and the history of another one, and return it.

    Raises:
        AutogradError: The target is a leaf that requires grad, or the graph cannot represent the change.
    """
    if target.is_leaf and target.requires_grad and is_grad_enabled():
        raise AutogradError("sparse", "a leaf that requires grad and is written", "leaves that require grad keep their "
                            "values while gradients are recorded", "use tensocket.no_grad(), or write to a copy")
    target._array, target._key = made._array, made._key
    target._grad_fn = made._grad_fn
    target.positions, target.raw, target.coalesced = made.positions, made.raw, made.coalesced
    return target


def like(source: SparseTensor, values: Any) -> SparseTensor:
    """Return a tensor with other values at the same positions."""
    return wrap_sparse(source.positions, values, source.shape, source._kind, source.coalesced)


def detached(source: SparseTensor) -> SparseTensor:
    """Return the tensor detached from the graph."""
    return source.alias()


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse tensor."""
    return isinstance(value, SparseTensor)


def expect(tensor: Any, kinds: tuple[layout, ...], name: str) -> Any:
    """Check a tensor's layout and return the tensor.

    Raises:
        LayoutError: The tensor has another layout.
    """
    if getattr(tensor, "_kind", None) not in kinds:
        words = _WORDS[kinds]
        raise LayoutError(name, f"a tensor of layout {tensor.layout!r}", f"{name} expected {words} tensor layout but "
                          f"got {CAMEL[tensor.layout.name]}", "convert it to another layout first")
    return tensor


__all__ = ["PARTS", "RULES", "SparseTensor", "sparse_rule", "wrap_sparse"]
