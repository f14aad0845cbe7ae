"""Products of matrices in C: a routine that packs the second operand into columns that fit vectors."""

from __future__ import annotations

from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType

#: The C routine of a dtype. Arrays have any number of batch dimensions; sizes are those and m, n, k; steps are those of
#: the result, the first and the second operand. Without a fused multiply-add, results are the same on all processors.
_TEXT: Final = """\
/* out[.., m, n] = x[.., m, k] @ y[.., k, n] for one matrix. */
static void ts_product_{s}(const int64_t *size, const int64_t *so, const int64_t *sx, const int64_t *sy,
    {t} *out, const {t} *x, const {t} *y)
{{
    enum {{ ROWS = 4, COLUMNS = 64 / sizeof({t}), DEPTH = 256 }};
    const int64_t m = size[0], n = size[1], k = size[2];
    if (m < ROWS && sx[1] == 1 && sy[0] == 1) {{
        /* Few rows with adjacent elements on both sides: sums of products, several at a time. */
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {{
                const {t} *const a = x + i * sx[0], *const b = y + j * sy[1];
                {t} sums[COLUMNS] = {{0}}, total = 0;
                int64_t l = 0;
                for (; l + COLUMNS <= k; l += COLUMNS)
                    for (int c = 0; c < COLUMNS; ++c) sums[c] += a[l + c] * b[l + c];
                for (; l < k; ++l) total += a[l] * b[l];
                for (int c = 0; c < COLUMNS; ++c) total += sums[c];
                out[i * so[0] + j * so[1]] = total;
            }}
        return;
    }}
    for (int64_t j = 0; j < n; j += COLUMNS) {{
        const int64_t wide = n - j < COLUMNS ? n - j : COLUMNS;
        int64_t l = 0;
        do {{
            {t} packed[DEPTH][COLUMNS];
            const int64_t deep = k - l < DEPTH ? k - l : DEPTH;
            for (int64_t d = 0; d < deep; ++d)
                for (int64_t c = 0; c < COLUMNS; ++c)
                    packed[d][c] = c < wide ? y[(l + d) * sy[0] + (j + c) * sy[1]] : 0;
            for (int64_t i = 0; i < m; i += ROWS) {{
                const int64_t high = m - i < ROWS ? m - i : ROWS;
                {t} sums[ROWS][COLUMNS] = {{{{0}}}};
                for (int64_t d = 0; d < deep; ++d)
                    for (int r = 0; r < ROWS; ++r) {{
                        const {t} a = x[(i + (r < high ? r : 0)) * sx[0] + (l + d) * sx[1]];
                        for (int c = 0; c < COLUMNS; ++c) sums[r][c] += a * packed[d][c];
                    }}
                for (int64_t r = 0; r < high; ++r)
                    for (int64_t c = 0; c < wide; ++c) {{
                        {t} *const element = out + (i + r) * so[0] + (j + c) * so[1];
                        *element = l ? *element + sums[r][c] : sums[r][c];
                    }}
            }}
            l += DEPTH;
        }} while (l < k);
    }}
}}

/* The same for batches of matrices; sizes and steps begin with those of the batch. */
static void ts_products_{s}(int dims, const int64_t *sizes, const int64_t *so, const int64_t *sx, const int64_t *sy,
    {t} *out, const {t} *x, const {t} *y)
{{
    int64_t batch = 1;
    for (int d = 0; d < dims; ++d) batch *= sizes[d];
    for (int64_t b = 0; b < batch; ++b) {{
        int64_t rest = b, o = 0, p = 0, q = 0;
        for (int d = dims - 1; d >= 0; --d) {{
            const int64_t at = rest % sizes[d];
            rest /= sizes[d];
            o += at * so[d];
            p += at * sx[d];
            q += at * sy[d];
        }}
        ts_product_{s}(sizes + dims, so + dims, sx + dims, sy + dims, out + o, x + p, y + q);
    }}
}}"""


def product_scalars(out: Any, x: Any, y: Any) -> tuple[int, ...]:
    """Return the numbers of a product: sizes of the result and the depth, then the steps of the three arrays."""
    return (*out.shape, x.shape[-1], *out.strides, *x.strides, *y.strides)


def product_text(dtype: DType, c_type: str) -> str:
    """Return the routine for a dtype."""
    return _TEXT.format(t=c_type, s=dtype.short)


def product_call(dtype: DType, scalars: list[str], pointers: list[str]) -> str:
    """Return the call of the routine.

    Args:
        dtype: The dtype.
        scalars: Those of ``product_scalars``, as C.
        pointers: The first elements of result and operands, as C.
    """
    dims = (len(scalars) - 7) // 4
    ends = [0, dims + 3, *[dims + 3 + (dims + 2) * k for k in (1, 2, 3)]]
    lists = [f"(const int64_t[]){{{', '.join(scalars[a:b])}}}" for a, b in zip(ends, ends[1:], strict=False)]
    return f"ts_products_{dtype.short}({', '.join([str(dims), *lists, *pointers])});"
