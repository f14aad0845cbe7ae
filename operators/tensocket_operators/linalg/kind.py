"""Matrix products: the vendor's kernel if there is one, else a generated or primitive one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.operator import check_dtype
from tensocket_core.geometry import Shape, broadcast_shapes, coalesce, element_strides, expand
from tensocket_core.keys import AUTOGRAD, DIM0, DTYPE_MASK, dtype_bit
from tensocket_core.launch import host_kernels
from tensocket_core.launch.entries import build_product
from tensocket_core.launch.path import HostKernel, LadderOperator, Signature
from tensocket_core.launch.primitives import primitive
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_core.promotion import FLOAT8
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import DType, complex32, float32, float64
from tensocket_plugins.contract.errors import DtypeError, ShapeError, UndefinedDtype, UnsupportedDtype
from tensocket_plugins.ir.build import nest
from tensocket_plugins.ir.strategies import Strategy
from tensocket_plugins.kit.host_memory import call_pooled

from ..kinds.private import private

#: Elements of both operands up to which a product is small.
_FEW: Final = 4096

#: Dtypes with native products, by their keys.
NATIVE: Final[dict[int, DType]] = {dtype_bit(dtype): dtype for dtype in (float32, float64)}


class MatMul(LadderOperator):
    """Record of ``name(Tensor input, Tensor other)`` in at least two dimensions; leading ones are batches."""

    kind = "matmul"
    paths = (HostKernel(),)

    def compose(self, call: Signature) -> Callable[..., Any]:
        """Return the general closure."""
        return private(self.name, partial(self.run, call.state))

    def host_closure(self, call: Signature, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return an entry over the library's product, for dtypes that it has."""
        dtype = NATIVE.get(call.key & (DTYPE_MASK | AUTOGRAD | DIM0))
        return None if dtype is None else build_product("product", call.state, dtype, call.key, next_path)

    def run(self, state: DeviceState, input: Any, other: Any) -> Any:
        """Check the operands, compute and wrap the product."""
        dtype = input.dtype
        if other.dtype is not dtype:
            raise DtypeError(self.name, f"{dtype.name} and {other.dtype.name}", "both operands have one dtype",
                             "convert one of them with .to(dtype)")
        check_dtype(self.name, state, dtype)
        if dtype.kind == "bool":
            raise UnsupportedDtype(
                self.name,
                f"bool on {state.device}",
                "matrix products are defined for numbers",
                "convert with .to(dtype)",
            )
        if dtype in FLOAT8 or dtype is complex32:
            raise UndefinedDtype(self.name, f"dtype {dtype.name}", "float8 dtypes are for storage" if dtype in FLOAT8
                                 else "products of matrices are not of complex32",
                                 "convert with .to(dtype)")
        x, y = input._array, other._array
        if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-2]:
            raise ShapeError(self.name, f"shapes {list(x.shape)} and {list(y.shape)}",
                             "the last size of the first must equal the second-to-last of the second",
                             "transpose or reshape one of them")
        key = state.key | dtype_bit(dtype)
        runtime = state.runtime
        batch = broadcast_shapes(self.name, [x.shape[:-2], y.shape[:-2]])
        kernel = runtime.kernels.find(self.name, dtype.name, direct=True) if runtime.profile.host_resident else None
        if kernel is not None:
            run = host_kernels.quietly(kernel)
            few = x.size + y.size < _FEW
            return wrap(run(x, y) if few else call_pooled(self.name, run, x, y), key)
        shape = (*batch, x.shape[-2], y.shape[-1])
        out = runtime.empty(shape, dtype, state.stream)
        if dtype.is_complex and runtime.kernels.find(self.name, dtype.name, direct=False) is None:
            return self._by_parts(state, input.detach(), other.detach(), wrap(out, key))
        if 0 not in shape:
            self._run(state, out, expand(x, (*batch, *x.shape[-2:])), expand(y, (*batch, *y.shape[-2:])), dtype)
        return wrap(out, key)

    def _by_parts(self, state: DeviceState, input: Any, other: Any, out: Any) -> Any:
        """Compute a complex product as four real ones."""
        (a, b), (c, d) = ((x.real.contiguous(), x.imag.contiguous()) for x in (input, other))
        out.real.copy_(self.run(state, a, c) - self.run(state, b, d))
        out.imag.copy_(self.run(state, a, d) + self.run(state, b, c))
        return out

    def _run(self, state: DeviceState, out: Any, x: Any, y: Any, dtype: DType) -> None:
        runtime = state.runtime
        if runtime.target is None or runtime.kernels.find(self.name, dtype.name, direct=False) is not None:
            primitive(self.name, state, "matmul", dtype)([out], [x, y], (), state.stream)
            return
        depth = x.shape[-1]
        batch: Shape
        batch, (x_batch, y_batch) = coalesce(out.shape[:-2], [element_strides(x)[:-2], element_strides(y)[:-2]])
        x_steps, y_steps = (*x_batch, *element_strides(x)[-2:]), (*y_batch, *element_strides(y)[-2:])
        if out.ndim == 2:
            batch, x_steps, y_steps = (), element_strides(x), element_strides(y)
        index = index_dtype(state, (out.size, x.size, y.size, _reach(x), _reach(y)))
        launch(state, (self.name, dtype, len(batch), index), lambda: nest.matmul_nest(dtype, len(batch), index),
               Strategy.SERIAL, [out, x, y], [*batch, *out.shape[-2:], depth, *x_steps, *y_steps])


def _reach(array: Any) -> int:
    return sum((n - 1) * abs(s) for n, s in zip(array.shape, element_strides(array), strict=True))
