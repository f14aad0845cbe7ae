"""Random calls of every public operator: samples of the conformance suite, and arguments made up from schemas."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

import tensocket as torch
from fuzz.values import CONTENTS, DTYPES, FLOATS, HOST, INTEGERS, LAYOUTS, WEIGHTS, Operand, contents
from tensocket_conformance.numerics import BY_NAME, FORMATS
from tensocket_conformance.ops import operators as conformance_operators
from tensocket_conformance.record import Draw, Given
from tensocket_conformance.record import Operator as Sampled
from tensocket_core.dispatch.catalogue import names_of_functions
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS

#: Operators that are not asked: they answer about memory or the process, or wait, or need other objects.
_EXCLUDED = """
    data_ptr pin_memory is_pinned share_memory_ record_stream set_ from_file storage_offset _rebuild backward
    register_hook retain_grad __reduce_ex__ empty_like new_empty empty_strided empty is_set_to resize_ resize_as_
    resize_as_sparse_ as_strided as_strided_ as_strided_copy as_strided_scatter _is_view requires_grad_ data
    cuda xpu cpu to_mkldnn resize _to_cpu numpy tolist item __dlpack__ apply_ map_ map2_
"""
EXCLUDED = frozenset(_EXCLUDED.split())
#: Numbers among the arguments; the same value comes as int, float and bool.
NUMBERS: tuple[Any, ...] = (0, 1, 2, -1, 3, 0.0, -0.0, 1.0, 2.0, 0.5, -1.5, 1e-3, True, False, 7.25, 100)
#: Operators whose results have the product of their operands' numbers of elements, or its square; these are few then.
GROWING = frozenset({"diagflat", "diag_embed", "kron", "outer", "cartesian_prod", "combinations"})
_FEW = 400
ODD: tuple[Any, ...] = (float("inf"), float("nan"), -float("inf"), 1e40, -(1 << 40), 300, 1 + 0j, complex(0, -0.0),
                        1e-320)


@dataclass(frozen=True)
class Call:
    """A call of an operator.

    Attributes:
        name: The operator's name.
        function: What is called.
        args: Positional arguments; tensors are ``Operand``, also in lists and tuples.
        kwargs: Named arguments.
        pointwise: Whether each element of the result depends on one element of each operand.
        sampled: The conformance record that it is a sample of, with its dtype.
        mutates: Whether it writes to an argument.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    pointwise: bool = False
    sampled: tuple[Sampled, str] | None = None
    mutates: bool = False

    def operands(self) -> list[Operand]:
        """All tensors among the arguments."""
        found: list[Operand] = []
        self.mapped(lambda x: found.append(x) or x)
        return found

    def mapped(self, change: Callable[[Operand], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with something else in the place of each tensor."""
        def visit(value: Any) -> Any:
            if isinstance(value, Operand):
                return change(value)
            if type(value) in (list, tuple):
                return type(value)([visit(item) for item in value])
            return value

        return tuple([visit(x) for x in self.args]), {name: visit(x) for name, x in self.kwargs.items()}

    def changed(self, change: Callable[[Operand], Operand]) -> Call:
        """The same call of other operands."""
        args, kwargs = self.mapped(change)
        return replace(self, args=args, kwargs=kwargs)

    def __str__(self) -> str:
        def show(value: Any) -> str:
            if isinstance(value, Operand):
                return f"{value.dtype}{list(value.array.shape)}{'' if value.layout == 'plain' else ' ' + value.layout}"
            if type(value) in (list, tuple):
                return f"({', '.join(map(show, value))})"
            return repr(value)

        parts = [*map(show, self.args), *[f"{name}={show(x)}" for name, x in self.kwargs.items()]]
        return f"{self.name}({', '.join(parts)})"


# ------------------------------------------------------------------------------------------------ conformance samples


@cache
def sampled_operators() -> tuple[Sampled, ...]:
    """The records of the conformance suite."""
    return tuple(conformance_operators())


def sampled_call(rng: np.random.Generator, record: Sampled) -> Call | None:
    """One of a record's samples in a random dtype; None where it is a large one."""
    label = str(rng.choice(sorted(record.samples)))
    short = str(rng.choice(record.dtypes))
    if label.startswith("large") and rng.random() < 0.8:
        return None
    sample = record.samples[label](Draw(rng, FORMATS[short]))
    kind = getattr(OPERATORS.get(record.name), "kind", "")

    def operand(value: Any) -> Any:
        if isinstance(value, Given):
            layout = {"plain": "plain", "transposed": "transposed", "step": "step", "offset": "offset",
                      "expanded": "expanded"}[value.layout]
            name = FORMATS[value.short].name
            return Operand(np.array(value.array, FORMATS[value.short].numpy), name, layout)
        return value

    return Call(record.name, record.call, tuple(map(operand, sample.args)), dict(sample.kwargs), kind == "pointwise",
                (record, short), record.mutates)


# -------------------------------------------------------------------------------------------------- made-up arguments


@cache
def public_operators() -> tuple[tuple[str, Any, Callable[..., Any]], ...]:
    """Names, records and functions of all public operators."""
    names = names_of_functions()
    found = []
    for item in (*OPERATORS.values(), *COMPOSITES.values()):
        public = item.public
        if public is None or public not in names or item.name in EXCLUDED or "::" in item.name:
            continue
        found.append((names[public].removeprefix("torch."), item, public))
    return tuple(sorted(found, key=lambda row: row[0]))


def undrawn() -> list[str]:
    """Names of public functions of which no call is ever drawn."""
    drawn = {function for _, _, function in public_operators()}
    sampled = {record.name.rpartition(".")[2] for record in sampled_operators()}
    return sorted(name for function, name in names_of_functions().items()
                  if function not in drawn and name.rpartition(".")[2] not in sampled
                  and name.removeprefix("torch.") not in FACTORIES)


def made_up_call(rng: np.random.Generator, name: str, item: Any, function: Callable[..., Any]) -> Call:
    """A call with arguments by their types and names."""
    scene = _Scene(rng, item.kind in ("pointwise", "inplace"))
    if "polynomial" in name:
        scene.kind = "few"  # of a degree that is reached step by step
    if name.rpartition(".")[2] in GROWING and np.prod(scene.shape) > _FEW:
        scene.shape = tuple([min(n, 20) for n in scene.shape[-2:]])
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for p in item.schema.parameters:
        if p.type.endswith("..."):
            args += [scene.whole(p.name) for _ in range(int(rng.integers(0, 4)))]
            continue
        if p.keyword_only:
            if rng.random() < 0.4 or p.default is None:
                kwargs[p.name] = scene.argument(p)
        elif p.default is not None and rng.random() < 0.5:
            break
        else:
            args.append(scene.argument(p))
    pointwise = item.kind == "pointwise" and not any(isinstance(x, (list, tuple)) for x in args)
    return Call(name, function, tuple(args), kwargs, pointwise, None,
                item.schema.is_mutable or item.kind == "inplace" or name.endswith("_"))


class _Scene:
    """Shapes and dtypes that the arguments of one call share."""

    def __init__(self, rng: np.random.Generator, broad: bool) -> None:
        self.rng = rng
        self.dtype = str(rng.choice(DTYPES, p=WEIGHTS / WEIGHTS.sum()))
        self.kind = str(rng.choice(CONTENTS, p=[0.5, 0.2, 0.3]))
        self.broad = broad
        self.shape = self._shape()

    def _shape(self) -> tuple[int, ...]:
        rng, draw = self.rng, self.rng.random()
        if draw < 0.08:
            return ()
        if draw < 0.12:
            return tuple(int(n) for n in rng.choice([0, 1, 3], int(rng.integers(1, 4))))
        if draw < 0.18:
            long = int(rng.choice([2500, 17000, 70000])) if self.broad else 2500
            return ((long,), (50, 60), (130, 140))[int(rng.integers(3))]
        if draw < 0.4:
            n = int(rng.integers(1, 6))
            return (n, n) if draw < 0.34 else (2, n, n)
        return tuple(int(n) for n in rng.integers(1, 8, int(rng.integers(1, 5))))

    def argument(self, p: Any) -> Any:
        """A value for a parameter."""
        rng = self.rng
        if p.optional and rng.random() < 0.4:
            return None
        if p.type == "Tensor" or (p.type == "Operand" and rng.random() < 0.6):
            return self.operand(p.name)
        if p.type in ("Tensor[]", "Tensor?[]"):
            return [self.operand(p.name) for _ in range(int(rng.integers(1, 4)))]
        if p.type in ("Scalar", "Operand"):
            return self.number()
        if p.type == "float":
            return float(rng.choice([0.0, -0.0, 0.5, 1.0, 1e-5, 2.0])) if rng.random() < 0.8 else self.number()
        if p.type == "bool":
            return bool(rng.random() < 0.5)
        if p.type == "int":
            return self.whole(p.name)
        if p.type == "int[]":
            return self.wholes(p.name)
        if p.type == "dtype":
            return getattr(torch, str(rng.choice(DTYPES)))
        if p.type == "str":
            return str(rng.choice(["mean", "sum", "none"])) if p.name == "reduction" else _default(p)
        return self.anything(p)

    def number(self) -> Any:
        """A Python number."""
        rng = self.rng
        return ODD[int(rng.integers(len(ODD)))] if rng.random() < 0.1 else NUMBERS[int(rng.integers(len(NUMBERS)))]

    def whole(self, name: str) -> int:
        """A whole number."""
        rank, rng = len(self.shape), self.rng
        if name.startswith(("dim", "axis", "start_dim", "end_dim", "source", "destination")):
            return int(rng.integers(-rank, max(rank, 1))) if rng.random() < 0.95 else rank + 1
        return int(rng.choice([0, 1, 2, 3, 4, -1, 7], p=[0.15, 0.25, 0.25, 0.15, 0.08, 0.08, 0.04]))

    def wholes(self, name: str) -> Any:
        """A tuple of whole numbers."""
        rng = self.rng
        if name in ("size", "shape", "sizes", "normalized_shape"):
            return self.shape[-int(rng.integers(1, 3)):] if name == "normalized_shape" else self.shape[::-1]
        if name.startswith(("dim", "axes", "axis")):
            count = int(rng.integers(0, len(self.shape) + 1))
            return tuple(int(k) for k in rng.permutation(max(len(self.shape), 1))[:count])
        return tuple(int(n) for n in rng.integers(0, 3, int(rng.integers(1, 4))))

    def anything(self, p: Any) -> Any:
        """A value for a parameter whose type only its name tells."""
        rng, name = self.rng, p.name
        if name.startswith(("dim", "axis", "dims")):
            return [None, self.whole("dim"), self.wholes("dim")][int(rng.integers(3))]
        if name in ("kernel_size", "stride", "padding", "dilation", "output_size", "output_padding"):
            one = int(rng.integers(0 if "padding" in name else 1, 4))
            return one if rng.random() < 0.6 else (one, int(rng.integers(1, 3)))
        if name in ("size", "shape", "repeats", "tile_dims"):
            return self.wholes("size")
        if name == "reduction":
            return str(rng.choice(["mean", "sum", "none"]))
        if rng.random() < 0.5 and p.default is not None:
            return _default(p)
        return [None, 1, 0.5, "mean", (1, 2), True, self.operand("x"), 2][int(rng.integers(8))]

    def operand(self, name: str) -> Operand:
        """A tensor."""
        rng = self.rng
        shape, dtype = self.shape, self.dtype
        if rng.random() < 0.1:
            dtype = str(rng.choice(DTYPES, p=WEIGHTS / WEIGHTS.sum()))
        if self.broad and rng.random() < 0.25:
            shape = tuple([1 if rng.random() < 0.4 else n for n in shape])[int(rng.integers(0, len(shape) + 1)):]
        if name in ("mask", "condition", "attn_mask") or name.endswith("mask"):
            return self.laid(contents(rng, shape, "bool", "tame"), "bool")
        if name in ("index", "indices", "target", "labels", "positions"):
            if rng.random() < 0.85:
                high = max(min(shape, default=1), 1) if rng.random() < 0.9 else 9
                cut = shape if name != "target" or rng.random() < 0.5 else (shape[:1])
                return self.laid(rng.integers(0, high, cut), "int64")
        if name in ("weight", "bias", "running_mean", "running_var") and shape and rng.random() < 0.6:
            return self.laid(np.abs(contents(rng, shape[-1:] if rng.random() < 0.5 else shape[1:2], dtype, self.kind))
                             if dtype not in ("bool",) else contents(rng, shape[-1:], dtype, self.kind), dtype)
        return self.laid(contents(rng, shape, dtype, self.kind), dtype)

    def laid(self, array: np.ndarray[Any, Any], dtype: str) -> Operand:
        """A tensor in a random layout."""
        layout = str(self.rng.choice(LAYOUTS)) if self.rng.random() < 0.3 else "plain"
        if HOST[dtype].kind != "c" and array.dtype.kind == "c":
            array = array.real
        return laid_out(np.asarray(array, HOST[dtype]), dtype, layout)


#: Functions without a schema: what they are called with.
_Arguments = Callable[[_Scene], tuple[Any, ...]]
FACTORIES: dict[str, _Arguments] = {
    **dict.fromkeys(("zeros_like", "ones_like", "rand_like", "randn_like"), lambda s: (s.operand("input"),)),
    **dict.fromkeys(("zeros", "ones", "rand", "randn"), lambda s: (s.shape,)),
    **dict.fromkeys(("linspace", "logspace"), lambda s: (s.number(), s.number(), s.whole("steps") * 3)),
    **dict.fromkeys(("Tensor.new_zeros", "Tensor.new_ones"), lambda s: (s.operand("input"), s.shape[::-1])),
    **dict.fromkeys(("Tensor.numel", "Tensor.element_size", "Tensor.is_complex", "Tensor.is_floating_point",
                     "Tensor.tolist", "Tensor.__len__", "Tensor.size"), lambda s: (s.operand("input"),)),
    "full_like": lambda s: (s.operand("input"), s.number()), "full": lambda s: (s.shape, s.number()),
    "Tensor.new_full": lambda s: (s.operand("input"), s.shape[::-1], s.number()),
    "arange": lambda s: (s.number(), s.number(), s.number()), "eye": lambda s: (s.whole("n"), s.whole("m")),
    "randint": lambda s: (s.whole("low"), 9, s.shape), "randperm": lambda s: (s.whole("n") * 5,),
    "scalar_tensor": lambda s: (s.number(),), "Tensor.__contains__": lambda s: (s.operand("input"), s.number()),
    "Tensor.__getitem__": lambda s: (s.operand("input"), s.operand("index") if s.rng.random() < 0.5 else s.whole("k")),
    "Tensor.normal_": lambda s: (s.operand("input"), 0.5, 2.0),
    "Tensor.uniform_": lambda s: (s.operand("input"), -1.0, 3.0),
}


def factory_call(rng: np.random.Generator, name: str) -> Call:
    """A call of a function without a schema, some with a dtype."""
    scene = _Scene(rng, False)
    kwargs: dict[str, Any] = {}
    if not name.startswith("Tensor.__") and name not in ("randperm",) and rng.random() < 0.4 and (
            "new_" in name or "." not in name):
        kwargs["dtype"] = getattr(torch, str(rng.choice(DTYPES)))
    function: Any = torch
    for part in name.split("."):
        function = getattr(function, part)
    return Call(name, function, FACTORIES[name](scene), kwargs, mutates=name.endswith("_") and "__" not in name)


def laid_out(array: np.ndarray[Any, Any], dtype: str, layout: str) -> Operand:
    """An operand in a layout that its values allow, else a plain one."""
    if layout == "expanded" and (array.ndim == 0 or not array.shape[0] or (array != array[:1]).any()):
        layout = "plain"
    return Operand(array, dtype, layout)


def _default(p: Any) -> Any:
    return None if p.default is None else ast.literal_eval(p.default)


def draw_call(rng: np.random.Generator, wanted: Sequence[str] = ()) -> Call | None:
    """A random call, of operators with one of these names if there are any."""
    records = [r for r in sampled_operators() if not wanted or _named(r.name, wanted)]
    public = [row for row in public_operators() if not wanted or _named(row[0], wanted)]
    if records and (not public or rng.random() < 0.4):
        return sampled_call(rng, records[int(rng.integers(len(records)))])
    factories = [name for name in FACTORIES if not wanted or _named(name, wanted)]
    if factories and (not public or rng.random() < 0.05):
        return factory_call(rng, factories[int(rng.integers(len(factories)))])
    return made_up_call(rng, *public[int(rng.integers(len(public)))]) if public else None


def _named(name: str, wanted: Sequence[str]) -> bool:
    return bool({name, name.rpartition(".")[2], name.partition(".")[0]} & set(wanted))


__all__ = ["BY_NAME", "FLOATS", "INTEGERS", "Call", "draw_call", "laid_out", "undrawn"]
