"""Scaled dot-product attention: one record, which a backend may replace by a kernel that never stores all scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.device import BY_KEY, DeviceState
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, dtype_bit
from tensocket_core.launch.primitives import tracked
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import bool_, float32
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from ...kinds.composite import composite
from ...kinds.private import private

_NAME = "scaled_dot_product_attention"
#: For fewer queries than this against more keys, a kernel that packs keys into blocks is slower than all scores.
_FEW: Final = 16


@composite(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    method=False, namespace="nn.functional",
)
def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, *, scale: float | None = None,
                                 enable_gqa: bool = False) -> Any:
    """Return softmax(query @ key.mT * scale + mask) @ value; a query that may attend to no key gives zeros.

    Args:
        query: [..., L, E].
        key: [..., S, E].
        value: [..., S, V].
        attn_mask: True where a query may attend to a key, or a term for the scores; broadcasts to [..., L, S].
        dropout_p: Probability with which a weight is dropped.
        is_causal: Whether query i attends only to keys 0 to i; excludes a mask.
        scale: 1 / sqrt(E) by default.
        enable_gqa: Whether several heads (dimension -3) of the query share one of key and value.

    Raises:
        ShapeError: The shapes do not fit each other.
        DtypeError: The dtypes differ.
        ArgumentError: A mask is given and ``is_causal`` is set.
    """
    shapes = tuple(query.shape), tuple(key.shape), tuple(value.shape)  # the sizes of plain tuples are faster to read
    _check(shapes, query, key, value, attn_mask, is_causal)
    width = shapes[0][-1]
    factor = 1 / math.sqrt(width) if scale is None and width else 1.0 if scale is None else scale
    if not dropout_p and _has_kernel(shapes, query, key, value, attn_mask, enable_gqa):
        return _attended(shapes, query, key, value, attn_mask, is_causal, factor)
    if enable_gqa:
        key, value = _shared_heads(query, key, value)
    if is_causal:
        rows, columns = query.new_arange(0, query.shape[-2], 1), query.new_arange(0, key.shape[-2], 1)
        attn_mask = columns.unsqueeze(0) <= rows.unsqueeze(1)
    with blame(_NAME):
        weights = _weights((query * factor).matmul(key.transpose(-2, -1)), attn_mask, is_causal)
        return functions.dropout(weights, dropout_p, True).matmul(value)


def _weights(scores: Any, mask: Any, alive: bool) -> Any:
    """Return the softmax of masked scores, and zeros in rows that are fully masked; ``alive`` says that no row is."""
    if mask is None:
        return scores.softmax(-1)
    never = -math.inf
    scores = scores.masked_fill(~mask, never) if mask.dtype is bool_ else scores + mask.to(scores.dtype)
    if alive or scores.shape[-1] == 0:
        return scores.softmax(-1)
    dead = scores.detach().amax(-1, True) == never
    return scores.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0)


# --------------------------------------------------------------------------------------------- devices' own kernels


def _has_kernel(shapes: tuple[Any, Any, Any], query: Any, key: Any, value: Any, mask: Any, shared: bool) -> bool:
    """Whether the device's kernel serves the call: there is enough to compute, and nothing broadcasts."""
    state = BY_KEY.get((query._key | key._key | value._key) & DEVICE_MASK)
    if state is None or state.runtime.kernels.find("attend", query.dtype.name, direct=False) is None:
        return False
    if mask is not None and (mask.requires_grad or mask.ndim > 4 or mask._key & DEVICE_MASK != state.key):
        return False
    q, k, v = shapes
    if len(q) > 4 or k[:-2] != v[:-2] or 0 in q or 0 in k or 0 in v or q[-2] < _FEW < k[-2]:
        return False
    return q[:-2] == k[:-2] or (shared and len(q) == len(k) > 2 and q[:-3] == k[:-3] and q[-3] % k[-3] == 0)


def _attended(shapes: tuple[Any, Any, Any], query: Any, key: Any, value: Any, mask: Any, is_causal: bool,
              factor: float) -> Any:
    """Run ``attend`` on tensors that may have fewer than four dimensions."""
    missing = 4 - len(shapes[0])
    for _ in range(missing):
        query, key, value = query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0)
    bits = query._key | key._key | value._key
    if mask is not None:
        mask = mask if mask.dtype is bool_ else mask.to(query.dtype)
        mask = mask.expand(*query.shape[:3], key.shape[2])
        bits |= mask._key
    operator = COMPOSITES["attend"]
    args = (query, key, value, mask, is_causal, factor)
    result = call(operator, *args)[0] if ACTIVE else operator.below(bits)(*args)[0]
    for _ in range(missing):
        result = result.squeeze(0)
    return result


