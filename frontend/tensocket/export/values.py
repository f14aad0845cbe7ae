"""Values of nodes: forms of tensors whose sizes have names, and the operator that reads a size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core.dispatch.packets import AtenOverloads, OperatorName
from tensocket_core.formats import strided
from tensocket_core.tensor import Size
from tensocket_operators.graph_functions import FUNCTIONS_OF_GRAPHS


class SymbolicSize(int):
    """A size that changes from call to call: an example of it, printed by its name.

    Attributes:
        name: The name, an expression of symbols.
    """

    name: str

    def __new__(cls, value: int, name: str) -> SymbolicSize:
        """Return a size."""
        made = super().__new__(cls, value)
        made.name = name
        return made

    def __reduce__(self) -> Any:
        return SymbolicSize, (int.__index__(self), self.name)

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


class TensorValue:
    """The form of a tensor.

    Args:
        sizes: The sizes, of which some have names.
        dtype: The dtype.
        device: The device.
        requires_grad: Whether it requires a gradient.
        strides: The strides of an example; none for sparse tensors.
        layout: The layout.

    Attributes:
        shape: The sizes.
        dtype: The dtype.
        device: The device.
        requires_grad: Whether it requires a gradient.
        layout: The layout.
    """

    def __init__(self, sizes: Sequence[int], dtype: Any, device: Any, requires_grad: bool, strides: Sequence[int],
                 layout: Any) -> None:
        self.shape = tuple.__new__(Size, sizes)
        self.dtype, self.device, self.layout = dtype, device, layout
        self.requires_grad = requires_grad
        self._stride = tuple(strides)

    @classmethod
    def of(cls, tensor: Any, sizes: Sequence[int]) -> TensorValue:
        """Return the form of a tensor with other sizes, some of which have names."""
        strides = () if tensor.layout is not strided else tensor.stride()
        return cls(sizes, tensor.dtype, tensor.device, bool(tensor.requires_grad), strides, tensor.layout)

    def size(self, dim: int | None = None) -> Any:
        """Return the sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def numel(self) -> int:
        """Return the number of elements of the example."""
        return self.shape.numel()

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides of the example, or one of them."""
        return self._stride if dim is None else self._stride[dim]

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.shape)) + ("," if len(self.shape) == 1 else "")
        dtype = "" if str(self.dtype).endswith("float32") else f", dtype=torch.{str(self.dtype).rpartition('.')[2]}"
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"FakeTensor(..., size=({sizes}){dtype}{grad})"


class GraphOperator(AtenOverloads):
    """A function that graphs call by a name in ``aten``, and that no operator's record stands for.

    Args:
        name: The name.
        function: The function.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self._function = OperatorName(name), function
        FUNCTIONS_OF_GRAPHS[name] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._function(*args, **kwargs)

    def __reduce__(self) -> Any:
        return FUNCTIONS_OF_GRAPHS.__getitem__, (self.name,)


def _size(input: Any, dim: Any) -> Any:
    """Return the size of a dimension."""
    return input.size(dim)


#: The operator ``aten.sym_size.int`` of graphs, which returns the size of a dimension.
sym_size: Final = GraphOperator("sym_size", _size)


class Symbol:
    """A name of a size among the range constraints."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return str(other) == self.name if isinstance(other, (Symbol, str)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


class ValueRanges:
    """A range of sizes.

    Attributes:
        lower: The smallest size.
        upper: The largest size; infinity without a limit.
    """

    def __init__(self, lower: int, upper: float) -> None:
        self.lower, self.upper = lower, upper

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueRanges) and (self.lower, self.upper) == (other.lower, other.upper)

    def __hash__(self) -> int:
        return hash((self.lower, self.upper))

    def __contains__(self, size: int) -> bool:
        return self.lower <= size <= self.upper

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == float('inf') else self.upper}]"
