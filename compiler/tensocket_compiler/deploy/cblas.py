"""Products of matrices by the BLAS that the user links: one call of ``gemm`` for each matrix of a batch."""

from __future__ import annotations

from typing import Final

from tensocket_plugins.contract.dtypes import DType

#: Letters of the dtypes that BLAS multiplies.
_LETTERS: Final = {"float32": "s", "float64": "d"}

PRELUDE: Final = """\
#include <cblas.h>
#include <limits.h>

/* The leading dimension of a matrix that BLAS reads by rows or, if is_turned, by columns; 0 for all others. */
static int ts_leading(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step, int *is_turned)
{
    const int64_t steps[2] = {rows == 1 ? columns : row_step, columns == 1 ? 1 : column_step};
    const int64_t turned[2] = {rows == 1 ? 1 : row_step, columns == 1 ? rows : column_step};
    *is_turned = 0;
    if (steps[1] == 1 && steps[0] >= columns && steps[0] <= INT_MAX) return steps[0] > 1 ? (int)steps[0] : 1;
    *is_turned = 1;
    if (turned[0] == 1 && turned[1] >= rows && turned[1] <= INT_MAX) return turned[1] > 1 ? (int)turned[1] : 1;
    return 0;
}"""

#: The arguments are those of ``ts_multiply``. Returns 0 if BLAS has no form for the matrices; nothing is written then.
_TEXT: Final = """\
static int ts_blas_{s}(int dims, const int64_t *sizes, const int64_t *so, const int64_t *sx, const int64_t *sy,
    const int64_t *rows, const int64_t *depths, {t} *out, const {t} *x, const {t} *y)
{{
    const int64_t m = sizes[dims], n = sizes[dims + 1], k = sizes[dims + 2];
    int64_t count = m && n;
    int turned[3], ldo, ldx, ldy;
    if (rows[0] != 1 || rows[1] != 1 || depths[0] != 1 || depths[1] != 1 || depths[2] != 1) return 0;
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX) return 0;
    ldo = ts_leading(m, n, so[dims], so[dims + 1], turned);
    ldx = ts_leading(m, k, rows[5], depths[7], turned + 1);
    ldy = ts_leading(k, n, sy[dims], sy[dims + 1], turned + 2);
    if (!ldo || !ldx || !ldy) return 0;
    for (int d = 0; d < dims; ++d) count *= sizes[d];
    for (int64_t number = 0; number < count; ++number) {{
        int64_t rest = number, o = 0, i = 0, j = 0;
        for (int d = dims - 1; d >= 0; --d) {{
            const int64_t at = rest % sizes[d];
            rest /= sizes[d];
            o += at * so[d];
            i += at * sx[d];
            j += at * sy[d];
        }}
        cblas_{letter}gemm(turned[0] ? CblasColMajor : CblasRowMajor,
            turned[1] == turned[0] ? CblasNoTrans : CblasTrans, turned[2] == turned[0] ? CblasNoTrans : CblasTrans,
            (int)m, (int)n, (int)k, 1, x + i, ldx, y + j, ldy, 0, out + o, ldo);
    }}
    return 1;
}}"""


def has_blas(dtype: DType) -> bool:
    """Whether BLAS multiplies matrices of a dtype."""
    return dtype.name in _LETTERS


def blas_text(dtype: DType, c_type: str) -> str:
    """Return the routine for a dtype, which needs ``PRELUDE``."""
    return _TEXT.format(s=dtype.short, t=c_type, letter=_LETTERS[dtype.name])
