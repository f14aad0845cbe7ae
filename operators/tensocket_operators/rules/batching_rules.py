"""Batching rules: one per kind of record, some for single operators, and a loop over examples for all others."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.formats import contiguous_format
from tensocket_core.geometry import element_strides, normalize_axes, normalize_axis, normalize_shape
from tensocket_core.promotion import result_type
from tensocket_core.strides import reach
from tensocket_core.transforms.batching import KINDS, Info, aligned, batching_rule, logical, rank, spread
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ShapeError, TransformError

from ..kinds.inplace import InPlace
from ..kinds.normalized_row import RowOperator
from ..kinds.pointwise import Pointwise
from ..kinds.reduction import Reduction
from ..kinds.row import SoftmaxLike
from ..kinds.view import View
from ..linalg.kind import MatMul
from ..pointwise.inplace import basic_put_, copy_
from ..shapes import views
from ..shapes.arranged import Arranged
from ..shapes.views import sizes


def _converted(info: Info, values: list[Any], first: int, count: int) -> list[Any]:
    """Convert operands to the dtype to which single examples promote, if batches would promote differently.

    A zero-dimensional example has less weight in promotion than a batch of them.
    """
    operands = values[first:count]
    if len({x.dtype for x in operands if hasattr(x, "_key")}) < 2:
        return values
    dtype: DType = result_type(info.args[first:count])
    return [x.to(dtype) if hasattr(x, "_key") and first <= k < count else x for k, x in enumerate(values)]


def pointwise(info: Info, in_dims: Any, *args: Any) -> Any:
    """Run with all examples aligned to one rank; the batch broadcasts like any leading dimension."""
    operator = info.operator
    count = operator.count
    ranks = [rank(x, d) for x, d in zip(args[:count], in_dims, strict=False) if hasattr(x, "_key")]
    wide = max(ranks)
    values = [aligned(x, d, wide) if hasattr(x, "_key") else x for x, d in zip(args, in_dims, strict=True)]
    return call(operator, *_converted(info, values, int(operator.condition), count)), 0


def pointwise_inplace(info: Info, in_dims: Any, target: Any, *args: Any) -> Any:
    """Run like ``pointwise``, at the target's rank."""
    wide = rank(target, 0)
    values = [aligned(x, d, wide) if hasattr(x, "_key") else x for x, d in zip(args, in_dims[1:], strict=True)]
    return call(info.operator, target, *values), 0


def view(info: Info, in_dims: Any, input: Any, *args: Any) -> Any:
    """Return any view: its layout on one example, preceded by the batch's size and stride.

    Raises:
        TransformError: The view changes the dtype, which strides do not describe.
        ShapeError: The view extends beyond the example's elements.
    """
    example = logical(input, 0)
    seen = info.operator.view(example, *args)
    if seen.dtype is not example.dtype:
        raise TransformError(info.operator.name, f"a view of {example.dtype.name} as {seen.dtype.name}",
                             "views of batches keep the dtype", "register a batching rule for the operator")
    _check_within(info.operator.name, example, seen)
    shape, strides = (info.batch_size, *seen.shape), (input.stride(0), *seen.strides)
    base = (tuple(input.shape), element_strides(input._array))
    return call(views.strided, input, shape, strides, seen.offset - example.offset, base), 0


def _check_within(name: str, example: DeviceArray, seen: DeviceArray) -> None:
    first, held = seen.offset - example.offset, reach(example.shape, example.strides)
    if 0 not in seen.shape and (first < 0 or first + reach(seen.shape, seen.strides) > held):
        raise ShapeError(name, f"size {list(seen.shape)}, stride {list(seen.strides)} and offset {seen.offset} for an "
                         f"example that spans {held} elements: {name} can access memory outside of `tensor`",
                         "views in vmap stay within the elements of their example",
                         "choose a smaller size, stride or offset")


