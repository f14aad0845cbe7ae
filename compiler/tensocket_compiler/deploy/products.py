"""Products of matrices in C: a routine that computes tiles of the result from packed columns.

Its first operand has rows and a depth of several dimensions each, so that the windows of an image are its rows: a
convolution is such a product. The second operand is packed into panels of columns: weights once, by ``name_init``, and
other operands in each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType

from .cblas import blas_text
from .polynomials import Polynomial
from .tiles import HEIGHTS, VECTORS, tiles_text

#: A number of a product: in a plan it may depend on the sizes that change.
Value = int | Polynomial

#: Dimensions of the rows and of the depth.
ROW_DIMS: Final = 3
DEPTH_DIMS: Final = 4

#: Definitions that all products need: how the routine reads y, which is any matrix or packed; and two forms without
#: tiles, for few rows, and for few filters of an image.
PRELUDE: Final = VECTORS + """

enum ts_form { TS_PANELS, TS_PACKED, TS_LINES, TS_DOTS };"""

#: The C routine of a dtype. There are any number of batch dimensions; sizes are those and m, n, k; steps are those of
#: the batch, then m and n of the result; those of x's batch; those of y's batch, then k and n. Packed matrices y have
#: the batch's steps alone, in matrices.
_TEXT: Final = """\
struct ts_product_{s} {{
    int dims;
    enum ts_form form;
    const int64_t *sizes, *so, *sx, *sy;
    const int64_t *rows, *depths; /* sizes, then steps, of x's rows and depth */
    {t} *out;
    const {t} *x, *y;
    int64_t tall; /* rows of a unit of work */
}};

enum {{ TS_TALL_{s} = 96, TS_DEEP_{s} = 512, TS_BLOCK_{s} = 128 }};

/* Offsets of count elements from number first on, of an array with sizes[dims] and steps[dims] after these. */
static void ts_places_{s}(int dims, const int64_t *sizes, int64_t first, int64_t count, int64_t *places)
{{
    const int64_t *const steps = sizes + dims;
    int64_t index[{dims}] = {{0}}, at = 0;
    if (first + count <= sizes[dims - 1]) {{
        for (int64_t c = 0; c < count; ++c) places[c] = (first + c) * steps[dims - 1];
        return;
    }}
    for (int d = dims - 1; d > 0 && first; --d) {{
        index[d] = first % sizes[d];
        first /= sizes[d];
        at += index[d] * steps[d];
    }}
    index[0] = first;
    at += first * steps[0];
    for (int64_t c = 0; c < count; ++c) {{
        int d = dims - 1;
        places[c] = at;
        at += steps[d];
        while (++index[d] == sizes[d] && d > 0) {{
            at -= sizes[d] * steps[d];
            index[d--] = 0;
            at += steps[d];
        }}
    }}
}}

/* to[deep][width] = y[deep][wide], with zeros after the columns. */
static void ts_pack_{s}(const {t} *y, int64_t step, int64_t column_step, int64_t deep, int64_t wide, int64_t width,
    {t} *to)
{{
    if (column_step == 1)
        for (int64_t l = 0; l < deep; ++l, y += step, to += width) {{
            for (int64_t c = 0; c < wide; ++c) to[c] = y[c];
            for (int64_t c = wide; c < width; ++c) to[c] = 0;
        }}
    else
        for (int64_t c = 0; c < width; ++c)
            for (int64_t l = 0; l < deep; ++l) to[l * width + c] = c < wide ? y[l * step + c * column_step] : 0;
}}

static int64_t ts_rounded_{s}(int64_t columns)
{{
    return (columns + TS_LANES_{s} - 1) / TS_LANES_{s} * TS_LANES_{s};
}}

/* out[high][wide] = sums, or + sums, whose rows have width elements. */
static void ts_store_{s}({t} *out, const int64_t *so, const {t} *sums, int64_t high, int64_t wide, int64_t width,
    int add)
{{
    if (so[1] == 1)
        for (int64_t r = 0; r < high; ++r, out += so[0], sums += width)
            if (add) for (int64_t c = 0; c < wide; ++c) out[c] += sums[c];
            else for (int64_t c = 0; c < wide; ++c) out[c] = sums[c];
    else
        for (int64_t c = 0; c < wide; ++c, out += so[1])
            for (int64_t r = 0; r < high; ++r) {{
                {t} *const element = out + r * so[0];
                *element = add ? *element + sums[r * width + c] : sums[r * width + c];
            }}
}}

