"""Random lists of operands against a second statement of promotion, and the result dtype of every pointwise operator.

The statement here is a lattice: an arrow leads to each dtype that holds all values of another one, as promotion sees
it, and two dtypes promote to the first one that both lead to.
"""

from __future__ import annotations

import itertools
import os
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensocket_operators as torch
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.promotion import result_type
from tensocket_operators.kinds.inplace import FORMS
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_plugins.contract.dtypes import BY_SHORT
from tensocket_plugins.contract.errors import DtypeError

FEW = 200
EXAMPLES = int(os.environ.get("TENSOCKET_TEST_EXAMPLES", FEW))
QUICK = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= FEW, database=None)

ARROWS = {
    "b8": "u8 i8", "u8": "i16", "i8": "i16", "i16": "i32", "i32": "i64", "i64": "f16 bf16",
    "u16": "f16 bf16", "u32": "f16 bf16", "u64": "f16 bf16",
    "f16": "f32 c32", "bf16": "f32", "f32": "f64 c64", "f64": "c128", "c32": "c64", "c64": "c128", "c128": ""}
COMMON = [name for name in ARROWS if name not in ("u16", "u32", "u64")]
FLOAT8 = ["f8e4m3fn", "f8e5m2"]
KIND = {name: {"b": "b", "u": "i", "i": "i", "f": "f", "c": "c"}[name.lstrip("b")[0] if name == "bf16" else name[0]]
        for name in [*ARROWS, *FLOAT8]}
ORDER = "bifc"
NUMBERS = [True, 1, 1.5, 1j]
DEFAULTS = {"f32": "c64", "f64": "c128", "f16": "c32", "bf16": "c64"}


class Undefined(Exception):
    """Two dtypes have no common one."""


def above(name: str) -> set[str]:
    """Return the dtypes that a dtype promotes to, with itself."""
    return {name}.union(*[above(other) for other in ARROWS[name].split()])


def join(a: str, b: str) -> str:
    """The first dtype that both lead to."""
    if a == b:
        return a
    if a in FLOAT8 or b in FLOAT8 or ({a, b} & {"u16", "u32", "u64"} and {KIND[a], KIND[b]} != {"i", "f"}):
        raise Undefined
    shared = above(a) & above(b)
    return next(name for name in shared if shared <= above(name))


def joined(names: list[str]) -> str | None:
    found: str | None = None
    for name in names:
        found = name if found is None else join(found, name)
    return found


def with_precision(name: str) -> str:
    """The complex dtype of a float one; there is none of bfloat16's precision."""
    if name in FLOAT8:
        raise Undefined
    return DEFAULTS[name]


def outrank(high: str | None, low: str | None) -> str | None:
    """Operands of a lower rank count only where their category is a higher one."""
    if high is None or low is None:
        return low if high is None else high
    if ORDER.index(KIND[low]) <= ORDER.index(KIND[high]):
        return high
    if KIND[high] == "f":
        return with_precision(high)
    return low if KIND[low] == "c" else join(high, low)


def expected_type(dims: list[str], zeros: list[str], numbers: list[Any], default: str = "f32") -> str:
    """Dimensioned tensors before zero-dimensional ones before numbers."""
    both = outrank(joined(dims), joined(zeros))
    if not numbers:
        assert both is not None
        return both
    of_number = {"b": "b8", "i": "i64", "f": default, "c": DEFAULTS[default]}
    highest = max((kind_of(number) for number in numbers), key=ORDER.index)
    if both is None:
        return of_number[highest]
    if ORDER.index(highest) <= ORDER.index(KIND[both]):
        return both
    return with_precision(both) if KIND[both] == "f" else of_number[highest]


def kind_of(number: Any) -> str:
    return {bool: "b", int: "i", float: "f", complex: "c"}[type(number)]


def tensor(name: str, shape: tuple[int, ...] = (2,)) -> Any:
    return torch.ones(shape, dtype=BY_SHORT[name])


def described(names: list[str], shapes: list[tuple[int, ...]]) -> Any:
    """Strategy for tensors as (dtype name, shape)."""
    return st.tuples(st.sampled_from(names), st.sampled_from(shapes))


SHAPES: list[tuple[int, ...]] = [(2,), (1, 3), (0,), ()]
LISTS = [st.lists(described(names, SHAPES) | st.sampled_from(NUMBERS), min_size=1, max_size=6)
         for names in (COMMON, [*ARROWS, *FLOAT8])]


