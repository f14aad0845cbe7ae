"""Texts that are generated from one operator record: its function, Python's operators and further names."""

from __future__ import annotations

import textwrap
from typing import Final

import operator_families  # noqa: F401  makes the records importable by themselves

from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_core.dispatch.schema import Parameter
from tensocket_operators.kinds.composite import Composite
from tensocket_operators.kinds.inplace import InPlaceOperator
from tensocket_operators.kinds.pointwise import Pointwise

#: By default of a keyword, the test of whether a call passes it.
_GIVEN: Final = {"None": "is not None", "1": "is not ONE"}
#: In-place operators of augmented assignments, with the middle of the Python method's name.
_AUGMENTED: Final = {
    "add_": "add",
    "sub_": "sub",
    "mul_": "mul",
    "div_": "truediv",
    "pow_": "pow",
    "floor_divide_": "floordiv",
    "remainder_": "mod",
    "bitwise_and_": "and",
    "bitwise_or_": "or",
    "bitwise_xor_": "xor",
    "bitwise_left_shift_": "lshift",
    "bitwise_right_shift_": "rshift",
}
#: Other operators that write their result to ``out=``.
_WITH_OUT: Final = frozenset({
    "addbmm", "addmm", "addmv", "addr", "alias_copy", "aminmax", "as_strided_copy", "baddbmm", "bmm", "bucketize",
    "cat", "chain_matmul", "cholesky", "cholesky_inverse", "cholesky_solve", "clamp", "column_stack", "complex",
    "conj_physical", "cross", "cummax", "cummin", "cumprod", "cumsum", "detach_copy", "diag", "diagonal_copy", "diff",
    "dot", "dstack", "expand_copy", "fft_fft", "fft_fft2", "fft_fftn", "fft_hfft", "fft_hfft2", "fft_hfftn", "fft_ifft",
    "fft_ifft2", "fft_ifftn", "fft_ihfft", "fft_ihfft2", "fft_ihfftn", "fft_irfft", "fft_irfft2", "fft_irfftn",
    "fft_rfft", "fft_rfft2", "fft_rfftn", "fill", "float_power", "frexp", "gather", "geqrf", "hash_tensor",
    "heaviside", "histc", "histogram", "hstack", "index_add", "index_copy", "index_reduce", "index_select",
    "inner", "inverse", "isin", "kron", "kthvalue", "ldexp", "log_softmax", "logcumsumexp", "logsumexp", "lu",
    "lu_solve", "lu_unpack", "masked_select", "matmul", "max", "median", "min", "mm", "mode", "msort", "mv",
    "mvlgamma", "nan_to_num", "nanmean", "nanmedian", "nanquantile", "narrow_copy", "nonzero", "nonzero_static",
    "norm", "normalize", "orgqr", "ormqr", "outer", "permute_copy", "polar", "polygamma", "qr", "quantile",
    "renorm", "scatter", "scatter_add", "scatter_reduce", "searchsorted", "select_copy", "slice_copy",
    "softshrink",
    "slice_scatter", "slogdet", "softmax", "sort", "special_zeta", "squeeze_copy", "stack", "std", "svd", "t_copy",
    "take", "take_along_dim", "tensordot", "topk", "transpose_copy", "triangular_solve", "tril", "triu", "unfold_copy",
    "unsqueeze_copy", "var", "vdot", "view_as_complex_copy", "view_as_real_copy", "view_copy", "vstack", "where",
})
#: Operators of linear algebra without ``out=``; all others have it.
_WITHOUT_OUT: Final = frozenset({"linalg_diagonal", "linalg_vander"})
#: Operators whose ``out`` must have the result's dtype; others convert to any dtype of its category.
_EXACT_OUT: Final = frozenset({
    "addbmm", "addmm", "addmv", "alias_copy", "amax", "amin", "aminmax", "argmax", "argmin", "as_strided_copy",
    "baddbmm", "bitwise_not", "bmm", "bucketize", "ceil", "complex", "conj_physical", "cross", "cummax", "cummin",
    "diag", "diagonal_copy", "diff", "dot", "expand_copy", "floor", "frac", "frexp", "gather", "gelu",
    "hardshrink", "heaviside", "histc", "histogram", "index_add", "index_copy", "index_reduce", "index_select",
    "inner", "isin", "isneginf", "isposinf", "kthvalue", "lerp", "linalg_cholesky", "linalg_cholesky_ex",
    "linalg_cross", "linalg_det", "linalg_eigh", "linalg_eigvalsh", "linalg_inv", "linalg_inv_ex",
    "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve", "linalg_lu", "linalg_lu_factor",
    "linalg_lu_factor_ex", "linalg_lu_solve", "linalg_matrix_norm", "linalg_matrix_power", "linalg_multi_dot",
    "linalg_norm", "linalg_qr", "linalg_slogdet", "linalg_solve", "linalg_solve_ex", "linalg_solve_triangular",
    "linalg_svd", "linalg_svdvals", "linalg_vecdot", "linalg_vector_norm", "log_softmax", "logcumsumexp",
    "logsigmoid", "lu_solve", "lu_unpack", "masked_select", "matmul", "median", "mm", "mode", "msort", "mv",
    "nan_to_num", "nanmedian", "nanquantile", "narrow_copy", "neg", "nonzero", "norm", "ormqr", "permute_copy",
    "polar", "qr", "quantile", "renorm", "round", "scatter", "scatter_add", "scatter_reduce", "searchsorted", "sgn",
    "sign", "signbit", "slogdet", "softmax", "softplus", "sort", "squeeze_copy", "svd", "t_copy", "take",
    "take_along_dim", "tensordot", "topk", "transpose_copy", "triangular_solve", "tril", "triu", "trunc", "unfold_copy",
    "unsqueeze_copy", "vdot", "view_copy", "where",
})
#: Operators whose ``out`` must hold bools or uint8, for any operands.
_TRUTH_OUT: Final = frozenset({"all", "any"})
#: Operators that are elementwise functions if they get a second tensor.
_PAIRS: Final = frozenset({"max", "min"})
#: Operators whose ``out`` must not share memory with the operands.
_APART: Final = frozenset({
    "aminmax", "cat", "cross", "diff", "gather", "index_select", "kthvalue", "linalg_cross", "linalg_lu_solve",
    "masked_select", "max", "min", "mode", "stack", "take", "take_along_dim", "topk",
})
#: Operators that compute in the dtype of ``out`` unless the call passes another one.
_DTYPE_OF_OUT: Final = frozenset({"cumprod", "cumsum", "prod", "sum"})
#: In-place operators that programs also call as functions; ``relu_(x)`` is ``x.relu_()``.
INPLACE_FUNCTIONS: Final = frozenset({
    "deg2rad_", "rad2deg_", "frac_", "gcd_", "lcm_", "ldexp_", "logit_", "nan_to_num_", "sinc_", "xlogy_", "erfc_",
    "i0_",
    "abs_", "acos_", "acosh_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "clamp_", "clamp_max_", "clamp_min_",
    "conj_physical_", "cos_", "cosh_", "erf_", "exp2_", "exp_", "expm1_", "fill_", "floor_", "index_put_", "log10_",
    "log1p_", "log2_", "log_", "neg_", "reciprocal_", "relu_", "round_", "rsqrt_", "sigmoid_", "sin_", "sinh_",
    "sqrt_", "square_", "tan_", "tanh_", "trunc_", "zero_"
})
#: The annotations of the schema's types.
_ANNOTATIONS: Final = {
    "Tensor": "Any",
    "Operand": "Any",
    "Tensor[]": "Any",
    "Scalar": "float",
    "int": "int",
    "int[]": "Any",
    "bool": "bool",
    "float": "float",
    "str": "str",
    "dtype": "Any",
    "device": "Any",
    "any": "Any",
}