def reduction(info: Info, in_dims: Any, input: Any, dim: Any = None, *rest: Any) -> Any:
    """Run with dimensions counted after the batch; a zero-dimensional example gets one of size 1 to reduce."""
    operator, dims = info.operator, rank(input, 0)
    at = operator.schema.names.index("keepdim") - 2 if "keepdim" in operator.schema.names else None
    keepdim = at is not None and rest[at]
    axes = normalize_axes(operator.name, dim, dims) if dims else normalize_axes(operator.name, dim, 1)
    whole = operator.schema.parameters[1].type == "int"
    if dims == 0:
        input, keepdim = input.unsqueeze(1), False
        axes = (0,)
    elif whole and dim is None:
        input = input.reshape((info.batch_size, -1))
        axes = (0,)
    extra = list(rest)
    if at is not None:
        extra[at] = keepdim and not (whole and dim is None)
    result = call(operator, input, axes[0] + 1 if whole else tuple([k + 1 for k in axes]), *extra)
    if keepdim and whole and dim is None:
        result = result.reshape((info.batch_size, *(1,) * dims))
    return result, 0


def row(info: Info, in_dims: Any, *args: Any) -> Any:
    """Run with the row's dimension counted after the batch."""
    count = info.operator.count
    values = [spread(info, x, d) for x, d in zip(args[:count], in_dims[:count], strict=True)]
    dims, numbers = rank(values[0], 0), args[count:-1]
    axis = normalize_axis(info.operator.label, args[-1], dims)
    if dims:
        return call(info.operator, *values, *numbers, axis + 1), 0
    return call(info.operator, *[x.unsqueeze(1) for x in values], *numbers, 1).squeeze(1), 0


def broad_row(info: Info, in_dims: Any, *args: Any) -> Any:
    """Run with row dimensions counted from the end; operands broadcast to the first one, which gets the batch."""
    count = info.operator.count
    first = spread(info, args[0], in_dims[0])
    wide = rank(first, 0)
    others = [x if x is None else aligned(x, d, wide) for x, d in zip(args[1:count], in_dims[1:count], strict=True)]
    result = call(info.operator, first, *others, *args[count:])
    return result, (0,) * len(result) if isinstance(result, tuple) else 0


def matmul(info: Info, in_dims: Any, input: Any, other: Any) -> Any:
    """Run with the batch before the other leading dimensions."""
    wide = max(rank(input, in_dims[0]), rank(other, in_dims[1]))
    return call(info.operator, aligned(input, in_dims[0], wide), aligned(other, in_dims[1], wide)), 0


def arranged(info: Info, in_dims: Any, input: Any, *args: Any) -> Any:
    """Run as it is: dimensions count from the last one."""
    return call(info.operator, input, *args), 0


def loop(info: Info, in_dims: Any, *args: Any) -> Any:
    """Run one call per example, and stack the results.

    Raises:
        TransformError: The batch has no examples, or a result is not a tensor.
    """
    operator = info.operator
    warnings.warn(f"vmap has no rule for {operator.name} and calls it once per example; "
                  f"register_batching_rule gives it one", UserWarning, stacklevel=2)
    if info.batch_size == 0:
        raise TransformError(operator.name, "a batch of no examples", "an operator without batching rule is called "
                             "once per example at least", "register a batching rule for it")
    results = [call(operator, *[_example(x, d, k) for x, d in zip(args, in_dims, strict=True)])
               for k in range(info.batch_size)]
    if operator.kind == "inplace":
        return args[0], 0
    return _stacked(operator.name, results), 0


def _example(value: Any, dim: Any, k: int) -> Any:
    if isinstance(dim, list):
        return type(value)([_example(x, d, k) for x, d in zip(value, dim, strict=True)])
    return value if dim is None else value.select(0, k)


def _stacked(name: str, results: list[Any]) -> Any:
    first = results[0]
    if isinstance(first, tuple):
        parts = [_stacked(name, [result[k] for result in results]) for k in range(len(first))]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if not hasattr(first, "_key"):
        raise TransformError(name, f"a result of type {type(first).__name__}", "results of batched calls are tensors",
                             "call it outside of vmap")
    if len({tuple(result.shape) for result in results}) > 1:
        raise TransformError(name, "results of different shapes", "all examples have results of one shape",
                             "call it outside of vmap")
    return functions.stack(results)


