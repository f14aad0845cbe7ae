"""Dialects of C: data for the one printer of ``printers/c.py``. A backend for another C-like language defines its own.

In every dialect a bool is stored as one byte, and float16 and bfloat16 values are their bits in a 16-bit unsigned
integer: only conversions to and from float32 know their format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

#: Reserved names of C, OpenCL C or CUDA C++, and names that a source uses as functions.
RESERVED: Final = frozenset("""
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl complex const constant
    constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false float
    for friend global goto half if image1d_t imaginary inline int kernel local long mutable namespace new noexcept
    not not_eq nullptr operator or or_eq pipe private protected public quad register reinterpret_cast restrict
    return sampler_t short signed sizeof static static_assert static_cast struct switch template this thread_local
    throw true try typedef typeid typename uchar uint ulong union unsigned unroll ushort using vec_step virtual void
    volatile wchar_t while xor xor_eq as_double as_float as_uint as_ulong barrier atomicAdd atomicCAS atomicMax
    atomicMin blockIdx blockDim gridDim threadIdx warpSize get_group_id get_local_id vload_half vstore_half_rte exp
    expf expm1 expm1f log logf log1p log1pf sin sinf cos cosf tanh tanhf erf erff pow powf fmod fmodf fabs fabsf
    sqrt sqrtf floor floorf ceil ceilf trunc truncf rint rintf main NULL INFINITY NAN
    """.split())  # noqa: SIM905  a list literal of as many words is no easier to read


@dataclass(frozen=True)
class Dialect:
    """The spelling of a C-like language for the printer.

    Attributes:
        name: For messages.
        types: Type of a value, by element type name; ``storage`` has the exceptions for memory.
        storage: Type of an element in memory, by element type name, if it is not the type of a value.
        kernel: Head of a kernel up to its parameter list, with ``{name}`` and ``{bounds}``.
        bounds: Declares the group size, with ``{x}``, ``{y}``, ``{z}`` and ``{total}``; empty if the language cannot.
        function: Qualifiers of a helper function.
        global_space: Qualifier of a pointer to global memory, with a trailing space unless empty.
        local_space: Qualifier of a local array and of a pointer to one, likewise.
        local_pointer: Qualifier of a pointer to local memory, likewise; the same as ``local_space`` in OpenCL.
        private_space: Qualifier of a lane's own array that is aligned to ``{bytes}``, likewise.
        vector: Type of ``{n}`` elements of ``{t}`` that are read or written in one access; empty if there is none.
        group_index: Index of the group along axis 0 (the fastest), 1 and 2. Empty for a serial language, in which all
            loops are printed as loops.
        lane_index: Index of the lane within its group, likewise.
        barrier: The statement at which all lanes of a group wait.
        unroll: Line before a loop to unroll.
        independent: Line before a loop whose iterations may run at once.
        header: First lines of every source.
        float64_header: Further lines for sources with float64.
        atomic64_header: Further lines for sources with 64-bit atomics.
        suffix: Suffix of literals, by element type name.
        infinity: Positive infinity, by element type name.
        nan: A quiet NaN, by element type name.
        bits_of: Function that returns a float's bits as an unsigned integer, by element type name.
        from_bits: The inverse function.
        math_suffix: Suffix of the C library's names, by element type name.
        math: Names that differ from C's, by ``function.dtype``, for example ``{"exp.float32": "native_exp"}``.
        helpers: Texts of helper functions that differ between dialects, by name; ``{f}`` is ``function``.
        atomics: Native atomics by ``function.dtype``, with ``{p}`` (pointer) and ``{v}`` (value).
        compare_exchange: Function ``(pointer, expected, desired) -> old`` on unsigned integers, by their bits.
    """

    name: str
    types: Mapping[str, str]
    storage: Mapping[str, str]
    kernel: str
    function: str
    suffix: Mapping[str, str]
    infinity: Mapping[str, str]
    nan: Mapping[str, str]
    bits_of: Mapping[str, str]
    from_bits: Mapping[str, str]
    math_suffix: Mapping[str, str]
    helpers: Mapping[str, str]
    bounds: str = ""
    global_space: str = ""
    local_space: str = ""
    local_pointer: str = ""
    private_space: str = ""
    vector: str = ""
    group_index: tuple[str, ...] = ()
    lane_index: tuple[str, ...] = ()
    barrier: str = ""
    unroll: str = ""
    independent: str = ""
    header: str = ""
    float64_header: str = ""
    atomic64_header: str = ""
    math: Mapping[str, str] = field(default_factory=dict)
    atomics: Mapping[str, str] = field(default_factory=dict)
    compare_exchange: Mapping[int, str] = field(default_factory=dict)

    @property
    def serial(self) -> bool:
        """Whether the language has no groups and lanes: every loop is printed as a loop."""
        return not self.group_index


OPENCL: Final = Dialect(
    name="OpenCL C",
    types={
        "bool": "bool", "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong", "int8": "char",
        "int16": "short", "int32": "int", "int64": "long", "float16": "ushort", "bfloat16": "ushort",
        "float32": "float", "float64": "double",
    },
    storage={"bool": "uchar"},
    kernel="__kernel {bounds}void {name}",
    bounds="__attribute__((reqd_work_group_size({x}, {y}, {z}))) ",
    function="",
    global_space="__global ",
    local_space="__local ",
    local_pointer="__local ",
    private_space="__attribute__((aligned({bytes}))) ",
    vector="{t}{n}",
    group_index=("get_group_id(0)", "get_group_id(1)", "get_group_id(2)"),
    lane_index=("get_local_id(0)", "get_local_id(1)", "get_local_id(2)"),
    barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    unroll="#pragma unroll",
    header="#pragma OPENCL FP_CONTRACT OFF",
    float64_header="#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
    atomic64_header="#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
                    "#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable",
    suffix={"uint32": "u", "int64": "L", "uint64": "UL", "float32": "f"},
    infinity={"float32": "INFINITY", "float64": "((double)INFINITY)"},
    nan={"float32": "as_float(0x7fc00000u)", "float64": "as_double(0x7ff8000000000000UL)"},
    bits_of={"float32": "as_uint", "float64": "as_ulong"},
    from_bits={"float32": "as_float", "float64": "as_double"},
    math_suffix={"float32": "", "float64": ""},
    # vload_half and vstore_half need no cl_khr_fp16.
    helpers={
        "ts_half_to_float": "{f}float ts_half_to_float(ushort x) {{ return vload_half(0, (const half *)&x); }}",
        "ts_float_to_half": "{f}ushort ts_float_to_half(float x) {{\n"
                            "    ushort bits;\n    vstore_half_rte(x, 0, (half *)&bits);\n    return bits;\n}}",
        "ts_double_to_half": "{f}ushort ts_double_to_half(double x) {{\n"
                             "    ushort bits;\n    vstore_half_rte(x, 0, (half *)&bits);\n    return bits;\n}}",
    },
    atomics={
        **{f"{f}.{t}": f"atomic_{f}({{p}}, {{v}})" for f in ("add", "min", "max") for t in ("int32", "uint32")},
        **{f"{f}.{t}": f"atom_{f}({{p}}, {{v}})" for f in ("add", "min", "max") for t in ("int64", "uint64")},
    },
    compare_exchange={32: "atomic_cmpxchg", 64: "atom_cmpxchg"},
)

_CUDA_ATOMICS: Final = {
    **{f"{f}.{t}": f"atomic{f.capitalize()}({{p}}, {{v}})" for f in ("add", "min", "max")
       for t in ("int32", "uint32", "int64", "uint64")},
    "add.float32": "atomicAdd({p}, {v})",
    "add.float64": "atomicAdd({p}, {v})",
    # CUDA has no signed 64-bit atomicAdd; in two's complement the unsigned one is the same.
    "add.int64": "atomicAdd((unsigned long long *)({p}), (unsigned long long)({v}))",
}

#: CUDA has no FP_CONTRACT pragma: compile with ``--fmad=false``.
CUDA: Final = Dialect(
    name="CUDA C++",
    types={
        "bool": "bool", "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
        "uint64": "unsigned long long", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
        "float16": "unsigned short", "bfloat16": "unsigned short", "float32": "float", "float64": "double",
    },
    storage={"bool": "unsigned char"},
    kernel='extern "C" __global__ void {bounds}{name}',
    bounds="__launch_bounds__({total}) ",
    function="static __device__ __forceinline__ ",
    local_space="__shared__ ",
    private_space="__align__({bytes}) ",
    vector="ts_vector<{t}, {n}>",
    group_index=("blockIdx.x", "blockIdx.y", "blockIdx.z"),
    lane_index=("threadIdx.x", "threadIdx.y", "threadIdx.z"),
    barrier="__syncthreads();",
    unroll="#pragma unroll",
    suffix={"uint32": "u", "int64": "LL", "uint64": "ULL", "float32": "f"},
    infinity={"float32": "__uint_as_float(0x7f800000u)", "float64": "__longlong_as_double(0x7ff0000000000000LL)"},
    nan={"float32": "__uint_as_float(0x7fc00000u)", "float64": "__longlong_as_double(0x7ff8000000000000LL)"},
    bits_of={"float32": "__float_as_uint", "float64": "__double_as_longlong"},
    from_bits={"float32": "__uint_as_float", "float64": "__longlong_as_double"},
    math_suffix={"float32": "f", "float64": ""},
    # NVRTC has no cuda_fp16.h without the toolkit's headers; only these instructions are needed from it. They drop the
    # sign of NaN, which is added again.
    helpers={
        name: f"{{f}}{result} {name}({argument} x) {{{{\n    {result} y;\n"
              f'    asm("cvt.{instruction} %0, %1;" : "={to}"(y) : "{of}"(x));\n    return {signed};\n}}}}'
        for name, result, argument, instruction, to, of, signed in (
            ("ts_half_to_float", "float", "unsigned short", "f32.f16", "f", "h",
             "__uint_as_float(__float_as_uint(y) | (unsigned int)(x & 0x8000u) << 16)"),
            ("ts_float_to_half", "unsigned short", "float", "rn.f16.f32", "h", "f",
             "y | (__float_as_uint(x) >> 16 & 0x8000u)"),
            ("ts_double_to_half", "unsigned short", "double", "rn.f16.f64", "h", "d",
             "y | ((unsigned long long)__double_as_longlong(x) >> 48 & 0x8000u)"),
        )
    } | {"ts_vector": "template <typename T, int N> struct __align__(sizeof(T) * N) ts_vector {{ T elements[N]; }};"},
    atomics=_CUDA_ATOMICS,
    compare_exchange={32: "atomicCAS", 64: "atomicCAS"},
)

_C_HEADER: Final = """\
#include <math.h>
#include <stdint.h>

