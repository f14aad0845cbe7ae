"""The operators that scripts call: functions, types of results, and how Python computes them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket.jit.graph import script_types as t
from tensocket_core.dispatch.registry import OPERATORS

#: Operators that Python's own syntax computes, by kind and number of arguments.
TEMPLATES: Final[dict[tuple[str, int], str]] = {
    ("aten::add", 2): "({0} + {1})", ("aten::sub", 2): "({0} - {1})", ("aten::mul", 2): "({0} * {1})",
    ("aten::div", 2): "({0} / {1})", ("aten::floordiv", 2): "({0} // {1})", ("aten::remainder", 2): "({0} % {1})",
    ("aten::floor_divide", 2): "({0} // {1})", ("aten::matmul", 2): "({0} @ {1})", ("aten::neg", 1): "(-{0})",
    ("aten::__and__", 2): "({0} & {1})", ("aten::__or__", 2): "({0} | {1})", ("aten::__xor__", 2): "({0} ^ {1})",
    ("aten::__lshift__", 2): "({0} << {1})", ("aten::__rshift__", 2): "({0} >> {1})", ("aten::__not__", 1): "(not {0})",
    ("aten::eq", 2): "({0} == {1})", ("aten::ne", 2): "({0} != {1})", ("aten::lt", 2): "({0} < {1})",
    ("aten::le", 2): "({0} <= {1})", ("aten::gt", 2): "({0} > {1})", ("aten::ge", 2): "({0} >= {1})",
    ("aten::bitwise_not", 1): "(~{0})", ("aten::__is__", 2): "({0} is {1})", ("aten::__isnot__", 2): "({0} is not {1})",
    ("aten::__contains__", 2): "({1} in {0})", ("aten::__getitem__", 2): "{0}[{1}]", ("aten::len", 1): "len({0})",
    ("aten::Int", 1): "int({0})", ("aten::Float", 1): "float({0})", ("aten::Bool", 1): "bool({0})",
    ("aten::Complex", 1): "complex({0})", ("aten::Complex", 2): "complex({0}, {1})", ("aten::str", 1): "str({0})",
    ("aten::IntImplicit", 1): "int({0})", ("aten::FloatImplicit", 1): "float({0})",
    ("aten::ComplexImplicit", 1): "complex({0})", ("aten::ScalarImplicit", 1): "{0}.item()",
    ("prim::unchecked_cast", 1): "{0}", ("prim::TupleIndex", 2): "{0}[{1}]", ("aten::size", 1): "list({0}.shape)",
    ("aten::size", 2): "{0}.shape[{1}]", ("aten::dim", 1): "{0}.dim()", ("aten::ord", 1): "ord({0})",
    ("aten::stride", 1): "list({0}.stride())", ("aten::list", 1): "list({0})", ("prim::min", 2): "min({0}, {1})",
    ("prim::max", 2): "max({0}, {1})", ("prim::min", 1): "min({0})", ("prim::max", 1): "max({0})",
    ("prim::abs", 1): "abs({0})", ("aten::chr", 1): "chr({0})", ("aten::hex", 1): "hex({0})",
    ("aten::oct", 1): "oct({0})", ("aten::bin", 1): "bin({0})", ("aten::hash", 1): "hash({0})",
    ("aten::divmod", 2): "divmod({0}, {1})", ("aten::round_", 1): "round({0})", ("prim::dtype", 1): "{0}.dtype",
    ("prim::device", 1): "{0}.device", ("prim::shape", 1): "list({0}.shape)", ("prim::grad", 1): "{0}.grad",
    ("prim::data", 1): "{0}.data", ("prim::requires_grad", 1): "{0}.requires_grad", ("prim::layout", 1): "{0}.layout",
    ("aten::__range_length", 3): "len(range({0}, {1}, {2}))",
    ("aten::__derive_index", 3): "({1} + {0} * {2})", ("aten::fork", 1): "{0}", ("aten::wait", 1): "{0}.wait()",
    ("aten::keys", 1): "list({0}.keys())", ("aten::values", 1): "list({0}.values())",
    ("aten::items", 1): "list({0}.items())", ("aten::dict", 1): "dict({0})", ("aten::any_", 1): "any({0})",
    ("aten::all_", 1): "all({0})", ("aten::sum_", 1): "sum({0})", ("prim::ord", 1): "ord({0})",
    ("aten::reversed", 1): "{0}[::-1]", ("aten::mT", 1): "{0}.mT",
    ("aten::append", 2): "{0}.append({1})", ("aten::_set_item", 3): "{0}.__setitem__({1}, {2})",
    ("aten::Delete", 2): "{0}.__delitem__({1})",
    ("prim::ToScalar", 1): "{0}.item()", ("prim::await_wait", 1): "{0}.wait()",
}
#: Attributes of tensors, with their types.
TENSOR_ATTRIBUTES: Final[dict[str, t.JitType]] = {
    "shape": t.ListType(t.INT), "dtype": t.DTYPE, "device": t.DEVICE, "layout": t.LAYOUT, "ndim": t.INT,
    "T": t.TENSOR, "H": t.TENSOR, "mT": t.TENSOR, "mH": t.TENSOR, "real": t.TENSOR, "imag": t.TENSOR,
    "data": t.TENSOR, "grad": t.optional(t.TENSOR), "requires_grad": t.BOOL, "is_cuda": t.BOOL, "is_cpu": t.BOOL,
    "is_sparse": t.BOOL, "is_sparse_csr": t.BOOL, "is_quantized": t.BOOL, "is_mps": t.BOOL, "is_meta": t.BOOL,
    "is_nested": t.BOOL, "is_leaf": t.BOOL, "is_xpu": t.BOOL, "is_mkldnn": t.BOOL, "itemsize": t.INT,
    "nbytes": t.INT, "name": t.optional(t.STRING), "is_vulkan": t.BOOL, "is_ipu": t.BOOL, "is_mtia": t.BOOL,
}
_PAIRS: Final = frozenset(["sort", "topk", "kthvalue", "mode", "cummax", "cummin", "std_mean", "var_mean", "qr",
                           "slogdet", "frexp", "aminmax", "geqrf", "eigh", "max_pool1d_with_indices",
                           "max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool1d",
                           "adaptive_max_pool2d", "adaptive_max_pool3d", "fractional_max_pool2d",
                           "fractional_max_pool3d", "histogram", "triangular_solve", "rnn_tanh", "rnn_relu", "gru",
                           "symeig", "eig", "lobpcg", "cholesky_ex",
                           "inv_ex", "lu_factor", "ldl_factor", "log_sigmoid_forward", "lstm_cell", "batch_norm_stats",
                           "multi_head_attention_forward", "adaptive_max_pool1d_with_indices",
                           "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d_with_indices",
                           "fractional_max_pool2d_with_indices", "fractional_max_pool3d_with_indices"])
_TRIPLES: Final = frozenset(["svd", "lstm", "native_layer_norm", "native_batch_norm", "native_group_norm", "_unique2",
                             "lu_unpack"])
_WITH_DIM: Final = frozenset({"max", "min", "median", "nanmedian"})
_LISTS: Final = frozenset(["chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "split_with_sizes",
                           "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "broadcast_tensors", "meshgrid",
                           "nonzero_numpy", "gradient", "align_tensors"])
_INTS: Final = frozenset(["dim", "numel", "nelement", "ndimension", "element_size", "get_device", "storage_offset",
                          "dense_dim", "sparse_dim", "data_ptr", "ndim", "initial_seed", "_version", "get_num_threads",
                          "seed"])
_BOOLS: Final = frozenset(["equal", "allclose", "can_cast", "has_names", "_has_compatible_shallow_copy_type",
                           "is_available"])
_TYPED: Final[dict[str, t.JitType]] = {
    "item": t.NUMBER, "get_default_dtype": t.DTYPE, "result_type": t.DTYPE, "promote_types": t.DTYPE,
    "manual_seed": t.NONE, "set_grad_enabled": t.NONE, "backward": t.NONE, "_assert": t.NONE,
    "set_num_threads": t.NONE, "broadcast_shapes": t.ListType(t.INT), "set_default_dtype": t.NONE,
    "clip_grad_norm_": t.TENSOR, "device": t.DEVICE,
}


def _is_given(name: str, position: int, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    return keywords.get(name, arguments[position] if position < len(arguments) else None)


def _flag_of_indices(function: Callable[..., Any] | None, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """Return the value that says whether a pool returns indices; False by default, None for other functions."""
    known = None if function is None else signature(function)
    if known is None or "return_indices" not in known.parameters:
        return None
    return known.bind(*arguments, **keywords).arguments.get("return_indices", False)


def result_type(name: str, arguments: Sequence[Any], keywords: dict[str, Any],
                function: Callable[..., Any] | None = None) -> t.JitType:
    """Return the type of an operator's result, which is a tensor unless a table says something else.

    Args:
        name: The operator.
        arguments: Positional arguments: values with a ``kind``.
        keywords: Keyword arguments.
        function: The function that is called.
    """
    pair = t.TupleType([t.TENSOR, t.TENSOR])
    flag = None if name.endswith("_with_indices") else _flag_of_indices(function, arguments, keywords)
    if flag is not None:
        return pair if flag and flag.toIValue() else t.TENSOR
    if name in _WITH_DIM:
        given = _is_given("dim", 1, arguments, keywords)
        return pair if given is not None and given.kind is not t.TENSOR else t.TENSOR
    if name in _PAIRS:
        return pair
    if name in _TRIPLES:
        return t.TupleType([t.TENSOR] * 3)
    if name == "lstsq":
        return t.TupleType([t.TENSOR] * 4)
    if name in _LISTS or (name == "where" and len(arguments) + len(keywords) == 1):
        return t.ListType(t.TENSOR)
    if name in ("size", "stride"):
        return t.INT if len(arguments) + len(keywords) > 1 else t.ListType(t.INT)
    if name in _INTS:
        return t.INT
    if name in _BOOLS or (name.startswith("is_") and name != "is_set_to_"):
        return t.BOOL
    if name.startswith("atleast_") and arguments and isinstance(arguments[0].kind, (t.ListType, t.TupleType)):
        return t.ListType(t.TENSOR)
    if name in ("unique", "unique_consecutive"):
        flags = [keywords.get(flag) for flag in ("return_inverse", "return_counts")]
        extra = sum(flag is not None and bool(flag.toIValue()) for flag in flags)
        return t.TupleType([t.TENSOR] * (1 + extra)) if extra else t.TENSOR
    if name == "return_indices":
        return pair
    return _TYPED.get(name, t.TENSOR)


@functools.lru_cache(maxsize=4096)
def signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature of a function; None if Python does not know it.

    The cache's key is the function, its bound 4096 functions; nothing clears it.
    """
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