/* Rows first to last of columns j to j + wide of out[m, n] = x[m, k] @ y[k, n]. */
static void ts_panel_{s}(const struct ts_product_{s} *p, {t} *out, const {t} *x, const {t} *y, int64_t first,
    int64_t last, int64_t j, int64_t wide)
{{
    static const int heights[] = {{{heights}}};
    const int64_t k = p->sizes[p->dims + 2], width = ts_rounded_{s}(wide);
    const int is_packed = p->form == TS_PACKED;
    const int64_t most = is_packed ? TS_DEEP_{s} : TS_BLOCK_{s};
    const int64_t *const so = p->so + p->dims, *const sy = p->sy + p->dims;
    int64_t l = 0, offsets[TS_TALL_{s}], places[TS_DEEP_{s}];
    {t} block[TS_BLOCK_{s} * TS_COLUMNS_{s}], sums[TS_ROWS_{s} * TS_COLUMNS_{s}];
    do {{
        const int64_t deep = k - l < most ? k - l : most;
        const {t} *const columns = is_packed ? y + j * k + l * width : block;
        ts_places_{s}({depth_dims}, p->depths, l, deep, places);
        if (!is_packed) ts_pack_{s}(y + l * sy[0] + j * sy[1], sy[0], sy[1], deep, wide, width, block);
        for (int64_t i = first; i < last; i += TS_ROWS_{s}) {{
            const int64_t high = last - i < TS_ROWS_{s} ? last - i : TS_ROWS_{s}, number = (i - first) % TS_TALL_{s};
            const {t} *rows[TS_ROWS_{s}];
            int tile = 0;
            if (number == 0)
                ts_places_{s}({row_dims}, p->rows, i, last - i < TS_TALL_{s} ? last - i : TS_TALL_{s}, offsets);
            while (heights[tile] < high) ++tile;
            for (int r = 0; r < heights[tile]; ++r) rows[r] = x + offsets[number + (r < high ? r : 0)];
            ts_tiles_{s}[tile][width / TS_LANES_{s} - 1](rows, places, deep, columns, sums);
            ts_store_{s}(out + i * so[0] + j * so[1], so, sums, high, wide, width, l > 0);
        }}
        l += deep;
    }} while (l < k);
}}

/* Columns j to j + wide for few rows of adjacent elements and columns of adjacent elements. */
static void ts_dots_{s}(const struct ts_product_{s} *p, {t} *out, const {t} *x, const {t} *y, int64_t j, int64_t wide)
{{
    const int64_t m = p->sizes[p->dims], k = p->sizes[p->dims + 2];
    const int64_t *const so = p->so + p->dims, *const sy = p->sy + p->dims;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t c = 0; c < wide; ++c) {{
            const {t} *const a = x + i * p->rows[2 * {row_dims} - 1], *const b = y + (j + c) * sy[1];
            {t} sums[64 / sizeof({t})] = {{0}}, total = 0;
            const int width = sizeof sums / sizeof *sums;
            int64_t l = 0;
            for (; l + width <= k; l += width)
                for (int e = 0; e < width; ++e) sums[e] += a[l + e] * b[l + e];
            for (; l < k; ++l) total += a[l] * b[l];
            for (int e = 0; e < width; ++e) total += sums[e];
            out[i * so[0] + (j + c) * so[1]] = total;
        }}
}}

/* The columns of few filters: each adds multiples of lines of the image to lines of the result. */
static void ts_lines_{s}(const struct ts_product_{s} *p, {t} *out, const {t} *x, const {t} *y, int64_t j, int64_t wide)
{{
    const int64_t *const so = p->so + p->dims, *const sy = p->sy + p->dims, *const rows = p->rows;
    const int64_t k = p->sizes[p->dims + 2], length = rows[2], step = rows[5];
    int64_t l = 0, places[TS_DEEP_{s}];
    do {{
        const int64_t deep = k - l < TS_DEEP_{s} ? k - l : TS_DEEP_{s};
        ts_places_{s}({depth_dims}, p->depths, l, deep, places);
        for (int64_t c = j; c < j + wide; ++c)
            for (int64_t i = 0; i < rows[0] * rows[1]; ++i) {{
                {t} *const to = out + i * length * so[0] + c * so[1];
                const {t} *const from = x + i / rows[1] * rows[3] + i % rows[1] * rows[4];
                if (l == 0) for (int64_t e = 0; e < length; ++e) to[e * so[0]] = 0;
                for (int64_t d = 0; d < deep; ++d) {{
                    const {t} factor = y[(l + d) * sy[0] + c * sy[1]], *const line = from + places[d];
                    if (step == 1 && so[0] == 1) for (int64_t e = 0; e < length; ++e) to[e] += factor * line[e];
                    else for (int64_t e = 0; e < length; ++e) to[e * so[0]] += factor * line[e * step];
                }}
            }}
        l += deep;
    }} while (l < k);
}}