def _kind(*classes: type) -> Callable[[Any], bool]:
    return lambda operator: isinstance(operator, classes)


KINDS.extend([(_kind(Pointwise), pointwise), (_kind(InPlace), pointwise_inplace), (_kind(View), view),
              (_kind(Reduction), reduction), (_kind(SoftmaxLike), row), (_kind(RowOperator), broad_row),
              (_kind(MatMul), matmul), (_kind(Arranged), arranged), (_kind(object), loop)])

# ---------------------------------------------------------------------------------------------------------- views


@batching_rule("view")
def _view(info: Info, in_dims: Any, input: Any, shape: Any) -> Any:
    if len(shape) == 1 and isinstance(shape[0], DType):
        return _retyped(info, in_dims, input, shape[0])
    array = logical(input, 0)
    return input.view((info.batch_size, *normalize_shape("view", sizes(shape), array.size))), 0


@batching_rule("view_dtype")
def _retyped(info: Info, in_dims: Any, input: Any, dtype: DType) -> Any:
    # The last dimension of an example changes with the element size; an example without dimensions keeps that size.
    whole = input if rank(input, 0) or input.shape[0] == 0 else input.select(0, 0)
    made = call(views.view_dtype, whole, dtype)
    return (made if whole is input else call(views.view_dtype, input, dtype)), 0


@batching_rule("transpose")
def _transpose(info: Info, in_dims: Any, input: Any, dim0: int, dim1: int) -> Any:
    dims = rank(input, 0)
    first, second = normalize_axis("transpose", dim0, dims), normalize_axis("transpose", dim1, dims)
    return input.transpose(first + bool(dims), second + bool(dims)), 0


@batching_rule("permute")
def _permute(info: Info, in_dims: Any, input: Any, dims: Any) -> Any:
    axes = [normalize_axis("permute", d, rank(input, 0)) + 1 for d in sizes(dims)]
    return input.permute((0, *axes)), 0


@batching_rule("expand")
def _expand(info: Info, in_dims: Any, input: Any, shape: Any) -> Any:
    wanted = sizes(shape)
    kept = rank(input, 0)
    full = tuple([input.shape[k - len(wanted)] if n == -1 and k >= len(wanted) - kept else n
                  for k, n in enumerate(wanted)])
    return aligned(input, 0, len(wanted)).expand((info.batch_size, *full)), 0


@batching_rule("unsqueeze")
def _unsqueeze(info: Info, in_dims: Any, input: Any, dim: int) -> Any:
    return input.unsqueeze(normalize_axis("unsqueeze", dim, rank(input, 0) + 1) + 1), 0


@batching_rule("squeeze")
def _squeeze(info: Info, in_dims: Any, input: Any, dim: Any) -> Any:
    dims = rank(input, 0)
    chosen = range(dims) if dim is None else [
        normalize_axis("squeeze", d, dims) for d in ((dim,) if isinstance(dim, int) else dim)]
    return input.squeeze(tuple([k + 1 for k in chosen if k < dims])), 0


@batching_rule("basic_index")
def _basic_index(info: Info, in_dims: Any, input: Any, index: Any) -> Any:
    return input.basic_index((slice(None), *index)), 0


@batching_rule("alias")
def _alias(info: Info, in_dims: Any, input: Any) -> Any:
    return input.alias(), 0


# ------------------------------------------------------------------------------------------------- copies, assignment


@batching_rule("t")
def _t(info: Info, in_dims: Any, input: Any) -> Any:
    return input.transpose(1, 2) if rank(input, 0) == 2 else input.alias(), 0


@batching_rule("clone")
def _clone(info: Info, in_dims: Any, input: Any, memory_format: Any = None) -> Any:
    # Memory formats fix the order of all dimensions, which do not include the batch.
    return input.clone(memory_format=contiguous_format if memory_format is contiguous_format else None), 0


@batching_rule("convert", "detach", "real_part", "imag_part", "conj", "_neg_view", "view_as_real", "view_as_complex",
               "without_windows")