@functools.lru_cache(maxsize=4096)
def find(name: str) -> Callable[..., Any] | None:
    """Return the function of an operator, by the name that graphs use: a function of ``torch`` or a tensor's method.

    Only operators are found, never functions that read files or change settings. The cache's key is the name, its bound
    4096 names; nothing clears it.
    """
    import tensocket

    for owner in (tensocket, tensocket.nn.functional, tensocket.Tensor):
        function = getattr(owner, name, None)
        if callable(function) and (owner is tensocket.Tensor or is_operator(function)):
            if owner is tensocket.Tensor and (name.startswith("__") or name in _NO_OPERATORS):
                continue
            return function  # type: ignore[no-any-return]
    return None


#: Functions of the operators' package that scripts from files must not call.
_NO_OPERATORS: Final = frozenset({"from_file", "numpy", "share_memory_", "register_hook", "map_", "map2_", "apply_",
                                  "module_load", "set_", "untyped_storage", "storage", "share_memory"})
_NAMESPACES: Final = ("tensocket_operators", "tensocket_core", "tensocket.nn.functional", "tensocket.nn.functions",
                      "tensocket.nn.activations", "tensocket.nn.spatial", "tensocket.functional", "tensocket.namespace",
                      "tensocket.special", "tensocket.linalg", "tensocket.fft", "tensocket.random", "tensocket.nested",
                      "tensocket.nn.utils.rnn", "tensocket.nn.modules.transformer")