/* Units of work: panels of some rows, counted over all matrices of a batch. */
static void ts_panels_{s}(void *argument, int64_t begin, int64_t end)
{{
    const struct ts_product_{s} *const p = argument;
    const int64_t m = p->sizes[p->dims], n = p->sizes[p->dims + 1], k = p->sizes[p->dims + 2];
    const int64_t panels = (n + TS_COLUMNS_{s} - 1) / TS_COLUMNS_{s}, blocks = (m + p->tall - 1) / p->tall;
    const int64_t matrix = p->form == TS_PACKED ? k * ts_rounded_{s}(n) : 1;
    for (int64_t unit = begin; unit < end; ++unit) {{
        const int64_t j = unit % panels * TS_COLUMNS_{s}, i = unit / panels % blocks * p->tall;
        int64_t rest = unit / panels / blocks, o = 0, x = 0, y = 0;
        for (int d = p->dims - 1; d >= 0; --d) {{
            const int64_t at = rest % p->sizes[d];
            rest /= p->sizes[d];
            o += at * p->so[d];
            x += at * p->sx[d];
            y += at * p->sy[d] * matrix;
        }}
        const int64_t wide = n - j < TS_COLUMNS_{s} ? n - j : TS_COLUMNS_{s};
        if (p->form == TS_DOTS) ts_dots_{s}(p, p->out + o, p->x + x, p->y + y, j, wide);
        else if (p->form == TS_LINES) ts_lines_{s}(p, p->out + o, p->x + x, p->y + y, j, wide);
        else ts_panel_{s}(p, p->out + o, p->x + x, p->y + y, i, m - i < p->tall ? m : i + p->tall, j, wide);
    }}
}}