#: NumPy's names of parameters, which functions also accept.
_NUMPY = {"dim": "axis", "keepdim": "keepdims"}

#: Statements for calls with a number between the tensors, PyTorch's form before it had keywords.
_OLD_FORMS = {"add": "alpha, other = other, last", "sub": "alpha, other = other, last",
              "addcmul": "value, tensor1, tensor2 = tensor1, tensor2, last",
              "addcdiv": "value, tensor1, tensor2 = tensor1, tensor2, last"}
#: Operators whose old form has one or two factors between the tensors: up to five positional arguments.
_SCALED_FORMS = ("addbmm", "addmm", "addmv", "addr", "baddbmm")


def other_form(operator: Operator) -> tuple[list[str], list[str]]:
    """Return parameters and statements for calls with numbers between the tensors or several dimensions without a
    tuple; both empty for most operators.
    """
    name = operator.name.removesuffix("_")
    if name in _SCALED_FORMS:
        tensors = ", ".join(operator.schema.names[:3])
        return ["fourth: Any = None", "fifth: Any = None"], [
            "if fourth is not None:",
            f"    beta, alpha, {tensors} = scaled_form({operator.name!r}, ({tensors}, fourth, fifth))"]
    if name == "squeeze":
        return ["*dims: Any"], ["if dims:", "    dim = dim, *dims"]
    if name in _OLD_FORMS:
        return ["last: Any = None"], ["if last is not None:", f"    warn_old_form({operator.name!r})",
                                      f"    {_OLD_FORMS[name]}"]
    return [], []