@QUICK
@given(LISTS[0] | LISTS[1], st.sampled_from(sorted(DEFAULTS)))
def test_any_list_of_operands(operands: list[Any], default: str) -> None:
    given = made(tuple(operands))
    with torch.default_dtype(BY_SHORT[default]):
        try:
            expected = promoted_of(tuple(operands), default)
        except Undefined:
            with pytest.raises(DtypeError, match=r"\[(promote_types|result_type)\]"):
                result_type(given)
            return
        assert result_type(given).short == expected


@QUICK
@given(LISTS[0], st.randoms())
def test_their_order_does_not_matter(operands: list[Any], random: Any) -> None:
    given = made(tuple(operands))
    before = result_type(given)
    random.shuffle(given)
    assert result_type(given) is before


# ------------------------------------------------------------------------------------------------ pointwise operators

#: Operators by the kinds of dtypes that they are defined for and by their result: ``same`` as what operands promote
#: to, ``number``: with bools as int64, ``float``: with integers and bools in the default float dtype, ``bool``,
#: ``real``: the parts of complex ones.
RULES = {
    "bifc same": "add mul where sgn conj_physical times_number",
    "ifc same": "sub neg pow addcmul add_bias",
    "bifc number": "square",
    "bif same": "maximum minimum sign fmax fmin step clamp_min clamp_max",
    "if same":
        "clamp floor ceil trunc round relu relu_backward floor_divide remainder fmod "
        "truncated_divide floored_divide limited threshold",
    "bi same": "bitwise_and bitwise_or bitwise_xor bitwise_not",
    "i same": "bitwise_left_shift bitwise_right_shift gcd lcm wrapped_index combined_position",
    "fc same": "lerp addcdiv silu silu_slope logaddexp",
    "f same":
        "gelu gelu_backward leaky_relu leaky_relu_backward logaddexp2 hypot nextafter bce_logits_terms "
        "bce_terms elu_slope exponent frac hardshrink hardsigmoid hardsigmoid_slope hardswish hardswish_slope "
        "huber_terms igamma igammac inside kept kl_log_terms kl_terms leaking log_add3 logsigmoid mantissa mish "
        "mish_curvature mish_slope outside replaced round_decimals scaled scaled_elu shrunk smooth_l1_terms "
        "soft_margin_terms softplus mean_of_total",
    "ifc real": "abs",
    "bifc floatreal": "angle",
    "f complex": "complex",
    "bifc float":
        "div exp expm1 log log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
        "exp2 log2 log10 sigmoid sinc",
    "ifc float": "tanhshrink",
    "bif float":
        "erf atan2 copysign deg2rad digamma erfc erfinv i0 lgamma logit rad2deg special_airy_ai special_bessel_j0 "
        "special_bessel_j1 special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t "
        "special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_entr "
        "special_erfcx special_hermite_polynomial_h special_hermite_polynomial_he special_i0e special_i1 special_i1e "
        "special_laguerre_polynomial_l special_legendre_polynomial_p special_log_ndtr special_modified_bessel_i0 "
        "special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1 special_ndtr special_ndtri "
        "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t "
        "special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v "
        "special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_xlog1py special_zeta trigamma "
        "xlogy",
    "bifc bool": "eq ne isnan isinf isfinite logical_not logical_and logical_or logical_xor",
    "bif bool": "lt le gt ge signbit isneginf isposinf",
}
RULE_OF = {name: rule.split() for rule, names in RULES.items() for name in names.split()}
POINTWISE = sorted(name for name, record in OPERATORS.items() if isinstance(record, Pointwise))
#: Arguments that are not operands and have no default.
EXTRAS: dict[str, tuple[Any, ...]] = {
    "gelu_backward": ('none',), "leaky_relu_backward": (0.1,), "elu_slope": (1.0, 1.0, 1.0), "huber_terms":
    (1.0,), "inside": (1.0, 1.0), "kept": (1.0, 1.0), "limited": (1.0, 1.0), "outside": (1.0,), "replaced":
    (1.0, 1.0, 1.0), "round_decimals": (1.0, True), "scaled_elu": (1.0, 1.0, 1.0), "shrunk": (1.0,),
    "smooth_l1_terms": (1.0,), "threshold": (1.0, 1.0)}


def expected_result(name: str, promoted: str, any_bool: bool, default: str = "f32") -> str:
    """The result dtype where operands promote to ``promoted``."""
    kinds, result = RULE_OF[name]
    if KIND[promoted] not in kinds or (name == "sub" and any_bool):
        raise Undefined
    if result == "number" and promoted == "b8":
        promoted = "i64"
    if result.startswith("float") and KIND[promoted] in "bi":
        promoted = default
    if result.endswith("real"):
        return {"c32": "f16", "c64": "f32", "c128": "f64"}.get(promoted, promoted)
    if result == "complex":
        return with_precision(promoted)
    return "b8" if result == "bool" else promoted