static inline uint32_t ts_float_bits(float x) { union { float f; uint32_t u; } v; v.f = x; return v.u; }
static inline float ts_bits_float(uint32_t x) { union { float f; uint32_t u; } v; v.u = x; return v.f; }
static inline uint64_t ts_double_bits(double x) { union { double f; uint64_t u; } v; v.f = x; return v.u; }
static inline double ts_bits_double(uint64_t x) { union { double f; uint64_t u; } v; v.u = x; return v.f; }"""

_C_HALF_TO_FLOAT: Final = """\
{f}float ts_half_to_float(uint16_t x) {{
    uint32_t u = (uint32_t)(x & 0x7fffu) << 13;
    /* Scaling by 2**112 moves the exponent's bias and normalises subnormals. */
    float y = (x & 0x7c00u) == 0x7c00u ? ts_bits_float(u | 0x7f800000u) : ts_bits_float(u) * 0x1p112f;
    return ts_bits_float(ts_float_bits(y) | (uint32_t)(x & 0x8000u) << 16);
}}"""

_C_FLOAT_TO_HALF: Final = """\
{f}uint16_t ts_float_to_half(float x) {{
    uint32_t u = ts_float_bits(x), sign = u >> 16 & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    /* 0.5f has the spacing of half's subnormals, so that the addition rounds. */
    if (u < 0x38800000u) return (uint16_t)(sign | (ts_float_bits(ts_bits_float(u) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | (u + 0xc8000fffu + (u >> 13 & 1u)) >> 13);
}}"""

_C_DOUBLE_TO_HALF: Final = """\
{f}uint16_t ts_double_to_half(double x) {{
    /* To float by rounding to odd, which keeps what the second rounding must know. */
    float y = (float)x;
    uint32_t u = ts_float_bits(y);
    if (x == x && (double)y != x) u = (u - (fabs((double)y) > fabs(x))) | 1u;
    return ts_float_to_half(ts_bits_float(u));
}}"""

#: Serial C99, for deployment. Compile with ``-ffp-contract=off``.
C: Final = replace(
    CUDA,
    name="C",
    types={
        "bool": "_Bool", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
        "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t", "float16": "uint16_t",
        "bfloat16": "uint16_t", "float32": "float", "float64": "double",
    },
    storage={"bool": "uint8_t"},
    kernel="void {name}",
    bounds="",
    function="static inline ",
    local_space="",
    private_space="",
    vector="",
    group_index=(),
    lane_index=(),
    barrier="",
    unroll="",
    header=_C_HEADER,
    infinity={"float32": "INFINITY", "float64": "((double)INFINITY)"},
    nan={"float32": "ts_bits_float(0x7fc00000u)", "float64": "ts_bits_double(0x7ff8000000000000ULL)"},
    bits_of={"float32": "ts_float_bits", "float64": "ts_double_bits"},
    from_bits={"float32": "ts_bits_float", "float64": "ts_bits_double"},
    helpers={
        "ts_half_to_float": _C_HALF_TO_FLOAT,
        "ts_float_to_half": _C_FLOAT_TO_HALF,
        "ts_double_to_half": _C_DOUBLE_TO_HALF,
    },
    atomics={},
    compare_exchange={},
)