def _same(info: Info, in_dims: Any, input: Any, *args: Any) -> Any:
    return call(info.operator, input, *args), 0


@batching_rule("embed_index")
def _embed_index(info: Info, in_dims: Any, input: Any, shape: Any, index: Any) -> Any:
    return call(info.operator, input, (info.batch_size, *shape), (slice(None), *index)), 0


@batching_rule("cat")
def _cat(info: Info, in_dims: Any, tensors: Any, dim: int) -> Any:
    dims = in_dims[0]
    # A tensor of shape [0] is skipped, regardless of the other shapes.
    pairs = [(x, d) for x, d in zip(tensors, dims, strict=True) if logical(x, d).shape != (0,)]
    values = [spread(info, x, d) for x, d in pairs or zip(tensors, dims, strict=True)]
    return functions.cat(values, normalize_axis("cat", dim, rank(values[0], 0)) + 1), 0


@batching_rule("blocks_on_diagonal")
def _blocks(info: Info, in_dims: Any, blocks: Any) -> Any:
    return call(info.operator, [spread(info, x, d) for x, d in zip(blocks, in_dims[0], strict=True)]), 0


@batching_rule("gather_valid")
def _gather(info: Info, in_dims: Any, input: Any, axis: int, index: Any) -> Any:
    return call(info.operator, spread(info, input, in_dims[0]), axis + 1, spread(info, index, in_dims[2])), 0


@batching_rule("scatter_valid")
def _scatter(info: Info, in_dims: Any, input: Any, axis: int, index: Any, src: Any, add: bool) -> Any:
    return call(info.operator, spread(info, input, in_dims[0]), axis + 1, spread(info, index, in_dims[2]),
                spread(info, src, in_dims[3]), add), 0


@batching_rule("sum_at")
def _sum_at(info: Info, in_dims: Any, grad: Any, index: Any, axis: int, shape: Any, ordered: bool) -> Any:
    return call(info.operator, spread(info, grad, in_dims[0]), spread(info, index, in_dims[1]), axis + 1,
                (info.batch_size, *shape), ordered), 0


@batching_rule("copy_", "fill_")
def _assign(info: Info, in_dims: Any, target: Any, value: Any, *args: Any) -> Any:
    if hasattr(value, "_key"):
        return call(copy_, target, aligned(value, in_dims[1], rank(target, 0)), False), 0
    return call(info.operator, target, value, *args), 0


@batching_rule("basic_put_")
def _basic_put(info: Info, in_dims: Any, target: Any, index: Any, src: Any) -> Any:
    wide = len(logical(target, 0)[tuple(index)].shape)
    return call(basic_put_, target, (slice(None), *index), aligned(src, in_dims[2], wide)), 0


# ------------------------------------------------------- factorisations, Fourier transforms, scans, sorting, search


@batching_rule("cholesky", "svdvals", "eigvalsh", "eig", "eigvals", "inv", "solve",
               "solve_triangular", "det", "slogdet")
def _matrices(info: Info, in_dims: Any, *args: Any) -> Any:
    """Run a function of the last two dimensions, with the same leading dimensions for all operands."""
    tensors = [(x, d) for x, d in zip(args, in_dims, strict=True) if hasattr(x, "_key")]
    wide = max(rank(x, d) for x, d in tensors)
    if len(tensors) < 2:
        return call(info.operator, *args), 0
    values = [aligned(spread(info, x, d), 0, wide) if hasattr(x, "_key") else x
              for x, d in zip(args, in_dims, strict=True)]
    return call(info.operator, *values), 0


#: By operator, the number of core (last) dimensions of each operand, if it is not two for all of them.
_CORES: Final = {"lu_exchange": (2, 1), "ormqr": (2, 1, 2), "ldl_solve": (2, 1, 2)}


@batching_rule("cholesky_ex", "lu_factor", "lu_exchange", "lu_triangles", "ldl_factor", "ldl_solve", "geqrf",
               "ormqr", "inv_ex", "solve_ex", "lstsq", "matrix_exp", "qr", "svd", "eigh")