def test_every_operator_has_a_rule() -> None:
    assert sorted(RULE_OF) == POINTWISE


def operand_lists(name: str, count: int, numbers: bool) -> list[tuple[Any, ...]]:
    """Operands as (dtype name, shape) or numbers; the first is a dimensioned tensor.

    In short runs each operator has another third of all pairs.
    """
    firsts = [(name, (2,)) for name in COMMON]
    if count == 1:
        return [(first,) for first in firsts] + [((name, ()),) for name in COMMON]
    others: list[Any] = [*firsts, *[(name, ()) for name in COMMON], *(NUMBERS if numbers else [])]
    pairs = list(itertools.product(firsts, others))
    if EXAMPLES <= FEW:
        pairs = pairs[POINTWISE.index(name) % 3::3]
    return pairs if count == 2 else [(a, b, (a, b)[k % 2]) for k, (a, b) in enumerate(pairs)]


def promoted_of(operands: tuple[Any, ...], default: str = "f32") -> str:
    tensors = [x for x in operands if isinstance(x, tuple)]
    return expected_type([n for n, shape in tensors if shape], [n for n, shape in tensors if not shape],
                         [x for x in operands if not isinstance(x, tuple)], default)


def has_bool(operands: tuple[Any, ...]) -> bool:
    return any(x is True or (isinstance(x, tuple) and x[0] == "b8") for x in operands)


def made(operands: tuple[Any, ...], create: Any = tensor) -> list[Any]:
    return [create(*x) if isinstance(x, tuple) else x for x in operands]


@pytest.mark.parametrize("name", POINTWISE)
def test_result_dtypes(name: str) -> None:
    record: Any = OPERATORS[name]
    count, parameters = record.count - record.condition, record.schema.parameters
    numbers = count > 1 and all(p.type == "Operand" for p in parameters[record.condition + 1:record.count])
    before = [tensor("b8")] if record.condition else []
    seen, create = 0, cache(tensor)
    for operands in operand_lists(name, count, numbers):
        given = [*before, *made(operands, create), *EXTRAS.get(name, ())]
        try:
            expected = expected_result(name, promoted_of(operands), has_bool(operands))
        except Undefined:
            if name == "pow" and type(given[1]) is bool and type(given[0]) is not bool:
                assert record(*given).dtype.short == "b8"  # a power of truth values is one where the exponent is
                continue
            with pytest.raises(DtypeError):
                record(*given)
            continue
        assert record(*given).dtype.short == expected, operands
        seen += 1
    assert seen >= len(COMMON) // 6


@pytest.mark.parametrize("default", ["f64", "bf16"])
def test_results_of_integers_have_the_default_dtype(default: str) -> None:
    names = [name for name, (_, result) in RULE_OF.items() if result.startswith("float")]
    with torch.default_dtype(BY_SHORT[default]):
        for name in names:
            record: Any = OPERATORS[name]
            for first in ("b8", "u8", "i64")[RULE_OF[name][0] == "ifc":]:
                operands = ((first, (2,)), ("i8", ()))[:record.count]
                expected = expected_result(name, promoted_of(operands, default), False, default)
                assert record(*made(operands)).dtype.short == expected == default
        assert (tensor("i32") + 1.5).dtype.short == default


def castable(source: str, target: str) -> bool:
    """Nothing loses its imaginary part, its fraction or, as a bool, its value."""
    return ORDER.index(KIND[source]) <= ORDER.index(KIND[target])


@pytest.mark.parametrize("name", sorted(FORMS))
def test_in_place_results_keep_the_dtype_or_are_refused(name: str) -> None:
    record: Any = OPERATORS[name]
    form: Any = FORMS[name]
    numbers = record.count > 1 and all(p.type == "Operand" for p in record.schema.parameters[1:record.count])
    create = cache(tensor)
    for operands in operand_lists(form.origin.name, record.count, numbers):
        target, others = tensor(*operands[0]), made(operands[1:], create)
        try:
            result = expected_result(name, promoted_of(operands), has_bool(operands))
            fine = castable(result, operands[0][0]) and not (name in ("abs", "angle") and KIND[operands[0][0]] == "c")
        except Undefined:
            fine = False
        version = target._version
        if not fine:
            with pytest.raises(DtypeError):
                form(target, *others)
            assert target._version == version, operands
            assert target.tolist() == tensor(*operands[0]).tolist()
            continue
        dtype = target.dtype
        assert form(target, *others) is target
        assert target.dtype is dtype
        assert target._version == version + 1