def is_operator(thing: Any) -> bool:
    """Whether an object is one of the functions that scripts call as they are."""
    if not callable(thing) or isinstance(thing, type):
        return False
    if getattr(thing, "__name__", "") == "boolean_dispatch":
        return False
    module = str(getattr(thing, "__module__", "") or "")
    return module.startswith(_NAMESPACES) and getattr(thing, "__name__", "") not in _NO_OPERATORS


def check_arguments(name: str, function: Callable[..., Any] | None, arguments: Sequence[Any],
                    keywords: dict[str, Any]) -> str | None:
    """Return why a call of an operator cannot be right, or None.

    Args:
        name: The operator.
        function: The function that is called.
        arguments: Positional arguments: values with a ``kind``.
        keywords: Keyword arguments.
    """
    known = None if function is None else signature(function)
    if known is None:
        return None
    try:
        bound = known.bind(*arguments, **keywords)
    except TypeError as error:
        return str(error)
    flag = _flag_of_indices(function, arguments, keywords)
    if flag and flag.node().kind() != "prim::Constant":
        return "argument 'return_indices', which decides the result's type, was not constant"
    record = OPERATORS.get(name)
    for parameter in () if record is None else record.schema.parameters:
        value = bound.arguments.get(parameter.name)
        kind = getattr(value, "kind", None)
        if kind is None or kind is t.ANY:
            continue
        if parameter.type == "Tensor" and not _is_tensor_like(kind, parameter.optional):
            return (f"Expected a value of type 'Tensor' for argument '{parameter.name}' but instead found type "
                    f"'{kind}'")
        if parameter.type in ("int", "float", "bool") and kind in (t.STRING, t.DEVICE):
            return (f"Expected a value of type '{parameter.type}' for argument '{parameter.name}' but instead found "
                    f"type '{kind}'")
    return None


