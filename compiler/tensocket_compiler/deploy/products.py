"""Products of matrices in C: a routine that packs the second operand into columns that fit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType

#: The C routine of a dtype. Arrays have any number of batch dimensions; sizes are those and m, n, k; steps are those of
#: the result, the first and the second operand.
_TEXT: Final = """\
struct ts_product_{s} {{
    int dims;
    const int64_t *sizes, *so, *sx, *sy;
    {t} *out;
    const {t} *x, *y;
}};

enum {{ TS_ROWS_{s} = 4, TS_COLUMNS_{s} = 64 / sizeof({t}), TS_DEPTH_{s} = 256 }};

/* Columns j to j + wide of out[m, n] = x[m, k] @ y[k, n] for few rows and adjacent elements in both operands. */
static void ts_dots_{s}(const int64_t *size, const int64_t *so, const int64_t *sx, const int64_t *sy,
    {t} *out, const {t} *x, const {t} *y, int64_t j, int64_t wide)
{{
    for (int64_t i = 0; i < size[0]; ++i)
        for (int64_t c = 0; c < wide; ++c) {{
            const {t} *const a = x + i * sx[0], *const b = y + (j + c) * sy[1];
            {t} sums[TS_COLUMNS_{s}] = {{0}}, total = 0;
            int64_t l = 0;
            for (; l + TS_COLUMNS_{s} <= size[2]; l += TS_COLUMNS_{s})
                for (int e = 0; e < TS_COLUMNS_{s}; ++e) sums[e] += a[l + e] * b[l + e];
            for (; l < size[2]; ++l) total += a[l] * b[l];
            for (int e = 0; e < TS_COLUMNS_{s}; ++e) total += sums[e];
            out[i * so[0] + (j + c) * so[1]] = total;
        }}
}}

/* The same columns for any operands. */
static void ts_panel_{s}(const int64_t *size, const int64_t *so, const int64_t *sx, const int64_t *sy,
    {t} *out, const {t} *x, const {t} *y, int64_t j, int64_t wide)
{{
    const int64_t m = size[0], k = size[2];
    int64_t l = 0;
    do {{
        {t} packed[TS_DEPTH_{s}][TS_COLUMNS_{s}];
        const int64_t deep = k - l < TS_DEPTH_{s} ? k - l : TS_DEPTH_{s};
        for (int64_t d = 0; d < deep; ++d)
            for (int64_t c = 0; c < TS_COLUMNS_{s}; ++c)
                packed[d][c] = c < wide ? y[(l + d) * sy[0] + (j + c) * sy[1]] : 0;
        for (int64_t i = 0; i < m; i += TS_ROWS_{s}) {{
            const int64_t high = m - i < TS_ROWS_{s} ? m - i : TS_ROWS_{s};
            {t} sums[TS_ROWS_{s}][TS_COLUMNS_{s}] = {{{{0}}}};
            for (int64_t d = 0; d < deep; ++d)
                for (int r = 0; r < TS_ROWS_{s}; ++r) {{
                    const {t} a = x[(i + (r < high ? r : 0)) * sx[0] + (l + d) * sx[1]];
                    for (int c = 0; c < TS_COLUMNS_{s}; ++c) sums[r][c] += a * packed[d][c];
                }}
            for (int64_t r = 0; r < high; ++r)
                for (int64_t c = 0; c < wide; ++c) {{
                    {t} *const element = out + (i + r) * so[0] + (j + c) * so[1];
                    *element = l ? *element + sums[r][c] : sums[r][c];
                }}
        }}
        l += TS_DEPTH_{s};
    }} while (l < k);
}}

/* Blocks of columns, counted over all matrices of a batch. */
static void ts_panels_{s}(void *argument, int64_t first, int64_t last)
{{
    const struct ts_product_{s} *const p = argument;
    const int64_t *const size = p->sizes + p->dims;
    const int64_t panels = (size[1] + TS_COLUMNS_{s} - 1) / TS_COLUMNS_{s};
    for (int64_t panel = first; panel < last; ++panel) {{
        const int64_t j = panel % panels * TS_COLUMNS_{s};
        const int64_t wide = size[1] - j < TS_COLUMNS_{s} ? size[1] - j : TS_COLUMNS_{s};
        int64_t rest = panel / panels, o = 0, x = 0, y = 0;
        for (int d = p->dims - 1; d >= 0; --d) {{
            const int64_t at = rest % p->sizes[d];
            rest /= p->sizes[d];
            o += at * p->so[d];
            x += at * p->sx[d];
            y += at * p->sy[d];
        }}
        (size[0] < TS_ROWS_{s} && p->sx[p->dims + 1] == 1 && p->sy[p->dims] == 1 ? ts_dots_{s} : ts_panel_{s})(
            size, p->so + p->dims, p->sx + p->dims, p->sy + p->dims, p->out + o, p->x + x, p->y + y, j, wide);
    }}
}}

static void ts_multiply_{s}(const {m} *self, int dims, const int64_t *sizes, const int64_t *so, const int64_t *sx,
    const int64_t *sy, {t} *out, const {t} *x, const {t} *y)
{{
    struct ts_product_{s} product = {{dims, sizes, so, sx, sy, out, x, y}};
    int64_t count = sizes[dims] ? (sizes[dims + 1] + TS_COLUMNS_{s} - 1) / TS_COLUMNS_{s} : 0;
    int64_t work = sizes[dims] * sizes[dims + 1] * sizes[dims + 2];
    for (int d = 0; d < dims; ++d) {{
        count *= sizes[d];
        work *= sizes[d];
    }}
    if (work < 65536) ts_panels_{s}(&product, 0, count);
    else ts_share(self, ts_panels_{s}, &product, count);
}}"""


def product_scalars(out: Any, x: Any, y: Any) -> tuple[int, ...]:
    """Return the numbers of a product: sizes of the result and the depth, then the steps of the three arrays."""
    return (*out.shape, x.shape[-1], *out.strides, *x.strides, *y.strides)


def product_text(dtype: DType, c_type: str, model: str) -> str:
    """Return the routine for a dtype, which needs ``ts_share``; ``model`` is the type of models."""
    return _TEXT.format(t=c_type, s=dtype.short, m=model)


def product_call(dtype: DType, scalars: Sequence[str], pointers: Sequence[str]) -> str:
    """Return the call of the routine.

    Args:
        dtype: The dtype.
        scalars: Those of ``product_scalars``, as C.
        pointers: The first elements of result and operands, as C.
    """
    dims = (len(scalars) - 7) // 4
    ends = [0, dims + 3, *[dims + 3 + (dims + 2) * k for k in (1, 2, 3)]]
    lists = [f"(const int64_t[]){{{', '.join(scalars[a:b])}}}" for a, b in pairwise(ends)]
    return f"ts_multiply_{dtype.short}({', '.join(['self', str(dims), *lists, *pointers])});"
