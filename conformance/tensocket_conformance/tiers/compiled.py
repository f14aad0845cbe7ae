"""Tier T5: operators in compiled programs, against the float64 references of their records and against eager calls.

Each record runs compiled in several forms: alone, behind and before pointwise operators, before a sum, on memory that
the program changes, on arguments that share memory, and with sizes that change. The first calls of a program run
eagerly; the later ones, which a graph may serve, are compared. A program without a graph runs eagerly, and the report
says why; programs of the records in ``MUST`` must have graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

import tensocket as ts

from .. import ops
from ..case import Case, NotRun
from ..numerics import FORMATS, Failure, HostArray, Metric
from ..record import Draw, Given, Operator, Sample
from ..subject import Subject
from .compiled_gradients import check_gradient, is_checked

#: Calls until a graph serves the next ones: eager, observed, captured.
FIRST: Final = 3
#: Calls that a graph may serve.
SERVED: Final = 2
#: Each program's first graph call runs the function as well, and raises if the graph is wrong; without the option, it
#: would drop the graph. The calls behind it are compared here.
OPTIONS: Final = {"check": 1 << 20, "budget": math.inf}
#: Families whose results have the same bits as those of eager calls.
EXACT: Final = frozenset({"pointwise", "inplace", "casts", "movement", "indexing"})
#: Records of these that add floats in the order in which threads arrive, unless the device is deterministic.
SUMS: Final = frozenset({"scatter_add", "index_put.accumulate", "index_add"})
#: Records that must become graphs, by family; None: all of it.
MUST: Final[dict[str, frozenset[str] | None]] = {
    "pointwise": None, "elementary": None, "matmul": None,
    "reduction": frozenset({"sum", "mean", "prod", "amax", "amin", "any", "all"}),
    "movement": frozenset({"flip", "clone", "cat", "stack"}),
    "nn": frozenset({"softmax", "log_softmax", "logsumexp", "mse_loss"}),
    "networks": frozenset({"layer_norm", "rms_norm"}),
    "indexing": frozenset({"gather", "index_select", "embedding", "scatter_add"}),
}
#: Forms in which they must.
MUST_FORMS: Final = frozenset({"alone", "behind", "before", "reduced", "sizes"})
#: Families whose arguments include indices, which a graph may not compute before it checks them.
INDEXED: Final = frozenset({"indexing"})
#: Records in the quick run, with the form that they have there.
QUICK: Final = {
    "add": "alone", "exp": "behind", "clamp": "sizes", "sum": "before", "amax": "alone", "softmax": "reduced",
    "mm": "before", "cat": "behind", "gather": "alone", "tanh": "grad", "relu_": "mutated", "mul": "aliased"}
#: The largest sample; larger ones are of no use here.
_ELEMENTS: Final = 6000


@dataclass(frozen=True)
class Form:
    """A form of program.

    Attributes:
        wrap: Makes the program from a record's call.
        calls: Labels of the samples of its calls, in order, from those of the record.
        reduced: Whether its results, or their squares, are summed along the last dimension.
        shared: Whether the first two tensors are the same one in the last calls.
    """

    wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    calls: Callable[[list[str]], list[str]]
    reduced: bool = False
    shared: bool = False


def _unchanged(x: Any) -> Any:
    """Return a pointwise operator's result that has the values of a tensor; other values as they are."""
    if not isinstance(x, ts.Tensor) or x.layout != ts.strided:
        return x
    if x.dtype == ts.bool:
        return x.logical_not().logical_not()
    return x.neg().neg() if x.dtype.is_signed else x * 1


def _over(function: Callable[[Any], Any], value: Any) -> Any:
    """Return a result with a function applied to each tensor of it."""
    if isinstance(value, (tuple, list)):
        return tuple([function(x) for x in value])
    return function(value)