def _is_tensor_like(kind: t.JitType, allows_none: bool) -> bool:
    if isinstance(kind, t.UnionType):
        return allows_none and _is_tensor_like(kind.without(t.NONE), True)
    if kind is t.NONE:
        return allows_none
    return kind in (t.TENSOR, t.INT, t.FLOAT, t.BOOL, t.COMPLEX, t.NUMBER, t.NEVER)


# ---------------------------------------------------------------------------------------- numbers, lists, dicts, text

_ORDER: Final = (t.BOOL, t.INT, t.FLOAT, t.COMPLEX)
_NUMBERS: Final = frozenset({t.INT, t.FLOAT, t.COMPLEX, t.BOOL, t.NUMBER, t.DTYPE})


def is_number(kind: t.JitType) -> bool:
    """Whether values of a type are Python numbers."""
    return kind in _NUMBERS


def arithmetic_type(name: str, one: t.JitType, other: t.JitType) -> t.JitType | None:
    """Return the type of ``one + other`` and the like; None if there is no such operation."""
    if t.TENSOR in (one, other):
        rest = other if one is t.TENSOR else one
        return t.TENSOR if rest is t.TENSOR or is_number(rest) else None
    if is_number(one) and is_number(other):
        if name in ("__and__", "__or__", "__xor__"):
            return None if t.FLOAT in (one, other) else t.BOOL if one is other is t.BOOL else t.INT
        if name in ("__lshift__", "__rshift__"):
            return t.INT if t.FLOAT not in (one, other) else None
        if t.NUMBER in (one, other):
            return t.NUMBER
        widest = max((k if k in _ORDER else t.INT for k in (one, other)), key=_ORDER.index)
        widest = t.INT if widest is t.BOOL else widest
        return t.FLOAT if name in ("div", "pow") and widest is t.INT else widest
    if name == "add":
        if isinstance(one, t.ListType) and isinstance(other, t.ListType):
            element = t.unify(one.element, other.element)
            return None if element is None else t.ListType(element)
        if isinstance(one, t.TupleType) and isinstance(other, t.TupleType):
            return t.TupleType(one.items + other.items)
        return t.STRING if one is other is t.STRING else None
    if name == "mul":
        pair = {one: other, other: one}
        for kind, count in pair.items():
            if (isinstance(kind, t.ListType) or kind is t.STRING) and count is t.INT:
                return kind
    return t.STRING if name == "remainder" and one is t.STRING else None


def comparison_type(name: str, one: t.JitType, other: t.JitType) -> t.JitType | None:
    """Return the type of ``one < other`` and the like; None if there is no such operation."""
    if t.TENSOR in (one, other):
        rest = other if one is t.TENSOR else one
        return t.TENSOR if rest is t.TENSOR or is_number(rest) else t.BOOL if rest is t.NONE else None
    if name in ("eq", "ne"):
        if isinstance(one, t.EnumType) and isinstance(other, t.EnumType):
            return t.BOOL
        related = t.unify(one, other) is not None or (is_number(one) and is_number(other))
        return t.BOOL if related else None
    if is_number(one) and is_number(other):
        return t.BOOL if t.COMPLEX not in (one, other) else None
    same = one == other and (one is t.STRING or isinstance(one, (t.ListType, t.TupleType)))
    return t.BOOL if same else None


