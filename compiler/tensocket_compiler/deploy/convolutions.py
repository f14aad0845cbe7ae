"""Convolutions in C: products of matrices whose first operand has the windows of a padded image as rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType

from .products import DEPTH_DIMS, ROW_DIMS, Matrices, Value

#: Copies an image [B, C, three sizes] of any steps into a dense one with zeros around it.
_PAD: Final = """\
struct ts_padding_{s} {{
    const int64_t *sizes, *low, *sx;
    {t} *out;
    const {t} *x;
}};

static void ts_pad_planes_{s}(void *argument, int64_t first, int64_t last)
{{
    const struct ts_padding_{s} *const p = argument;
    const int64_t *const n = p->sizes + 2, *const low = p->low, *const sx = p->sx;
    const int64_t deep = n[0] + 2 * low[0], high = n[1] + 2 * low[1], wide = n[2] + 2 * low[2];
    {t} *to = p->out + first * deep * high * wide;
    for (int64_t plane = first; plane < last; ++plane)
        for (int64_t i = 0; i < deep * high; ++i, to += wide) {{
            const int64_t z = i / high - low[0], y = i % high - low[1];
            const {t} *const from = p->x + plane / p->sizes[1] * sx[0] + plane % p->sizes[1] * sx[1];
            if (z < 0 || z >= n[0] || y < 0 || y >= n[1]) {{
                for (int64_t w = 0; w < wide; ++w) to[w] = 0;
                continue;
            }}
            for (int64_t w = 0; w < low[2]; ++w) to[w] = to[wide - 1 - w] = 0;
            for (int64_t w = 0; w < n[2]; ++w) to[low[2] + w] = from[z * sx[2] + y * sx[3] + w * sx[4]];
        }}
}}

static void ts_pad_{s}(const {m} *self, const int64_t *sizes, const int64_t *low, const int64_t *sx, {t} *out,
    const {t} *x)
{{
    struct ts_padding_{s} padding = {{sizes, low, sx, out, x}};
    const int64_t planes = sizes[0] * sizes[1];
    if (planes * sizes[2] * sizes[3] * sizes[4] < 65536) ts_pad_planes_{s}(&padding, 0, planes);
    else ts_share(self, ts_pad_planes_{s}, &padding, planes);
}}"""


def padding_text(dtype: DType, c_type: str, model: str) -> str:
    """Return the routine for a dtype, which needs ``ts_share``; ``model`` is the type of models."""
    return _PAD.format(t=c_type, s=dtype.short, m=model)


def padding_scalars(x: Any, padding: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of a copy with zeros around it: five sizes, zeros on each side, steps."""
    n = 5 - x.ndim
    return (*x.shape[:2], *(1,) * n, *x.shape[2:], *(0,) * n, *padding, *x.strides[:2], *(0,) * n, *x.strides[2:])


def padding_call(dtype: DType, numbers: Sequence[str], pointers: Sequence[str]) -> str:
    """Return the call of the routine, with numbers and pointers to the first elements as C."""
    lists = [f"(const int64_t[]){{{', '.join(x)}}}" for x in (numbers[:5], numbers[5:8], numbers[8:])]
    return f"ts_pad_{dtype.short}({', '.join(['self', *lists, *pointers])});"


def convolution(out: Any, x: Any, weight: Any, stride: Sequence[int], dilation: Sequence[int], groups: int
                ) -> Matrices:
    """Return a convolution of a padded image with a dense weight, whose result is dense, as a product.

    Rows are places of the window, the depth goes over channels and places inside of it, and columns are filters.
    """
    def three(values: Sequence[int], missing: int) -> tuple[Value, ...]:
        return (*(missing,) * (ROW_DIMS - len(values)), *values)

    filters, (channels, *kernel) = weight.shape[0] // groups, weight.shape[1:]
    places, steps = prod(out.shape[2:]), x.strides[2:]
    deep = channels * prod(kernel)
    depth = (channels, *three(kernel, 1), x.strides[1],
             *three([a * b for a, b in zip(dilation, steps, strict=True)], 0))
    assert len(depth) == 2 * DEPTH_DIMS
    return Matrices(
        (out.shape[0], groups, places, filters, deep), (*out.strides[:1], filters * places, 1, places),
        (x.strides[0], channels * x.strides[1]), (0, filters * deep, 1, deep),
        (*three(out.shape[2:], 1), *three([a * b for a, b in zip(stride, steps, strict=True)], 0)), depth)
