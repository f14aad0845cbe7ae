"""The class of masked tensors: a tensor and a mask that says which of its elements are valid.

Calls arrive in two places. ``__torch_function__`` comes first; the rule for the function takes the data of its
arguments (``get_data``, which passes gradients on), runs the function on these plain tensors, and joins results and
mask (``joined``). Autograd records everything between the two as for any other program, so a rule needs no derivative.
``__torch_dispatch__`` runs below autograd: for functions that consist of operators, for operators that change a tensor
with a history in place, and for calls of the runtime itself. It uses the same rules.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from tensocket_core.autograd import differentiate
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.formats import contiguous_format, layout, sparse_coo, sparse_csr, strided
from tensocket_operators import Tensor, functions
from tensocket_operators.differentiation.function import Function
from tensocket_operators.sparse.masked import where_masked
from tensocket_operators.sparse.recording import records
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

F = TypeVar("F", bound=Callable[..., Any])
#: Takes the function, its positional arguments and its keywords.
Rule = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
#: Rules by the name of the function or operator.
RULES: Final[dict[str, Rule]] = {}
_LAYOUTS: Final = (strided, sparse_coo, sparse_csr)
_DTYPES: Final = (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bool_, dtypes.int8, dtypes.int16,
                  dtypes.int32, dtypes.int64)


def rule(*names: str) -> Callable[[F], F]:
    """Register the decorated rule for functions and operators of these names."""

    def register(function: F) -> F:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


class MaskedTensor(Tensor):
    """A tensor of which only the elements that a mask holds are valid.

    ``MaskedTensor(data, mask, requires_grad=False)`` copies both and is a leaf.

    Args:
        data: A tensor in layout ``strided``, ``sparse_coo`` or ``sparse_csr``.
        mask: Bools of the same shape, in the same layout, at the same positions.
        requires_grad: Whether gradients are computed for it; they are masked tensors, too.

    Raises:
        ArgumentTypeError: One of them is not a plain tensor, their layouts differ or are unsupported, the mask does not
            consist of bools, or the data have an unsupported dtype.
        ArgumentError: Their shapes or positions differ.
    """

    _masked_data: Any
    _masked_mask: Any

    @staticmethod
    def __new__(cls: Any, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        """Return a leaf of copies of data and mask."""
        for name, value in (("data", data), ("mask", mask)):
            if is_masked_tensor(value) or not isinstance(value, Tensor):
                raise ArgumentTypeError("masked_tensor", f"a {type(value).__name__} as {name}: {name} must be a Tensor",
                                        "a masked tensor is made of two plain ones", "pass a tensor")
        if data.requires_grad and STATE.grad_enabled:
            warnings.warn("It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid "
                          "this, you can use data.detach().clone()", UserWarning, stacklevel=2)
        with thread_state(overrides_off=False):
            data, mask = _checked(data.detach(), mask.detach())
        made = Tensor._make_wrapper_subclass(
            cls, data.size(), strides=data.stride() if data.layout is strided else None, dtype=data.dtype,
            layout=data.layout, device=data.device, requires_grad=requires_grad)
        made._masked_data, made._masked_mask = data, mask
        return made

    @staticmethod
    def _from_values(data: Any, mask: Any) -> Any:
        return _Constructor.apply(data, mask)

    def _set_data_mask(self, data: Any, mask: Any) -> None:
        self._masked_data, self._masked_mask = data, mask

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Run the rule for a function, if there is one.

        Composite functions have no rules, as they may count elements outside of the mask.

        Raises:
            ArgumentTypeError: An operator has no rule.
        """
        given = kwargs or {}
        if func is differentiate.grad:
            return differentiate.computed(*args, **given)
        name = name_of(func)
        handled = RULES.get(name)
        # The operator records in-place changes of tensors with a history.
        if handled is not None and not (name.endswith("_") and not name.endswith("__") and records(args)):
            return handled(func, args, given)
        if handled is None and name in COMPOSITES:
            raise _unknown(name)
        with thread_state(overrides_off=True):
            return func(*args, **given)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Run the rule for an operator.

        Raises:
            ArgumentTypeError: The operator has no rule.
        """
        handled = RULES.get(func.name)
        if handled is None:
            raise _unknown(func.name)
        with thread_state(overrides_off=False):
            return handled(func, args, kwargs or {})

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
                 inputs: Any = None) -> None:
        """Add the gradients of this tensor to the leaves' ``grad``; the first gradient is masked or plain."""
        differentiate.backward((self,), (gradient,), retain_graph, create_graph, inputs=inputs)

    # ------------------------------------------------------------------------------------------ components

    def get_data(self) -> Any:
        """Return the data, including elements outside of the mask; their gradients are masked."""
        return _Data.apply(self)

    def get_mask(self) -> Any:
        """Return the mask."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Any:
        """Return the data with ``value`` outside of the mask."""
        return self.get_data().masked_fill(~self.get_mask(), value)

    def is_sparse_coo(self) -> bool:
        """Whether the layout is ``sparse_coo``."""
        return self.layout is sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the layout is ``sparse_csr``."""
        return self.layout is sparse_csr

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether the layout is a sparse one."""
        return self.layout is not strided

    @property
    def layout(self) -> layout:
        """The layout of data and mask."""
        return self._masked_data.layout  # type: ignore[no-any-return]

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        """Whether the data are contiguous.

        Raises:
            ArgumentError: The layout is sparse.
        """
        refuse_sparse(self, "is_contiguous")
        return bool(self._masked_data.is_contiguous(memory_format=memory_format))

    # ------------------------------------------------------------------------------------------ presentation

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        if self.ndim == 0:
            held = self._masked_mask.item()
            return f"MaskedTensor({_word(self._masked_data.item()) if held else '--'}, {held})"
        data, mask = (x.to_dense() if x.layout is not strided else x for x in (self._masked_data, self._masked_mask))
        return "MaskedTensor(\n" + _indented(_lines(data.tolist(), mask.tolist(), self.ndim)) + "\n)"


def _unknown(name: str) -> ArgumentTypeError:
    return ArgumentTypeError(name, "a MaskedTensor", "the operator is not implemented in __torch_dispatch__ for "
                             "MaskedTensor", "take the data with get_data() or to_tensor(value)")


def _checked(data: Any, mask: Any) -> tuple[Any, Any]:
    """Return copies of matching data and mask."""
    if data.layout is not mask.layout:
        raise ArgumentTypeError("masked_tensor", f"layouts {data.layout!r} and {mask.layout!r}: data and mask must "
                                "have the same layout.", "the mask has an element for each of the data",
                                "convert one of them")
    if data.layout not in _LAYOUTS:
        raise ArgumentTypeError("masked_tensor", f"data layout of {data.layout} is not supported.",
                                "the layout is strided, sparse_coo or sparse_csr", "convert both of them")
    if mask.dtype is not dtypes.bool_:
        raise ArgumentTypeError("masked_tensor", f"a mask of dtype {mask.dtype.name}: mask must have dtype bool.",
                                "an element counts or does not", "compare the mask with 0")
    if data.dtype not in _DTYPES:
        raise ArgumentTypeError("masked_tensor", f"{data.dtype} is not supported in MaskedTensor.",
                                "dtypes are bool, signed integers, float16, float32 and float64", "convert the data")
    for name, first, second in (("dim", data.dim(), mask.dim()), ("size", list(data.size()), list(mask.size()))):
        if first != second:
            raise ArgumentError("masked_tensor", f"{first} and {second}: data.{name}() must equal mask.{name}()",
                                "the mask has an element for each of the data", "expand the mask")
    if data.layout is sparse_coo:
        data, mask = data.coalesce(), mask.coalesce()
    if data.layout is not strided:
        if data._nnz() != mask._nnz():
            data = where_masked(mask, data, 0)
        _check_positions(data, mask)
    return data.clone(), mask.clone()


def _positions(tensor: Any) -> tuple[Any, ...]:
    if tensor.layout is sparse_coo:
        return (tensor.indices(),)
    return tensor.crow_indices(), tensor.col_indices()


def same_positions(first: Any, second: Any) -> bool:
    """Whether two sparse tensors of one layout store the same positions."""
    return all(_equal(x, y) for x, y in zip(_positions(first), _positions(second), strict=True))


def _equal(first: Any, second: Any) -> bool:
    return tuple(first.shape) == tuple(second.shape) and bool((first == second).all())


def _check_positions(data: Any, mask: Any) -> None:
    if not same_positions(data, mask):
        words = ("COO tensors but do not have the same indices." if data.layout is sparse_coo else
                 "CSR tensors but do not share either crow or col indices.")
        raise ArgumentError("masked_tensor", f"other positions: data and mask are both sparse {words}",
                            "the mask has an element for each of the data", "make the data with data.sparse_mask(mask)")


def refuse_sparse(masked: Any, name: str) -> None:
    """Raise an error unless the layout is strided.

    Raises:
        ArgumentError: The layout is sparse.
    """
    if masked.layout is not strided:
        raise ArgumentError(name, f"layout {masked.layout!r}: MaskedTensors with sparse data do not have {name}",
                            "memory of sparse tensors has no order of dimensions", "convert it with to_dense() first")


# ------------------------------------------------------------------------------------------------------------- autograd


class _Data(Function):
    """The data of a masked tensor."""

    @staticmethod
    def forward(ctx: Any, masked: Any) -> Any:
        ctx.mask = masked._masked_mask
        return masked._masked_data.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if is_masked_tensor(grad):
            return grad
        return as_masked_tensor(_laid_out(grad, ctx.mask), ctx.mask)


class _Constructor(Function):
    """A masked tensor of a tensor with a history, which gets masked gradients."""

    @staticmethod
    def forward(ctx: Any, data: Any, mask: Any) -> Any:
        return MaskedTensor(data, mask)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


class _Joined(Function):
    """A masked tensor of the result of a rule, which gets plain gradients: 0 outside of the mask."""

    @staticmethod
    def forward(ctx: Any, data: Any, mask: Any) -> Any:
        ctx.mask = mask
        return MaskedTensor(data, mask)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        mask = ctx.mask
        if is_masked_tensor(grad):
            grad, mask = grad.get_data(), grad._masked_mask
        grad = _laid_out(grad, mask)
        return functions.where(mask, grad, 0) if mask.layout is strided else where_masked(mask, grad, 0), None


def _laid_out(grad: Any, mask: Any) -> Any:
    """Convert a plain gradient to the layout of a mask."""
    if grad.layout is mask.layout:
        return grad
    dense = grad if grad.layout is strided else grad.to_dense()
    return dense if mask.layout is strided else dense.sparse_mask(mask)


def joined(data: Any, mask: Any) -> Any:
    """Join data and mask to the result of a rule."""
    return _Joined.apply(data, mask)


def as_masked_tensor(data: Any, mask: Any) -> Any:
    """Return a masked tensor that passes masked gradients on to ``data``."""
    return _Constructor.apply(data, mask)


# -------------------------------------------------------------------------------------------------------------- helpers


def name_of(func: Callable[..., Any]) -> str:
    """Return the name by which rules know a function, a method or an operator."""
    return func.__name__.removeprefix("method_")


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether an object is a masked tensor."""
    return isinstance(obj, MaskedTensor)