def _annotation(parameter: Parameter) -> str:
    kind = _ANNOTATIONS[parameter.type.removesuffix("...")]
    return f"{kind} | None" if parameter.optional and kind != "Any" else kind


def _signature(operator: Operator) -> str:
    """Return the parameters in Python's form."""
    parts: list[str] = []
    last = other_form(operator)[0]
    for position, parameter in enumerate(operator.schema.parameters):
        if parameter.type == "int...":  # variadic values may also be passed as one sequence by name
            parts += [f"*{parameter.name}_: int", f"{parameter.name}: Any = None"]
            continue
        if parameter.name == operator.variadic:
            parts.append(f"*{parameter.name}: Any")
            continue
        before = operator.schema.parameters[position - 1]
        if parameter.keyword_only and not before.keyword_only and before.name != operator.variadic:
            parts += [*last, "*"]
        default = "" if parameter.default is None else f" = {parameter.default}"
        if _can_be_left_out(operator, position):
            parts.append(f"{parameter.name}: Any = MISSING")
            continue
        parts.append(f"{parameter.name}: {_annotation(parameter)}{default}")
    extra = keywords(operator)
    if extra or has_out(operator):
        parts += [] if any(part.startswith("*") for part in parts) else last
        parts += [] if any(part.startswith("*") for part in parts) else ["*"]
        parts += [f"{name}: Any = {default}" for name, (default, _) in extra.items()]
    if has_out(operator):
        parts.append("out: Any = None")
    return ", ".join(parts)


def keywords(operator: Operator) -> dict[str, tuple[str, str]]:
    """Return keywords that the function handles before dispatch, with their defaults and statements.

    They are the record's own keywords, and NumPy's names of dimensions.
    """
    given = dict(getattr(operator, "keywords", {}))
    for position, parameter in enumerate(operator.schema.parameters):
        numpy = _NUMPY.get(parameter.name, "")
        if not numpy or numpy in operator.schema.names or numpy in given or parameter.type == "int...":
            continue
        if parameter.default is not None or _can_be_left_out(operator, position):
            given[numpy] = ("None", f"{parameter.name} = {numpy}")
    if operator.name in _PAIRS:
        given["other"] = ("None", "dim = other")
    return given


def _can_be_left_out(operator: Operator, position: int) -> bool:
    """Whether a parameter without a default can get one, for calls by NumPy's name: no such parameter follows it."""
    here, *after = operator.schema.parameters[position:]
    required = here.name in _NUMPY and here.default is None and not operator.variadic
    return required and all(parameter.default is not None or parameter.keyword_only for parameter in after)


def has_out(operator: Operator) -> bool:
    """Whether a record's function takes ``out``."""
    return operator.function and (operator.kind in ("pointwise", "reduction") or operator.name in _WITH_OUT or (
        operator.public_namespace == "linalg" and operator.name not in _WITHOUT_OUT))


