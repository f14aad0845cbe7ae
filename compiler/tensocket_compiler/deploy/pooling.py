"""Largest elements of windows in C, a line of the result at a time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType

#: Arrays are dense: planes of three sizes. Numbers are sizes, outputs, taps, strides, dilations and padding of windows.
_TEXT: Final = """\
struct ts_pooling_{s} {{
    const int64_t *numbers;
    {t} *out;
    int64_t *places; /* NULL if nothing reads them */
    const {t} *x;
}};

/* The tap's elements x[first * step], ... where they are larger, or NaN, or the first of their windows. */
static void ts_pool_line_{s}({t} *out, int64_t *places, const {t} *x, int64_t step, int64_t first, int64_t last,
    int64_t position)
{{
    if (places) {{
        for (int64_t c = first; c < last; ++c)
            if (x[c * step] > out[c] || x[c * step] != x[c * step] || places[c] < 0) {{
                out[c] = x[c * step];
                places[c] = position + c * step;
            }}
    }} else if (step == 1) {{
        TS_INDEPENDENT
        for (int64_t c = first; c < last; ++c) out[c] = x[c] > out[c] || x[c] != x[c] ? x[c] : out[c];
    }} else if (step == 2) {{
        TS_INDEPENDENT
        for (int64_t c = first; c < last; ++c)
            out[c] = x[2 * c] > out[c] || x[2 * c] != x[2 * c] ? x[2 * c] : out[c];
    }} else {{
        for (int64_t c = first; c < last; ++c)
            out[c] = x[c * step] > out[c] || x[c * step] != x[c * step] ? x[c * step] : out[c];
    }}
}}

static void ts_pool_planes_{s}(void *argument, int64_t first, int64_t last)
{{
    const struct ts_pooling_{s} *const p = argument;
    const int64_t *const n = p->numbers + 1, *const m = n + 3, *const k = m + 3, *const step = k + 3;
    const int64_t *const gap = step + 3, *const pad = gap + 3;
    for (int64_t line = first * m[0] * m[1]; line < last * m[0] * m[1]; ++line) {{
        const int64_t z = line / m[1] % m[0] * step[0] - pad[0], y = line % m[1] * step[1] - pad[1];
        const {t} *const plane = p->x + line / (m[0] * m[1]) * n[0] * n[1] * n[2];
        {t} *const out = p->out + line * m[2];
        int64_t *const places = p->places ? p->places + line * m[2] : NULL;
        for (int64_t c = 0; c < m[2]; ++c) out[c] = -INFINITY;
        for (int64_t c = 0; places && c < m[2]; ++c) places[c] = -1;
        for (int64_t i = z; i < z + k[0] * gap[0]; i += gap[0])
            for (int64_t j = y; i >= 0 && i < n[0] && j < y + k[1] * gap[1]; j += gap[1])
                for (int64_t t = 0; j >= 0 && j < n[1] && t < k[2]; ++t) {{
                    const int64_t shift = t * gap[2] - pad[2], room = n[2] - shift, at = (i * n[1] + j) * n[2] + shift;
                    int64_t low = 0, high = m[2]; /* places whose element at the tap is inside */
                    if (shift < 0) low = (step[2] - 1 - shift) / step[2];
                    if ((m[2] - 1) * step[2] >= room) high = room > 0 ? (room + step[2] - 1) / step[2] : 0;
                    ts_pool_line_{s}(out, places, plane + at, step[2], low, high, at);
                }}
    }}
}}

static void ts_pool_{s}(const {m} *self, const int64_t *numbers, {t} *out, int64_t *places, const {t} *x)
{{
    struct ts_pooling_{s} pooling = {{numbers, out, places, x}};
    if (numbers[0] * numbers[1] * numbers[2] * numbers[3] < 65536) ts_pool_planes_{s}(&pooling, 0, numbers[0]);
    else ts_share(self, ts_pool_planes_{s}, &pooling, numbers[0]);
}}"""


def pooling_text(dtype: DType, c_type: str, model: str) -> str:
    """Return the routine for a dtype, which needs ``ts_share``; ``model`` is the type of models."""
    return _TEXT.format(t=c_type, s=dtype.short, m=model)


def pooling_scalars(out: Any, x: Any, taps: Sequence[int], *even: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers: planes, then six times three; ``even`` are strides, dilations and padding."""
    dims = len(taps)

    def three(values: Sequence[int], missing: int) -> tuple[int, ...]:
        return (*(missing,) * (3 - dims), *values)

    strides, dilations, padding = even
    return (prod(x.shape[:x.ndim - dims]), *three(x.shape[x.ndim - dims:], 1), *three(out.shape[out.ndim - dims:], 1),
            *three(taps, 1), *three(strides, 1), *three(dilations, 1), *three(padding, 0))


def pooling_call(dtype: DType, numbers: Sequence[str], pointers: Sequence[str]) -> str:
    """Return the call of the routine, with numbers and pointers to the first elements as C."""
    return f"ts_pool_{dtype.short}(self, (const int64_t[]){{{', '.join(numbers)}}}, {', '.join(pointers)});"