def is_sortable(kind: t.JitType) -> bool:
    """Whether the values of a type have an order."""
    if isinstance(kind, t.TupleType):
        return all(map(is_sortable, kind.items))
    if isinstance(kind, t.ClassType):
        method = kind.method("__lt__")
        return method is not None and method.schema.result is t.BOOL
    return kind in (t.INT, t.FLOAT, t.BOOL, t.STRING, t.TENSOR)


def method_type(receiver: t.JitType, name: str, arguments: Sequence[Any]) -> t.JitType | None:
    """Return the type that a method of a list, dict, str or number returns; None if there is no such method."""
    if isinstance(receiver, t.ListType):
        return _list_methods(receiver).get(name)
    if isinstance(receiver, t.DictType):
        return _dict_methods(receiver, arguments).get(name)
    if receiver is t.STRING:
        return _STRING_METHODS.get(name)
    if isinstance(receiver, t.TupleType):
        return {"index": t.INT, "count": t.INT, "_asdict": t.ANY}.get(name)
    if isinstance(receiver, t.FutureType):
        return {"wait": receiver.element, "done": t.BOOL, "value": receiver.element}.get(name)
    return _OTHER_METHODS.get((receiver, name))


def _list_methods(kind: t.ListType) -> dict[str, t.JitType]:
    return {"append": t.NONE, "extend": t.NONE, "insert": t.NONE, "remove": t.NONE, "clear": t.NONE,
            "reverse": t.NONE, "sort": t.NONE, "pop": kind.element, "index": t.INT, "count": t.INT, "copy": kind}


def _dict_methods(kind: t.DictType, arguments: Sequence[Any]) -> dict[str, t.JitType]:
    got = kind.value if len(arguments) > 1 and t.is_subtype(arguments[1].kind, kind.value) else t.optional(kind.value)
    return {"keys": t.ListType(kind.key), "values": t.ListType(kind.value),
            "items": t.ListType(t.TupleType([kind.key, kind.value])), "get": got, "pop": kind.value,
            "setdefault": kind.value, "update": t.NONE, "clear": t.NONE, "copy": kind,
            "popitem": t.TupleType([kind.key, kind.value])}


_STRING_METHODS: Final[dict[str, t.JitType]] = {
    **dict.fromkeys(["lower", "upper", "capitalize", "title", "strip", "lstrip", "rstrip", "replace", "format", "join",
                     "center", "ljust", "rjust", "zfill", "swapcase", "expandtabs"], t.STRING),
    **dict.fromkeys(["isupper", "islower", "isdigit", "isspace", "isalnum", "isalpha", "isdecimal", "isnumeric",
                     "istitle", "isidentifier", "isprintable", "startswith", "endswith"], t.BOOL),
    **dict.fromkeys(["find", "rfind", "index", "rindex", "count"], t.INT),
    "split": t.ListType(t.STRING), "rsplit": t.ListType(t.STRING), "splitlines": t.ListType(t.STRING),
    "partition": t.TupleType([t.STRING] * 3), "rpartition": t.TupleType([t.STRING] * 3),
}
_OTHER_METHODS: Final[dict[tuple[t.JitType, str], t.JitType]] = {
    (t.INT, "bit_length"): t.INT, (t.FLOAT, "is_integer"): t.BOOL, (t.COMPLEX, "conjugate"): t.COMPLEX,
    (t.GENERATOR, "manual_seed"): t.GENERATOR, (t.GENERATOR, "initial_seed"): t.INT, (t.GENERATOR, "seed"): t.INT,
}
#: Functions of ``math`` and their results.
MATH: Final[dict[str, t.JitType]] = {
    **dict.fromkeys(["sqrt", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
                     "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "erf", "erfc", "gamma",
                     "lgamma", "degrees", "radians", "fabs", "fmod", "copysign", "pow", "hypot", "fsum", "ldexp",
                     "remainder"], t.FLOAT),
    **dict.fromkeys(["floor", "ceil", "trunc", "gcd", "factorial", "lcm"], t.INT),
    **dict.fromkeys(["isnan", "isinf", "isfinite", "isclose"], t.BOOL),
    "frexp": t.TupleType([t.FLOAT, t.INT]), "modf": t.TupleType([t.FLOAT, t.FLOAT]),
}