def _key_lines(operator: Operator, *, python_operator: str = "") -> list[str]:
    """Return statements that compute ``key``, in the function or in the Python operator ``python_operator``."""
    names = [p.name for p in operator.schema.parameters if p.is_tensor]
    kinds = [p.type for p in operator.schema.parameters if p.is_tensor]
    foreign = (
        "return NotImplemented"
        if python_operator
        else f"key = foreign_key(_{_label(operator)}, ({', '.join(operator.schema.names)},))"
    )
    if not kinds and operator.variadic:
        return [f"key = collected_key({operator.variadic})"]
    if not kinds:
        return ["key = 0"]
    if kinds == ["Tensor"]:
        return ["try:", f"    key = {names[0]}._key", "except AttributeError:", f"    {foreign}"]
    if kinds == ["Tensor", "Tensor"] and python_operator:
        left, right = names
        return ["try:", f"    key = {left}._key | {right}._key", "except AttributeError:",
                f"    return defer_to_other(_{_label(operator)}, {right}, ({left}, {right}))"]
    if kinds == ["Tensor", "Operand"]:
        left, right = names
        label = _label(operator)
        foreign = f"return retry_operator({python_operator}, _{label}, {left}, {right}, ({left}, {right}))" if (
            python_operator) else f"return retry_function(_{label}, {function_name(operator)}, {left}, {right})"
        return [
            f"kind = type({right})",
            "try:",
            "    if kind in SCALAR:",
            f"        key = {left}._key | SCALAR[kind]",
            "    else:",
            f"        key = {left}._key | {right}._key",
            "except AttributeError:",
            f"    {foreign}",
        ]
    return _mixed_key_lines(operator)


def _mixed_key_lines(operator: Operator) -> list[str]:
    """Return such statements for lists, numbers and optional tensors; ``key_of`` raises the error for other types."""
    key = _key_name(operator)
    slow = f"{key} = key_of(_{_label(operator)}, ({', '.join(operator.schema.names)},))"
    terms = []
    for position, p in enumerate(operator.schema.parameters):
        if p.type == "Tensor[]":
            if p is not operator.schema.parameters[0]:
                return [slow]
        elif p.type == "Operand":
            kinds = "OPTIONAL" if p.optional else "SCALAR" if position else "SCALAR_LEFT"
            terms.append(f"({kinds}[type({p.name})] if type({p.name}) in {kinds} else {p.name}._key)")
        elif p.type == "Tensor":
            terms.append(f"(0 if {p.name} is None else {p.name}._key)" if p.optional else f"{p.name}._key")
    first = operator.schema.parameters[0]
    if first.type != "Tensor[]":
        return ["try:", f"    {key} = {' | '.join(terms)}", "except AttributeError:", f"    {slow}"]
    name = first.name
    lines = [
        "try:",
        f"    if len({name}) == 2:",
        f"        key {'|=' if terms else '='} {name}[0]._key | {name}[1]._key",
        "    else:",
        f"        for item in {name}:",
        "            key |= item._key",
        "except AttributeError:",
        f"    {slow}",
    ]
    if name != operator.variadic:  # variadic arguments are a tuple
        lines = [f"if type({name}) is list or type({name}) is tuple:", *(f"    {line}" for line in lines),
                 "else:", f"    {slow}"]
    return [f"key = {' | '.join(terms) or 0}", *lines]


def _key_name(operator: Operator) -> str:
    """Return the variable name of the key in a function: attention has an argument ``key``."""
    return "dispatch_key" if "key" in operator.schema.names else "key"


def _label(operator: Operator) -> str:
    """Return the record's name in the generated module: a composite may share its name with an operator."""
    return operator.name if operator.name in OPERATORS and not isinstance(operator, Composite) else f"c_{operator.name}"


def _given(operator: Operator, arguments: list[str]) -> str:
    """Return the arguments as the closure takes them: composites have real keyword-only and variadic parameters."""
    if not isinstance(operator, Composite):
        return ", ".join(arguments)
    parameters = operator.schema.parameters
    return ", ".join(f"*{a}" if a == operator.variadic else f"{a}={a}" if p.keyword_only else a
                     for a, p in zip(arguments, parameters, strict=True))


