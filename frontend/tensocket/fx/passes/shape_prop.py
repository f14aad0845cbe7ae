"""Shapes of all results, from running the graph on examples."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from tensocket.errors import ArgumentError
from tensocket_core.formats import memory_format
from tensocket_core.tensor import Size
from tensocket_operators import Tensor
from tensocket_plugins.contract.dtypes import DType

from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate


class TensorMetadata(NamedTuple):
    """Properties of a tensor without its values.

    Attributes:
        shape: The shape.
        dtype: The dtype.
        requires_grad: Whether gradients are computed.
        stride: Elements between neighbours, per dimension.
        memory_format: The memory format; None if it is none of the known ones.
        is_quantized: Always false: quantized tensors do not exist here.
        qparams: Parameters of the quantization, none.
    """

    shape: Any
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool = False
    qparams: dict[str, Any] = {}  # noqa: RUF012  a named tuple's default


def _formats() -> list[Any]:
    from tensocket import channels_last, channels_last_3d, contiguous_format

    return [contiguous_format, channels_last, channels_last_3d]


def _extract_tensor_metadata(result: Any, include_contiguity: bool = True) -> TensorMetadata:
    """Return the properties of a tensor.

    Args:
        result: The tensor.
        include_contiguity: Whether the memory format is found out.
    """
    dims = {4: 1, 5: 2}
    formats = _formats()
    found = None
    if include_contiguity and not result.is_sparse:
        possible = [formats[0], *([formats[dims[result.dim()]]] if result.dim() in dims else [])]
        found = next((form for form in possible if result.is_contiguous(memory_format=form)), None)
    return TensorMetadata(Size(result.shape), result.dtype, result.requires_grad,
                          () if result.is_sparse else tuple(result.stride()), found)


class ShapeProp(Interpreter):
    """Runs a graph on examples, and sets ``node.meta["tensor_meta"]`` and ``["type"]`` of every node.

    Args:
        gm: The module.
        fake_mode: A mode in which tensors have no values; results are then shapes only.
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """Run a node and note the shape of its result.

        Raises:
            ArgumentError: The node fails.
        """
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                with self.fake_mode:
                    result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise ArgumentError("ShapeProp", f"node {n.format_node()}", f"ShapeProp error for: "
                                f"node={n.format_node()} with meta={n.meta}", f"run the module on these "
                                                      f"examples: {error}") from error
        found = False

        def note(leaf: Any) -> Any:
            nonlocal found
            if isinstance(leaf, Tensor):
                found = True
                return _extract_tensor_metadata(leaf)
            return leaf

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on examples, and return its result."""
        if self.fake_mode is not None:
            args = tuple(self.fake_mode.from_tensor(arg) if isinstance(arg, Tensor) else arg for arg in args)
        return super().run(*args)
