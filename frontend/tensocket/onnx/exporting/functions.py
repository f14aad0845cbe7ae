"""Our functions for operators that onnxscript's torch_lib lacks, or that have other arguments here; in opset 18."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import onnx_ir as ir

from tensocket.fx.node import Node

from ..operators.values import NUMBERS
from .matching import NoMatch


class Call(NamedTuple):
    """A call to translate.

    Attributes:
        op: The operators of ONNX.
        recorder: Makes constants.
        node: The node.
        values: The arguments by name, with values of the model in place of nodes.
        given: The same, with nodes.
    """

    op: Any
    recorder: Any
    node: Node
    values: dict[str, Any]
    given: dict[str, Any]

    @property
    def input(self) -> Any:
        """The first argument."""
        return next(iter(self.values.values()))

    @property
    def form(self) -> Any:
        """Form of the result."""
        return self.node.meta["val"]

    @property
    def source(self) -> Any:
        """Form of the first argument."""
        return next(iter(self.given.values())).meta["val"]

    def tensor(self, value: Any, like: Any) -> Any:
        """Return an argument as a value; numbers get the data type of another value."""
        return value if isinstance(value, ir.Value) else self.recorder.constant(value, like.dtype)

    def sizes(self, items: Any) -> Any:
        """Return sizes as a vector."""
        if any(isinstance(x, ir.Value) for x in items):
            return self.recorder.joined(list(items))
        return self.recorder.constant([int(x) for x in items], ir.DataType.INT64)

    def cast(self, value: Any, dtype: Any) -> Any:
        """Return a value in a dtype of tensors."""
        return self.op.Cast(value, to=NUMBERS[dtype])


Function = Callable[[Call], Any]
#: Functions by the operator's name.
OWN: Final[dict[str, Function]] = {}


def own(*names: str) -> Callable[[Function], Function]:
    """Return a decorator that adds a function for operators."""

    def decorate(function: Function) -> Function:
        OWN.update(dict.fromkeys(names, function))
        return function

    return decorate


def pair(value: Any, count: int) -> list[int]:
    """Return a number for each dimension."""
    return [int(x) for x in (value if isinstance(value, (list, tuple)) else [value] * count)]


def fixed(size: Any) -> int:
    """Return a size that a translation needs as a number.

    Raises:
        NoMatch: It changes from call to call.
    """
    if hasattr(size, "name"):
        raise NoMatch(f"the size {size}, which changes from call to call")
    return int(size)


# ---- sizes


def _size_of(op: Any, value: Any, dim: int) -> Any:
    rank = len(value.shape)
    return op.Squeeze(op.Shape(value, start=dim % rank, end=dim % rank + 1))


#: Functions of sizes, which are values of int64 without dimensions, by name.
SIZES: Final[dict[str, Callable[..., Any]]] = {
    "sym_size": _size_of, "sym_size.int": _size_of, "add": lambda op, a, b: op.Add(a, b),
    "sub": lambda op, a, b: op.Sub(a, b), "mul": lambda op, a, b: op.Mul(a, b),
    "floordiv": lambda op, a, b: op.Div(a, b), "mod": lambda op, a, b: op.Mod(a, b),
    "neg": lambda op, a: op.Neg(a), "pow": lambda op, a, b: op.Pow(a, b),
    "truediv": lambda op, a, b: op.Div(op.Cast(a, to=1), op.Cast(b, to=1)),
    "sym_float": lambda op, a: op.Cast(a, to=1), "float": lambda op, a: op.Cast(a, to=1),
    "int": lambda op, a: op.Cast(a, to=7), "sym_int": lambda op, a: op.Cast(a, to=7),
    "floor": lambda op, a: op.Cast(op.Floor(a), to=7), "ceil": lambda op, a: op.Cast(op.Ceil(a), to=7),
    "round": lambda op, a: op.Cast(op.Round(a), to=7), "abs": lambda op, a: op.Abs(a),
    "sym_max": lambda op, a, b: op.Max(a, b), "sym_min": lambda op, a, b: op.Min(a, b),
    "eq": lambda op, a, b: op.Equal(a, b), "lt": lambda op, a, b: op.Less(a, b),
    "le": lambda op, a, b: op.LessOrEqual(a, b), "gt": lambda op, a, b: op.Greater(a, b),
    "ge": lambda op, a, b: op.GreaterOrEqual(a, b), "ne": lambda op, a, b: op.Not(op.Equal(a, b)),
}


# ---- conversions, copies


@own("to", "convert", "type_as", "float", "double", "half", "bfloat16", "int", "long", "short", "bool", "char", "byte",
     "cpu", "cuda")
def convert(c: Call) -> Any:
    """Translate conversions: the result's dtype says to what. Complex numbers are pairs along a last dimension."""
    before, after = c.source.dtype, c.form.dtype
    if before.is_complex and not after.is_complex:
        return c.cast(c.op.Gather(c.input, c.recorder.constant(0, ir.DataType.INT64), axis=len(c.source.shape)), after)
    value = c.cast(c.input, after.to_real())
    if before.is_complex or not after.is_complex:
        return value
    pair = c.op.Unsqueeze(value, c.sizes([-1]))
    return c.op.Pad(pair, c.sizes([0] * (2 * len(c.source.shape) + 1) + [1]))


