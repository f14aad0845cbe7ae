"""Tiles of a product of matrices in C: a few rows times a few vectors, with all sums in registers."""

from __future__ import annotations

from typing import Final

#: Rows of the tiles. A number of rows between two of these takes the next tile and repeats a row.
HEIGHTS: Final = (1, 2, 4, 6)
#: Most vectors in a row: four where 32 registers hold six such rows, else two.
_WIDEST: Final = 4

#: Vectors of GCC and Clang, as wide as those of the processor that the compiler is told; elsewhere single numbers.
VECTORS: Final = """\
#if defined(__GNUC__) && defined(__AVX512F__)
#define TS_VECTOR 64
#elif defined(__GNUC__) && defined(__AVX__)
#define TS_VECTOR 32
#elif defined(__GNUC__)
#define TS_VECTOR 16
#endif
#if defined(__AVX512F__) || defined(__aarch64__)
#define TS_WIDEST 4
#else
#define TS_WIDEST 2
#endif
/* Products may round once: only the tiles, for results of other kernels are those of separate operations. */
#if defined(__clang__)
#define TS_FUSED
#define TS_FUSE _Pragma("clang fp contract(fast)")
#elif defined(__GNUC__)
#define TS_FUSED __attribute__((optimize("fp-contract=fast")))
#define TS_FUSE
#else
#define TS_FUSED
#define TS_FUSE
#endif"""

_TYPE: Final = """\
#ifdef TS_VECTOR
typedef {t} ts_vector_{s} __attribute__((vector_size(TS_VECTOR), aligned(sizeof({t})), may_alias));
#else
typedef {t} ts_vector_{s};
#endif
enum {{
    TS_LANES_{s} = sizeof(ts_vector_{s}) / sizeof({t}),
    TS_COLUMNS_{s} = TS_WIDEST * TS_LANES_{s},
    TS_ROWS_{s} = """ + str(HEIGHTS[-1]) + """
}};"""

_TABLE: Final = """\
/* sums[row][column] = the sum over l of rows[row][places[l]] * columns[l][column]. */
typedef void ts_tile_{s}(const {t} *const *rows, const int64_t *places, int64_t deep, const {t} *columns, {t} *sums);

static ts_tile_{s} *const ts_tiles_{s}[{heights}][TS_WIDEST] = {{
{names}
#if TS_WIDEST > 2
{wide_names}
#endif
}};"""


def tiles_text(s: str, t: str) -> str:
    """Return the tiles for numbers of the C type ``t``, whose names end in ``s``."""
    small = [_tile(s, t, high, wide) for high in HEIGHTS for wide in range(1, 3)]
    large = [_tile(s, t, high, wide) for high in HEIGHTS for wide in range(3, _WIDEST + 1)]
    return "\n\n".join([_TYPE.format(s=s, t=t), *small, "#if TS_WIDEST > 2", *large, "#endif", _table(s, t)])


def _table(s: str, t: str) -> str:
    def names(first: int, last: int) -> str:
        return "\n".join([f"    [{row}][{wide - 1}] = ts_tile_{s}_{high}x{wide}," for row, high in enumerate(HEIGHTS)
                          for wide in range(first, last)])

    return _TABLE.format(s=s, t=t, heights=len(HEIGHTS), names=names(1, 3), wide_names=names(3, _WIDEST + 1))


def _tile(s: str, t: str, high: int, wide: int) -> str:
    rows, vectors = range(high), range(wide)
    given = ", ".join([f"*const x{r} = rows[{r}]" for r in rows])
    sums = ", ".join([f"s{r}{v} = {{0}}" for r in rows for v in vectors])
    loads = " ".join([f"const ts_vector_{s} y{v} = *(const ts_vector_{s} *)(columns + {v} * TS_LANES_{s});"
                      for v in vectors])
    adds = [f"        {{ const {t} x = x{r}[at]; " + " ".join([f"s{r}{v} += x * y{v};" for v in vectors]) + " }"
            for r in rows]
    stores = [f"    *(ts_vector_{s} *)(sums + {r * wide + v} * TS_LANES_{s}) = s{r}{v};" for r in rows for v in vectors]
    return "\n".join([
        f"TS_FUSED static void ts_tile_{s}_{high}x{wide}(const {t} *const *rows, const int64_t *places, int64_t deep,",
        f"    const {t} *columns, {t} *sums)", "{", "    TS_FUSE", f"    const {t} {given};",
        f"    ts_vector_{s} {sums};",
        f"    for (int64_t l = 0; l < deep; ++l, columns += {wide} * TS_LANES_{s}) {{",
        "        const int64_t at = places[l];", f"        {loads}", *adds, "    }", *stores, "}"])