def data_of(value: Any) -> Any:
    """Return the data of masked tensors in an argument; other values unchanged."""
    return _mapped(value, lambda x: x.get_data() if is_masked_tensor(x) else x)


def mask_of(value: Any) -> Any:
    """Return the masks of masked tensors in an argument, and masks that are true everywhere for other tensors."""
    return _mapped(value, lambda x: x._masked_mask if is_masked_tensor(x) else x.new_ones(
        tuple(x.shape), dtype=dtypes.bool_))


def _mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    return type(value)(_mapped(x, function) for x in value) if type(value) in (tuple, list) else value


def masked_among(values: Any) -> Iterator[Any]:
    """Return the masked tensors among arguments and in their lists."""
    for value in values:
        if is_masked_tensor(value):
            yield value
        elif type(value) in (tuple, list):
            yield from masked_among(value)


def _tensors_match(a: Any, b: Any, exact: bool = True, rtol: float = 1e-05, atol: float = 1e-08) -> bool:
    """Whether two tensors of one layout have the same positions and equal (or close) elements.

    Raises:
        ArgumentError: One of them is masked, or their layouts differ.
    """
    if is_masked_tensor(a) or is_masked_tensor(b):
        raise ArgumentError("_tensors_match", "a masked tensor: Neither `a` nor `b` can be a MaskedTensor.",
                            "plain tensors are compared", "take get_data() and get_mask()")
    if a.layout is not b.layout:
        raise ArgumentError("_tensors_match", f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}",
                            "plain tensors of one layout are compared", "convert one of them")
    b = b.to(a.dtype)
    if a.layout is not strided:
        return same_positions(a, b) and _tensors_match(a.values(), b.values(), exact, rtol, atol)
    if a.dim() != b.dim():
        return False
    return bool((a == b).all()) if exact else bool(functions.allclose(a, b, rtol=rtol, atol=atol))


def _masks_match(a: Any, b: Any) -> bool:
    """Whether two masked tensors have the same mask; other arguments always match."""
    if not (is_masked_tensor(a) and is_masked_tensor(b)):
        return True
    first, second = a._masked_mask, b._masked_mask
    return first.layout is second.layout and _tensors_match(first, second)


def _word(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data: Any, mask: Any, depth: int) -> str:
    """Return nested lists of elements, with -- outside of the mask."""
    if depth == 1:
        words = [_word(x) for x in data]
        width = max((len(w) if held else 8 for w, held in zip(words, mask, strict=True)), default=0)
        return "[" + ", ".join(w if held else "--".rjust(width) for w, held in zip(words, mask, strict=True)) + "]"
    rows = (_indented(_lines(x, y, depth - 1)) for x, y in zip(data, mask, strict=True))
    return "[\n" + ",\n".join(rows) + "\n]"


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))