def _attend_host_path(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    if key & AUTOGRAD:
        return None

    def host_path(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> Any:
        dtype = query.dtype
        kernel = _kernel("attend", state, mask, query, key, value)
        if kernel is None:
            return next_path(query, key, value, mask, is_causal, scale)
        work = dtype if dtype.itemsize >= 4 else float32
        q, k, v = query._array, key._array, value._array
        stream, shape = state.stream, q.shape[:3]
        out, sums = state.runtime.empty((*shape, v.shape[3]), dtype, stream), state.runtime.empty(shape, work, stream)
        kernel([out, sums], [q, k, v, None if mask is None else mask._array], (is_causal, scale), stream)
        return wrap(out, state.key | dtype_bit(dtype)), wrap(sums, state.key | dtype_bit(work))

    return private("scaled_dot_product_attention", host_path)


def _gradients_host_path(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    if key & AUTOGRAD:
        return None

    def host_path(grad: Any, query: Any, key: Any, value: Any, mask: Any, out: Any, sums: Any, is_causal: bool,
               scale: float) -> Any:
        kernel = _kernel("attend_gradients", state, mask, query, key, value, grad, out)
        if kernel is None:
            return next_path(grad, query, key, value, mask, out, sums, is_causal, scale)
        dtype = query.dtype
        outs = [state.runtime.empty(tuple(x.shape), dtype, state.stream) for x in (query, key, value)]
        arrays = [x._array for x in (grad, query, key, value)]
        kernel(outs, [*arrays, None if mask is None else mask._array, out._array, sums._array], (is_causal, scale),
               state.stream)
        return tuple([wrap(x, state.key | dtype_bit(dtype)) for x in outs])

    return private("scaled_dot_product_attention", host_path)


def _kernel(name: str, state: DeviceState, mask: Any, *operands: Any) -> Any:
    """Return the device's kernel if all operands have one dtype and shapes that fit each other."""
    dtype = operands[0].dtype
    q, k, v = (tuple(x.shape) for x in operands[:3])
    if q[-1] != k[-1] or k[:3] != v[:3] or q[0] != k[0] or q[1] % k[1] or (
            mask is not None and tuple(mask.shape) != (*q[:3], k[2])) or any(
            tuple(x.shape) != (*q[:3], v[-1]) for x in operands[3:]):
        return None
    if any(x.dtype is not dtype for x in operands) or (mask is not None and mask.dtype not in (dtype, bool_)):
        return None
    found = state.runtime.kernels.find(name, dtype.name, direct=False)
    return None if found is None else tracked(found)


def _scores(query: Any, key: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    """Return the masked scores [A, B, L, S]; -inf where a query may not attend to a key."""
    scores = (query * scale).matmul(key.transpose(-2, -1))
    if is_causal:
        rows, columns = query.new_arange(0, query.shape[-2], 1), query.new_arange(0, key.shape[-2], 1)
        scores = scores.masked_fill(columns.unsqueeze(0) > rows.unsqueeze(1), -math.inf)
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype is bool_ else scores + mask


def _shares(scores: Any, mask: Any) -> Any:
    """Return the softmax of masked scores; zeros for a query to which the mask leaves no key."""
    if mask is None:
        return scores.softmax(-1)
    dead = scores.detach().amax(-1, True) == -math.inf
    return scores.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0)


def _rows_gradients(grad: Any, query: Any, key: Any, value: Any, mask: Any, is_causal: bool,
                    scale: float) -> tuple[Any, ...]:
    """Return the gradients of queries, keys and values, computed from all scores."""
    heads, shared = query.shape[1], query.shape[1] // key.shape[1]
    wide_key, wide_value = (_repeated(x, shared) for x in (key, value)) if shared > 1 else (key, value)
    weights = _shares(_scores(query, wide_key, mask, is_causal, scale), mask)
    slopes = grad.matmul(wide_value.transpose(-2, -1))
    slopes = weights * (slopes - (slopes * weights).sum(-1, True)) * scale
    keys, values = slopes.transpose(-2, -1).matmul(query), weights.transpose(-2, -1).matmul(grad)
    if shared > 1:
        keys, values = (x.unflatten(1, (heads // shared, shared)).sum(2) for x in (keys, values))
    return slopes.matmul(wide_key), keys, values


@composite(
    "attend_gradients(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor out, Tensor sums, "
    "bool is_causal, float scale) -> (Tensor, Tensor, Tensor)", method=False, function=False,
    host_path=_gradients_host_path,
    replayable=True)
def attend_gradients(grad: Any, query: Any, key: Any, value: Any, mask: Any, out: Any, sums: Any, is_causal: bool,
                     scale: float) -> Any:
    """Return the gradients of queries, keys and values of ``attend``, whose results are among the arguments."""
    return _rows_gradients(grad, query, key, value, mask, is_causal, scale)


@composite(
    "attend(Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_causal, float scale) -> (Tensor, Tensor)",
    method=False, function=False, host_path=_attend_host_path, replayable=True,
    derivative=Derivative(lambda grads, query, key, value, mask, result0, result1, is_causal, scale: (*call(
        COMPOSITES["attend_gradients"], grads[0], query, key, value, mask, result0, result1, is_causal, scale), None)))
def attend(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    """Return attention without dropout, and the logarithm of each query's sum, which the gradients need.

    Args:
        query: [A, B, L, E].
        key: [A, H, S, E] of H heads that divide B.
        value: [A, H, S, V].
        mask: [A, B, L, S], True where a query may attend to a key, or a term for the scores; it gets no gradient.
        is_causal: Whether query i attends only to keys 0 to i.
        scale: Factor of the scores.
    """
    shared = query.shape[1] // key.shape[1]
    if shared > 1:
        key, value = _repeated(key, shared), _repeated(value, shared)
    scores = _scores(query, key, mask, is_causal, scale)
    largest = scores.amax(-1, True)
    dead = largest == -math.inf
    sums = (scores - largest.masked_fill(dead, 0)).exp().sum(-1, True)
    logarithms = (largest + sums.log()).masked_fill(dead, 0).squeeze(-1)
    return _shares(scores, mask).matmul(value), logarithms


def _check(found: tuple[Any, Any, Any], query: Any, key: Any, value: Any, mask: Any, is_causal: bool) -> None:
    q, k, v = found
    if min(len(q), len(k), len(v)) < 2 or q[-1] != k[-1] or k[-2] != v[-2]:
        raise ShapeError(_NAME, f"query {list(q)}, key {list(k)}, value {list(v)}",
                         "they are [..., L, E], [..., S, E] and [..., S, V]", "check the last dimensions")
    if not query.dtype is key.dtype is value.dtype:
        raise DtypeError(_NAME, f"dtypes {query.dtype.name}, {key.dtype.name} and {value.dtype.name}",
                         "query, key and value have one dtype", "convert with .to(dtype)")
    if mask is None:
        return
    if is_causal:
        raise ArgumentError(_NAME, "attn_mask and is_causal=True", "attention is causal or has a mask of its own",
                            "put the causal part into the mask")
    if mask.dtype is not bool_ and not mask.dtype.is_floating_point:
        raise DtypeError(_NAME, f"attn_mask of dtype {mask.dtype.name}", "a mask is of bools or floats",
                         "compare first, as in mask != 0")


def _shared_heads(query: Any, key: Any, value: Any) -> tuple[Any, Any]:
    """Return key and value with as many heads as the query; several of its heads share each."""
    if min(query.ndim, key.ndim, value.ndim) < 3 or query.shape[-3] % max(key.shape[-3], 1) or (
            query.shape[-3] % max(value.shape[-3], 1)):
        raise ShapeError(_NAME, f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}",
                         "the query's heads are a multiple of those of key and value", "check dimension -3")
    heads = query.shape[-3]
    return tuple(_repeated(x, heads // max(x.shape[-3], 1)) for x in (key, value))


def _repeated(x: Any, times: int) -> Any:
    """Repeat each head ``times`` times in a row."""
    *lead, heads, rows, width = x.shape
    return x.unsqueeze(-3).expand(*lead, heads, times, rows, width).reshape(*lead, heads * times, rows, width)