def _alone(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: call(*args, **kwargs)


def _behind(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: call(*[_unchanged(x) for x in args], **kwargs)


def _before(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: _over(_unchanged, call(*args, **kwargs))


def _sum(x: Any) -> Any:
    """Return the sums of the rows of a tensor; of squares, as sums of some results do not tell anything."""
    terms = x * x if x.is_floating_point() else x
    return terms.sum(-1) if x.dim() else terms.sum()


def _reduced(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: _over(_sum, call(*args, **kwargs))


def _mutated(call: Callable[..., Any]) -> Callable[..., Any]:
    def program(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        place = next(k for k, x in enumerate(given) if isinstance(x, ts.Tensor))
        changed = given[place] = given[place].clone()
        changed[...] = _unchanged(changed)
        result = call(*given, **kwargs)
        if result is not changed:
            changed.zero_()  # a result that is no view stays
        return result

    return program


def _one(labels: list[str]) -> list[str]:
    return labels[:1] * (FIRST + SERVED)


def _several(labels: list[str]) -> list[str]:
    """Several sizes, and the first ones once more behind them."""
    return [label for label in labels[:3] for _ in range(FIRST + 1)] + labels[:1]


FORMS: Final[dict[str, Form]] = {
    "alone": Form(_alone, _one), "behind": Form(_behind, _one), "before": Form(_before, _one),
    "reduced": Form(_reduced, _one, reduced=True), "mutated": Form(_mutated, _one), "sizes": Form(_alone, _several),
    "aliased": Form(_behind, lambda labels: labels[:1] * (2 * FIRST + SERVED), shared=True),
}


def cases(declared: tuple[str, ...]) -> Iterator[Case]:
    """Yield the cases of tier T5 for a device that declares the element types ``declared``."""
    for family in ops.FAMILIES:
        area = family.__name__.rpartition(".")[2]
        seen: set[str] = set()
        for record in family.OPERATORS:
            usual = ("f32", "i64", "b8", *record.dtypes)
            short = next((s for s in usual if s in record.dtypes and s in declared), None)
            needed = set() if short is None else {short, *record.also, *_shorts(record, short)}
            if short is None or record.name in seen or not needed <= set(declared):
                continue
            seen.add(record.name)
            for form in _forms(record, area):
                yield _case(record, area, short, form)


def _shorts(record: Operator, short: str) -> tuple[str, ...]:
    result = record.result(short)
    return (result,) if isinstance(result, str) else result


def _forms(record: Operator, area: str) -> list[str]:
    """Return the names of the forms that a record has."""
    if area == "sparse":
        return ["alone", "behind"]
    names = [name for name in FORMS if name != "aliased" or "add" in record.name or area == "pointwise"]
    return [*names, *(["grad"] if is_checked(record) else [])]


def _case(record: Operator, area: str, short: str, form: str) -> Case:
    case_id = f"T5.op.{record.name}/{short}/{form}"

    def check(subject: Subject) -> Metric | None:
        if not hasattr(getattr(ts, "compiler", None), "compiled"):
            raise NotRun("the compiler is not installed")
        if form == "grad":
            return check_gradient(subject, record, short, case_id, OPTIONS, _finish)
        return _check(subject, record, area, short, form, case_id)

    label = _labels(record)[0]
    return Case(case_id, check, (f"T2.op.{record.name}/{short}/{label}",), short, area=area,
                quick=QUICK.get(record.name) == form)


def _labels(record: Operator) -> list[str]:
    """Return the labels of the samples: usual ones first, no large ones, and of each class one."""
    left_out = ("large", "wide", "tall", "grid", "empty")
    wanted = [label for label in record.samples if label.partition("#")[0] not in left_out]
    usual = [label for label in wanted if label.startswith(("prime", "square", "dim"))]
    others = [label for label in wanted if label.endswith("#0") and label not in usual]
    return [*usual[:1], *others, *usual[1:]] or [next(iter(record.samples))]


def _check(subject: Subject, record: Operator, area: str, short: str, name: str, case_id: str) -> Metric | None:
    form = FORMS[name]
    run = ts.compile(form.wrap(record.call), options=OPTIONS)
    eager = form.wrap(record.call)
    worst: Metric | None = None
    labels = form.calls(_labels(record))
    for number, label in enumerate(labels):
        rng = subject.rng(f"{case_id} {number}")
        sample = record.samples[label](Draw(rng, FORMATS[short]))
        shared = form.shared and number >= FIRST + 1
        exact = area in EXACT and not form.reduced and (
            record.name not in SUMS or "deterministic" in subject.features)
        kind = exact, not form.reduced and (name != "mutated" or record.mutates), shared
        metric = _call(subject, record, sample, (run, eager), kind, short)
        worst = metric if worst is None or (metric is not None and metric.error > worst.error) else worst
    _finish(subject, case_id, run, _must_have_graph(record, area, name))
    return worst


def _must_have_graph(record: Operator, area: str, name: str) -> bool:
    """Whether calls of a record in a form must be served by a graph."""
    if name not in MUST_FORMS or area not in MUST or (name == "behind" and area in INDEXED):
        return False
    return record.name in (MUST[area] or {record.name})


def _finish(subject: Subject, case_id: str, run: Any, required: bool) -> None:
    """Note whether a graph served calls of a program.

    Raises:
        Failure: None did, and the program must become a graph; or the compiler failed on it.
        NotRun: Nothing is captured in this process.
    """
    report = ts.compiler.compiled(run).report()
    if not (report.hits or report.break_reasons):
        raise NotRun("the compiler makes no graphs in this process")
    require_no_failure(report)
    reason = "" if report.hits else report.break_reasons[0]
    subject.graphs[case_id] = reason
    if reason and required:
        raise Failure(f"the program must become a graph, yet calls run eagerly: {reason}")


def require_no_failure(report: Any) -> None:
    """Check that the compiler failed on no call.

    Raises:
        Failure: It did, and calls run eagerly therefore.
    """
    for text in report.break_reasons:
        if "the compiler failed" in text or "graph was wrong" in text:
            raise Failure(text)


def _call(subject: Subject, record: Operator, sample: Sample, programs: tuple[Any, Any], kind: tuple[bool, bool, bool],
          short: str) -> Metric | None:
    """Compare one call with the record's reference and with the eager call."""
    exact, references, shared = kind
    if any(isinstance(a, Given) and a.array.size > _ELEMENTS for a in sample.args):
        return None
    if shared:
        sample = _shared(sample)
    outcomes = []
    for program in programs:
        tensors = _place(subject, sample, shared)
        try:
            result = program(*tensors, **sample.kwargs)
        except ts.errors.TensocketError as error:
            if not shared:
                raise
            outcomes.append((type(error).__name__, tensors))
            continue
        outcomes.append((result, tensors))
    (found, given), (wanted, beside) = outcomes
    if str in (type(found), type(wanted)):  # names of errors
        if type(found) is not type(wanted) or found != wanted:
            raise Failure(f"compiled and eager calls end differently: {found!r:.80}, {wanted!r:.80}")
        return None
    _compare_results(subject, found, wanted, exact)
    for position, (x, y) in enumerate(zip(given, beside, strict=True)):
        if isinstance(x, ts.Tensor) and x.layout == ts.strided:
            _same_bits(subject, x, y, f"argument {position}", exact)
            if x._version != y._version:
                raise Failure(f"argument {position} has version {x._version}, {y._version} behind an eager call")
    if not references:
        return None
    return record.check_result(subject, sample, found, short)


def _shared(sample: Sample) -> Sample:
    """Return a sample whose second tensor is the first, if both are alike."""
    places = [k for k, a in enumerate(sample.args) if isinstance(a, Given)]
    if len(places) < 2:
        return sample
    first, second = sample.args[places[0]], sample.args[places[1]]
    if first.array.shape != second.array.shape or first.short != second.short:
        return sample
    args: list[Any] = [*sample.args]
    args[places[1]] = first
    return replace(sample, args=tuple(args))


def _place(subject: Subject, sample: Sample, shared: bool) -> list[Any]:
    placed: dict[int, Any] = {}
    tensors = []
    for a in sample.args:
        if not isinstance(a, Given):
            tensors.append(a)
        elif shared and id(a) in placed:
            tensors.append(placed[id(a)])
        else:
            placed[id(a)] = subject.place(a.array, a.short, a.layout)
            tensors.append(placed[id(a)])
    return tensors


def _compare_results(subject: Subject, found: Any, wanted: Any, exact: bool) -> None:
    results, references = (list(x) if isinstance(x, (tuple, list)) else [x] for x in (found, wanted))
    if len(results) != len(references):
        raise Failure(f"{len(results)} results, {len(references)} of an eager call")
    for x, y in zip(results, references, strict=True):
        if isinstance(y, ts.Tensor) and y.layout == ts.strided:
            got, expected = form_of(x), form_of(y)
            if got != expected:
                raise Failure(f"the result is {got}; that of an eager call is {expected}")
            _same_bits(subject, x, y, "the result", exact)


def form_of(x: Any) -> str:
    """Return what must be equal of a result besides its values; strides of one element mean nothing."""
    strides = [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1 and x.numel()]
    return f"{x.dtype}{list(x.shape)}, strides {strides}, requires_grad={x.requires_grad}"


def _same_bits(subject: Subject, x: Any, y: Any, name: str, exact: bool) -> None:
    """Compare with an eager result: all bits but those of NaN, or up to rounding in another order."""
    compare_values(subject.get(x), subject.get(y), name, exact)


def compare_values(a: HostArray, b: HostArray, name: str, exact: bool) -> None:
    """Compare values with those of an eager call: all bits but those of NaN, or up to rounding in another order.

    Raises:
        Failure: They differ.
    """
    if a.dtype.kind not in "fc" or exact:
        same = a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    else:
        same = _close(a, b)
    if not same:
        raise Failure(f"{name} differs from that of an eager call: {_first(a, b)}")


def _close(a: HostArray, b: HostArray) -> bool:
    digits = {2: 1e-2, 4: 1e-4, 8: 1e-6 if a.dtype.kind == "c" else 1e-9, 16: 1e-9}[a.dtype.itemsize]
    finite = np.abs(np.where(np.isfinite(b), b, 0)).max(initial=0)
    return bool(np.allclose(a, b, rtol=digits, atol=digits * float(finite), equal_nan=True))


def _first(a: HostArray, b: HostArray) -> str:
    different = np.argwhere(~((a == b) | ((a != a) & (b != b))))
    place = tuple(int(k) for k in different[0]) if len(different) else ()
    return f"element {list(place)} is {a[place]!r}, not {b[place]!r}"