@own("clone", "contiguous", "detach", "alias", "lift_fresh_copy", "positive", "resolve_conj", "resolve_neg")
def copy(c: Call) -> Any:
    """Translate operators whose result has the elements of the input."""
    return c.op.Identity(c.input)


@own("copy_")
def overwrite(c: Call) -> Any:
    """Translate a copy into a tensor."""
    source = c.tensor(c.values["src"], c.input)
    return c.op.Expand(c.cast(source, c.source.dtype), c.op.Shape(c.input))


@own("fill_", "fill")
def fill(c: Call) -> Any:
    """Translate a tensor that becomes one value."""
    return c.op.Expand(c.op.CastLike(c.tensor(c.values["value"], c.input), c.input), c.op.Shape(c.input))


@own("zero_", "zeros_like")
def zeros_like(c: Call) -> Any:
    """Translate zeros in the shape of a tensor."""
    return c.cast(c.op.Expand(c.recorder.constant(0.0, ir.DataType.FLOAT), c.op.Shape(c.input)), c.form.dtype)


@own("ones_like")
def ones_like(c: Call) -> Any:
    """Translate ones in the shape of a tensor."""
    return c.cast(c.op.Expand(c.recorder.constant(1.0, ir.DataType.FLOAT), c.op.Shape(c.input)), c.form.dtype)


@own("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(c: Call) -> Any:
    """Translate dropout: nothing at inference."""
    if not c.values.get("train") or not c.values.get("p"):
        return c.op.Identity(c.input)
    if str(c.node.target.name).removesuffix("_") != "dropout":
        raise NoMatch("only plain dropout has an operator in training")
    return c.op.Dropout(c.input, c.recorder.constant(float(c.values["p"]), ir.DataType.FLOAT),
                        c.recorder.constant(True, ir.DataType.BOOL))[0]


# ---- factories


def _filled(c: Call, value: Any, sizes: Any) -> Any:
    form = c.form
    number = c.cast(value, form.dtype) if isinstance(value, ir.Value) else (
        c.recorder.constant(value, ir.DataType(NUMBERS[form.dtype])))
    return c.op.Expand(number, c.sizes(sizes)) if sizes else number


def _listed(c: Call, name: str) -> list[Any]:
    value = c.values.get(name, [])
    return list(value) if isinstance(value, (list, tuple)) else [value]


@own("zeros", "new_zeros", "empty", "new_empty")
def zeros(c: Call) -> Any:
    """Translate zeros; elements of empty tensors are not defined, and zeros too."""
    return _filled(c, 0, _listed(c, "size"))


@own("ones", "new_ones")
def ones(c: Call) -> Any:
    """Translate ones."""
    return _filled(c, 1, _listed(c, "size"))


@own("full", "new_full")
def full(c: Call) -> Any:
    """Translate a tensor of one value."""
    return _filled(c, c.values["fill_value"], _listed(c, "size"))


@own("full_like")
def full_like(c: Call) -> Any:
    """Translate one value in the shape of a tensor."""
    number = c.recorder.constant(c.values["fill_value"], ir.DataType(NUMBERS[c.form.dtype]))
    return c.op.Expand(number, c.op.Shape(c.input))


@own("arange")
def arange(c: Call) -> Any:
    """Translate a range of numbers."""
    start, end, step = c.values.get("start", 0), c.values.get("end"), c.values.get("step", 1)
    if end is None:
        start, end = 0, start
    parts = [c.op.Cast(x, to=NUMBERS[c.form.dtype]) if isinstance(x, ir.Value) else c.recorder.constant(
        x, ir.DataType(NUMBERS[c.form.dtype])) for x in (start, end, 1 if step is None else step)]
    return c.op.Range(*parts)


# ---- arithmetic


def _binary(name: str) -> Function:
    def translate(c: Call) -> Any:
        values = list(c.values.values())
        dtype = c.form.dtype
        left, right = (x if isinstance(x, ir.Value) and x.dtype == ir.DataType(NUMBERS[dtype]) else
                       c.op.Cast(x, to=NUMBERS[dtype]) if isinstance(x, ir.Value) else
                       c.recorder.constant(x, ir.DataType(NUMBERS[dtype])) for x in values[:2])
        alpha = c.values.get("alpha", 1)
        if alpha != 1:
            right = c.op.Mul(right, c.recorder.constant(alpha, ir.DataType(NUMBERS[dtype])))
        return getattr(c.op, name)(left, right)

    return translate


for _name, _operator in {"add": "Add", "sub": "Sub", "mul": "Mul", "maximum": "Max", "minimum": "Min"}.items():
    OWN[_name] = _binary(_operator)


@own("rsub")
def rsub(c: Call) -> Any:
    """Translate other - input."""
    values = list(c.values.values())
    first = c.op.Mul(c.input, c.tensor(values[2], c.input)) if values[2:] and values[2] != 1 else c.input
    return c.op.Sub(c.tensor(values[1], c.input), first)


@own("div", "true_divide", "floored_divide", "truncated_divide", "floor_divide")
def divide(c: Call) -> Any:
    """Translate quotients, rounded or not."""
    name = str(c.node.target.name)
    mode = "floor" if name.startswith("floor") else "trunc" if name.startswith("trunc") else c.values.get(
        "rounding_mode")
    quotient = _binary("Div")(c)
    if mode is None:
        return quotient
    if not c.form.dtype.is_floating_point:
        if mode == "trunc":
            return quotient
        values = list(c.values.values())
        left, right = c.input, c.tensor(values[1], c.input)
        rest = c.op.Sub(left, c.op.Mul(quotient, right))
        zero = c.recorder.constant(0, left.dtype)
        other = c.op.And(c.op.Not(c.op.Equal(rest, zero)), c.op.Xor(c.op.Less(rest, zero), c.op.Less(right, zero)))
        return c.op.Sub(quotient, c.cast(other, c.form.dtype))
    if mode == "floor":
        return c.op.Floor(quotient)
    return c.op.Mul(c.op.Sign(quotient), c.op.Floor(c.op.Abs(quotient)))


@own("pow")
def power(c: Call) -> Any:
    """Translate powers."""
    to = ir.DataType(NUMBERS[c.form.dtype])
    base, exponent = (c.op.Cast(x, to=to) if isinstance(x, ir.Value) and x.dtype != to else x if isinstance(
        x, ir.Value) else c.recorder.constant(x, to) for x in list(c.values.values())[:2])
    return c.op.Pow(base, exponent)


@own("einsum")
def einsum(c: Call) -> Any:
    """Translate a sum of products by Einstein's convention."""
    equation, *operands = c.values["args"]
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], list) else operands
    if not isinstance(equation, str):
        raise NoMatch("einsum without an equation")
    return c.op.Einsum(*operands, equation=equation.replace(" ", ""))


