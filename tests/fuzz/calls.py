"""Random calls of every public operator: samples of the conformance suite, and arguments made up from schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

import tensocket as torch
from fuzz.functions import CHANGING, FACTORIES, function_of, takes_dtype
from fuzz.scenes import Scene, laid_out
from fuzz.values import DTYPES, FLOATS, INTEGERS, Operand
from tensocket_conformance.numerics import BY_NAME, FORMATS
from tensocket_conformance.ops import operators as conformance_operators
from tensocket_conformance.record import Draw, Given
from tensocket_conformance.record import Operator as Sampled
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_operators.catalogue import names_of_functions

#: Operators that are not asked: they answer about memory or the process, or wait, or need other objects.
_EXCLUDED = """
    data_ptr pin_memory is_pinned share_memory_ record_stream set_ from_file storage_offset _rebuild backward
    register_hook retain_grad __reduce_ex__ empty_like new_empty empty_strided empty is_set_to resize_ resize_as_
    resize_as_sparse_ as_strided as_strided_ as_strided_copy as_strided_scatter _is_view requires_grad_ data
    cuda xpu cpu to_mkldnn resize _to_cpu numpy tolist item __dlpack__ apply_ map_ map2_
"""
EXCLUDED = frozenset(_EXCLUDED.split())
#: Operators whose results have the product of their operands' numbers of elements, or its square; these are few then.
GROWING = frozenset({"diagflat", "diag_embed", "kron", "outer", "cartesian_prod", "combinations"})
_FEW = 400


@dataclass(frozen=True)
class Call:
    """A call of an operator.

    Attributes:
        name: The operator's name.
        function: The function.
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
                  and name.removeprefix("torch.") not in FACTORIES and _is_reached(name.removeprefix("torch.")))


def _is_reached(name: str) -> bool:
    """Whether programs find a function under its name; some of those that are dispatched are made of others."""
    owner, _, last = name.rpartition(".")
    return hasattr(getattr(torch, owner) if owner else torch, last)


def made_up_call(rng: np.random.Generator, name: str, item: Any, function: Callable[..., Any]) -> Call:
    """A call with arguments by their types and names."""
    scene = Scene(rng, item.kind in ("pointwise", "inplace"))
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


def factory_call(rng: np.random.Generator, name: str) -> Call:
    """A call of a function without a schema, some with a dtype."""
    scene = Scene(rng, False)
    kwargs: dict[str, Any] = {}
    if takes_dtype(name) and rng.random() < 0.4:
        kwargs["dtype"] = getattr(torch, str(rng.choice(DTYPES)))
    return Call(name, function_of(name), FACTORIES[name](scene), kwargs, mutates=name in CHANGING)


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