def _call_lines(operator: Operator, arguments: list[str]) -> list[str]:
    packed = f"({', '.join(arguments)},)" if len(arguments) == 1 else f"({', '.join(arguments)})"
    label, key = _label(operator), _key_name(operator)
    return [
        "if ACTIVE:",
        f"    return run_with_modes(_{label}, {key}, {packed})",
        "try:",
        f"    run = _{label}_table[{key}]",
        "except KeyError:",
        f"    run = _{label}.resolve({key})",
        f"return run({_given(operator, arguments)})",
    ]


def function_name(operator: Operator) -> str:
    """Return the name of a record's function.

    One that is only a method must not hide a built-in in its module; one that is only Python's operator has its name.
    """
    if operator.function:
        return operator.name
    return f"method_{operator.name}" if operator.method or not operator.dunder else operator.dunder[0]


def _function(operator: Operator) -> str:
    """Return the public function, which is also the method."""
    lines = [f"{p.name} = {p.name}_ if {p.name} is None else ({p.name},)"
             for p in operator.schema.parameters if p.type == "int..."]
    lines += [*other_form(operator)[1], *_keyword_lines(operator), *_out_lines(operator), *_key_lines(operator),
              *_call_lines(operator, list(operator.schema.names))]
    body = textwrap.indent("\n".join(lines), "    ")
    return f"@public(_{_label(operator)})\ndef {function_name(operator)}({_signature(operator)}) -> Any:\n{body}\n"


def _keyword_lines(operator: Operator) -> list[str]:
    """Return statements that handle the keywords outside of the schema."""
    lines = []
    for name, (default, statement) in keywords(operator).items():
        test = f"{name} {_GIVEN.get(default, f'!= {default}')}"
        parameter = statement.partition(" ")[0]
        position = operator.schema.names.index(parameter) if parameter in operator.schema.names else -1
        if position >= 0 and _can_be_left_out(operator, position):
            test, statement = f"{parameter} is MISSING", f"{parameter} = settled({operator.name!r}, {name})"
        if statement.startswith("return ") and has_out(operator):
            made = statement.removeprefix("return ")
            beside = f", beside={_operands(operator)}" if isinstance(operator, Pointwise) else ""
            written = f"write_out({operator.name!r}, out, made{beside})"
            statement = f"made = {made}\n    return made if out is None else {written}"
        lines += [f"if {test}:", *_override_lines(operator, name), f"    {statement}"]
    return lines


def _out_lines(operator: Operator) -> list[str]:
    """Return statements of a call with ``out``."""
    if not has_out(operator):
        return []
    given = ", ".join(f"{p.name}={p.name}" if p.keyword_only else p.name for p in operator.schema.parameters)
    if operator.name in _DTYPE_OF_OUT:
        given = given.replace("dtype=dtype", 'dtype=getattr(out, "dtype", None) if dtype is None else dtype')
    rules = _out_rules(operator)
    if operator.name in _APART:
        operands = _operands(operator)
        # With two tensors it is the elementwise function, whose result may overwrite an operand.
        rules += f", apart={operands}" + (' if not hasattr(dim, "_key") else ()' if operator.name in _PAIRS else "")
    elif isinstance(operator, Pointwise) or operator.name in ("conj_physical", "where"):
        rules += f", beside={_operands(operator)}"
    direct = isinstance(operator, Pointwise) and operator.count <= 2 and not operator.extras
    return ["if out is not None:", *_override_lines(operator, "out"),
            *([f"    if written(_{_label(operator)}, out, {given}):", "        return out"] if direct else []),
            f"    return write_out({operator.name!r}, out, {_itself(operator)}({given}){rules})"]


def _out_rules(operator: Operator) -> str:
    """Return the arguments by which ``write_out`` checks more than the category of ``out``."""
    if operator.name in _TRUTH_OUT:
        return ", truth=True"
    if operator.name in _EXACT_OUT:
        return ", exact=True"
    if operator.name in _PAIRS:  # with two tensors it is the elementwise function
        return ', exact=dim is not None and not hasattr(dim, "_key")'
    return ", exact=dtype is not None" if "dtype" in operator.schema.names else ""