static void ts_multiply_{s}(const {m} *self, int dims, enum ts_form form, const int64_t *sizes, const int64_t *so,
    const int64_t *sx, const int64_t *sy, const int64_t *rows, const int64_t *depths, {t} *out, const {t} *x,
    const {t} *y)
{{
    struct ts_product_{s} product = {{dims, form, sizes, so, sx, sy, rows, depths, out, x, y, TS_TALL_{s}}};
    const int64_t m = sizes[dims], n = sizes[dims + 1];
    int64_t count = (n + TS_COLUMNS_{s} - 1) / TS_COLUMNS_{s}, work = m * n * sizes[dims + 2];{first}
    if (form == TS_PANELS && m < 4 && depths[2 * {depth_dims} - 1] == 1 && depths[{depth_dims} - 1] == sizes[dims + 2]
        && sy[dims] == 1 && rows[{row_dims} - 1] == m) product.form = TS_DOTS;
    if (form != TS_PACKED) product.tall = m ? m : 1; /* each unit packs its panel */
    count *= (m + product.tall - 1) / product.tall;
    for (int d = 0; d < dims; ++d) {{
        count *= sizes[d];
        work *= sizes[d];
    }}
    if (work < 65536) ts_panels_{s}(&product, 0, count);
    else ts_share(self, ts_panels_{s}, &product, count);
}}"""

#: The start of the routine if there is a BLAS.
_BLAS: Final = """
    if (form == TS_PANELS && ts_blas_{s}(dims, sizes, so, sx, sy, rows, depths, out, x, y)) return;"""

#: Packs count matrices y[k, n], each at a step from the one before.
_PACK_ALL: Final = """\
static void ts_pack_all_{s}(const {t} *y, int64_t count, int64_t matrix_step, int64_t k, int64_t n, int64_t step,
    int64_t column_step, {t} *to)
{{
    for (int64_t i = 0; i < count; ++i, to += k * ts_rounded_{s}(n))
        for (int64_t j = 0; j < n; j += TS_COLUMNS_{s}) {{
            const int64_t wide = n - j < TS_COLUMNS_{s} ? n - j : TS_COLUMNS_{s};
            ts_pack_{s}(y + i * matrix_step + j * column_step, step, column_step, k, wide, ts_rounded_{s}(wide),
                to + j * k);
        }}
}}"""


@dataclass(frozen=True, slots=True)
class Matrices:
    """The numbers of a product.

    Attributes:
        sizes: Those of the batch, then m, n and k.
        out: The batch's steps in the result, then those of its rows and columns.
        x: The batch's steps in x.
        y: The batch's steps in y, then those of k and n.
        rows: Three sizes of the rows of x, then their steps.
        depth: Four sizes of the depth of x, then their steps.
    """

    sizes: tuple[Value, ...]
    out: tuple[Value, ...]
    x: tuple[Value, ...]
    y: tuple[Value, ...]
    rows: tuple[Value, ...]
    depth: tuple[Value, ...]

    @classmethod
    def of_arrays(cls, out: Any, x: Any, y: Any) -> Matrices:
        """Return the product of two arrays of matrices."""
        m, k = x.shape[-2:]
        return cls((*out.shape, k), out.strides, x.strides[:-2], y.strides, (1, 1, m, 0, 0, x.strides[-2]),
                   (1, 1, 1, k, 0, 0, 0, x.strides[-1]))

    @classmethod
    def of_numbers(cls, numbers: Sequence[Value]) -> Matrices:
        """Return the product with the given numbers, in the order of ``numbers``."""
        dims = (len(numbers) - 7 - 2 * (ROW_DIMS + DEPTH_DIMS)) // 4
        lengths = (dims + 3, dims + 2, dims, dims + 2, 2 * ROW_DIMS, 2 * DEPTH_DIMS)
        ends = (0, *accumulate(lengths))
        return cls(*[tuple(numbers[a:b]) for a, b in pairwise(ends)])

    @property
    def numbers(self) -> tuple[Value, ...]:
        """All of them."""
        return (*self.sizes, *self.out, *self.x, *self.y, *self.rows, *self.depth)

    @property
    def is_plain(self) -> bool:
        """Whether rows and depth of x have one dimension each."""
        return self.rows[:ROW_DIMS - 1] == (1, 1) and self.depth[:DEPTH_DIMS - 1] == (1, 1, 1)

    def transposed(self) -> Matrices:
        """Return the plain product of the operands' transposes in exchanged order, which has the transposed result."""
        *batch, m, n, k = self.sizes
        *out, row, column = self.out
        *y, y_depth, y_column = self.y
        return Matrices((*batch, n, m, k), (*out, column, row), tuple(y), (*self.x, self.depth[-1], self.rows[-1]),
                        (1, 1, n, 0, 0, y_column), (1, 1, 1, k, 0, 0, 0, y_depth))


def product_text(dtype: DType, c_type: str, model: str, *, blas: bool = False) -> str:
    """Return the routine for a dtype, which needs ``ts_share`` and ``PRELUDE``; ``model`` is the type of models.

    If ``blas``, products that are not packed are BLAS's where it has a form for their matrices.
    """
    first = _BLAS.format(s=dtype.short) if blas else ""
    text = _TEXT.format(t=c_type, s=dtype.short, m=model, heights=", ".join(map(str, HEIGHTS)), first=first,
                        dims=max(ROW_DIMS, DEPTH_DIMS), row_dims=ROW_DIMS, depth_dims=DEPTH_DIMS)
    return "\n\n".join([tiles_text(dtype.short, c_type), *([blas_text(dtype, c_type)] if blas else []), text])


def packing_text(dtype: DType, c_type: str) -> str:
    """Return the routine that packs weights, which needs that of products."""
    return _PACK_ALL.format(t=c_type, s=dtype.short)


def product_call(dtype: DType, given: Matrices, form: str, pointers: Sequence[str],
                 text: Callable[[Value], str]) -> str:
    """Return the call of the routine.

    Args:
        dtype: The dtype.
        given: The numbers; packed matrices y have a step of the batch in matrices.
        form: The C constant of the form.
        pointers: The first elements of result and operands, as C.
        text: Returns a number as C.
    """
    lists = (given.sizes, given.out, given.x, given.y, given.rows, given.depth)
    arrays = [f"(const int64_t[]){{{', '.join(map(text, x or (0,)))}}}" for x in lists]
    return f"ts_multiply_{dtype.short}({', '.join(['self', str(len(given.x)), form, *arrays, *pointers])});"