@own("square")
def square(c: Call) -> Any:
    """Translate x * x."""
    return c.op.Mul(c.input, c.input)


@own("clamp", "clip")
def clamp(c: Call) -> Any:
    """Translate limits; a limit of another dtype is converted."""
    value = c.cast(c.input, c.form.dtype)
    for name, limit in (("Max", c.values.get("min")), ("Min", c.values.get("max"))):
        if limit is not None:
            value = getattr(c.op, name)(value, c.cast(limit, c.form.dtype) if isinstance(limit, ir.Value) else (
                c.recorder.constant(limit, ir.DataType(NUMBERS[c.form.dtype]))))
    return value


@own("softsign")
def softsign(c: Call) -> Any:
    """Translate softsign."""
    return c.op.Softsign(c.input)


@own("logsigmoid")
def logsigmoid(c: Call) -> Any:
    """Translate the logarithm of the sigmoid."""
    return c.op.Neg(c.op.Softplus(c.op.Neg(c.input)))


@own("softmin")
def softmin(c: Call) -> Any:
    """Translate softmax of -x."""
    return c.op.Softmax(c.op.Neg(c.input), axis=c.values["dim"])


@own("tanhshrink")
def tanhshrink(c: Call) -> Any:
    """Translate x - tanh(x)."""
    return c.op.Sub(c.input, c.op.Tanh(c.input))


@own("softshrink", "hardshrink")
def shrink(c: Call) -> Any:
    """Translate shrinkage."""
    lambd = float(c.values["lambd"])
    return c.op.Shrink(c.input, bias=lambd if "soft" in str(c.node.target.name) else 0.0, lambd=lambd)


@own("threshold")
def threshold(c: Call) -> Any:
    """Translate x where it is above a threshold, and a value elsewhere."""
    limit, value = (c.recorder.constant(c.values[name], c.input.dtype) for name in ("threshold", "value"))
    return c.op.Where(c.op.Greater(c.input, limit), c.input, value)