def _operands(operator: Operator) -> str:
    """Return a tuple of all arguments that may be tensors."""
    given = [f"*{p.name}" if p.type.endswith("[]") else p.name for p in operator.schema.parameters if p.is_tensor]
    return f"({', '.join(given)},)"


def _itself(operator: Operator) -> str:
    """Return an expression for the function inside of its own body, where a parameter may have its name."""
    return f"_{_label(operator)}" if operator.name in operator.schema.names else operator.name


def _override_lines(operator: Operator, keyword: str) -> list[str]:
    """Return statements that pass a call with a keyword outside of the schema to an override of functions."""
    parameters = operator.schema.parameters
    values = ", ".join([*(p.name for p in parameters if p.is_tensor), *(["out"] if keyword == "out" else [])])
    extra = [*keywords(operator), *(["out"] if has_out(operator) else [])]
    call = ", ".join([*operator.schema.names, *(f"{name}={name}" for name in extra[extra.index(keyword):])])
    return [f"    if overridden({values}):", f"        return call_overrides(_{_label(operator)}, {call})"]


def _left_to_python(call: list[str]) -> list[str]:
    """Return statements of a call that returns NotImplemented if all overrides do."""
    return ["try:", *(f"    {line}" for line in call), "except ArgumentTypeError as error:",
            "    return not_implemented_or_raise(error)"]


def _dunder(operator: Operator, name: str) -> str:
    """Return a Python operator method; it returns NotImplemented for foreign operands."""
    tensors = [p.name for p in operator.schema.parameters]
    if len(operator.schema.tensors) == 1:
        body = "\n".join(["key = input._key", *_call_lines(operator, tensors)])
        given = ", ".join(f"{name}: Any" for name in tensors)
        return f"def {name}({given}) -> Any:\n{textwrap.indent(body, '    ')}\n"
    left, right = tensors
    reflected = name.startswith("__r") and name != "__rshift__"
    if reflected and operator.schema.parameters[1].type == "Tensor":
        lines = ["try:", f"    key = {left}._key | {right}._key", "except AttributeError:",
                 f"    return defer_to_other(_{_label(operator)}, {right}, ({right}, {left}))"]
        call = _call_lines(operator, [right, left])
    elif reflected:
        lines = ["try:", f"    key = {left}._key | SCALAR_LEFT[type({right})]", "except KeyError:",
                 f"    return retry_operator({name}, _{_label(operator)}, {left}, {right}, ({right}, {left}))"]
        call = _call_lines(operator, [right, left])
    else:
        lines, call = _key_lines(operator, python_operator=name), _call_lines(operator, [left, right])
    body = "\n".join([*lines, *_left_to_python(call)])
    return f"def {name}({left}: Any, {right}: Any) -> Any:\n{textwrap.indent(body, '    ')}\n"


def python_operators(record: Operator) -> list[str]:
    """Return the names of Python's operator methods that a record implements, such as ``__add__`` or ``__iadd__``."""
    augmented = _AUGMENTED.get(record.name) if isinstance(record, InPlaceOperator) else None
    return [*record.dunder, *([] if augmented is None else [f"__i{augmented}__"])]


def other_names(record: Operator) -> list[str]:
    """Return the further names of a record's function."""
    if record.function:
        return list(record.aliases)
    return [record.name, *record.aliases] if record.name in INPLACE_FUNCTIONS else []


def bound_names(record: Operator) -> list[str]:
    """Return all names that ``definitions`` binds for other modules."""
    return list(dict.fromkeys([function_name(record), *python_operators(record), *other_names(record)]))


def definitions(record: Operator) -> str:
    """Return the text of a record with its table, its function, Python's operators and further names."""
    label, name = _label(record), function_name(record)
    source = "COMPOSITES" if isinstance(record, Composite) else "OPERATORS"
    found = f"_{label} = {source}[{record.name!r}]\n_{label}_table = _{label}.table\n"
    others = "".join(f"{other} = {name}\n" for other in other_names(record))
    operators = [_dunder(record, operator) for operator in python_operators(record) if operator != name]
    parts = [found, _function(record), *operators, others]
    return "\n\n".join(part for part in parts if part)