def _factorizations(info: Info, in_dims: Any, *args: Any) -> Any:
    """Run like ``_matrices``, but with vectors among the operands and with several results."""
    places = [k for k, x in enumerate(args) if hasattr(x, "_key")]
    cores = dict(zip(places, _CORES.get(info.operator.name, (2,) * len(places)), strict=True))
    lead = max(rank(args[k], in_dims[k]) - cores[k] for k in places)
    values = [aligned(spread(info, x, d), 0, lead + cores[k]) if k in cores else x
              for k, (x, d) in enumerate(zip(args, in_dims, strict=True))]
    result = call(info.operator, *values)
    return result, (0,) * len(result) if isinstance(result, tuple) else 0


@batching_rule("pinv")
def _pinv(info: Info, in_dims: Any, input: Any, *args: Any) -> Any:
    if any(dim is not None for dim in in_dims[1:]) or in_dims[0] is None:
        return loop(info, in_dims, input, *args)
    return call(info.operator, input, *args), 0


@batching_rule("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "argsort", "select_position")
def _along(info: Info, in_dims: Any, input: Any, dim: int, *args: Any) -> Any:
    axis = normalize_axis(info.operator.name, dim, rank(input, 0))
    if input.ndim == 1:
        return call(info.operator, input.unsqueeze(1), 1, *args).squeeze(1), 0
    return call(info.operator, input, axis + 1, *args), 0


@batching_rule("logcumsumexp_adjoint", "logcumsumexp_tangent")
def _along_all(info: Info, in_dims: Any, *args: Any) -> Any:
    *tensors, dim = args
    axis = normalize_axis(info.operator.name, dim, rank(tensors[0], in_dims[0]))
    return call(info.operator, *[spread(info, x, d) for x, d in zip(tensors, in_dims, strict=False)], axis + 1), 0


@batching_rule("drawn_from")
def _drawn(info: Info, in_dims: Any, *args: Any) -> Any:
    return call(info.operator, *[spread(info, x, d) for x, d in zip(args, in_dims, strict=True)]), 0


@batching_rule("reverse")
def _reverse(info: Info, in_dims: Any, input: Any, dims: Any) -> Any:
    return call(info.operator, input, tuple([d + 1 for d in dims])), 0


@batching_rule("fft_c2c", "fft_r2c", "fft_c2r")
def _fourier(info: Info, in_dims: Any, input: Any, dims: Any, *args: Any) -> Any:
    return call(info.operator, input, tuple([d % rank(input, 0) + 1 for d in dims]), *args), 0


@batching_rule("searchsorted")
def _searchsorted(info: Info, in_dims: Any, edges: Any, values: Any, right: bool, sorter: Any) -> Any:
    """Search in one sequence per example; the values of an example become a vector if its sequence is a vector."""
    if in_dims[0] is None and in_dims[3] is None and edges.ndim == 1:
        return call(info.operator, edges, values, right, sorter), 0
    flat = rank(edges, in_dims[0]) == 1
    edges, values = spread(info, edges, in_dims[0]), spread(info, values, in_dims[1])
    if sorter is not None:
        sorter = spread(info, sorter, in_dims[3])
    wanted = values.reshape(info.batch_size, math.prod(values.shape[1:])) if flat else values
    return call(info.operator, edges, wanted, right, sorter).reshape(tuple(values.shape)), 0


@batching_rule("isin")
def _isin(info: Info, in_dims: Any, elements: Any, tests: Any) -> Any:
    if in_dims[1] is not None:
        return loop(info, in_dims, elements, tests)
    return call(info.operator, elements, tests), 0


@batching_rule("_local_scalar_dense")
def _number(info: Info, in_dims: Any, input: Any) -> Any:
    raise TransformError("item", f"one example of shape {list(info.args[0].shape)} in vmap",
                         "calling .item() on a batch has no one value",
                         "use operators such as where instead of Python values")


@batching_rule("unique", "repeat_interleave")
def _dynamic(info: Info, in_dims: Any, *args: Any) -> Any:
    raise TransformError(info.operator.name, "a batch", "shapes of results do not depend on the data of a batch",
                         "call it outside of vmap")
