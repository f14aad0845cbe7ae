"""Operators called in every way that has a fast path of its own: all of them have to give the same bits.

A call is made cold, again and again, with other contents and numbers, layouts, gradients, sizes and threads. Its
results are compared with the same call in a process without native code (``plain.py``), and, for samples of the
conformance suite, with NumPy in float64.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

import tensocket as torch
from fuzz.calls import Call, draw_call, laid_out, public_operators, undrawn
from fuzz.campaign import Campaign
from fuzz.plain import Plain
from fuzz.values import CONTENTS, FLOATS, HOST, LAYOUTS, Operand, contents, difference, flattened, largest
from tensocket_conformance.numerics import Failure, compare
from tensocket_conformance.record import tolerance_for
from tensocket_conformance.subject import format_of, host_array
from tensocket_core.dispatch.registry import clear_tables
from tensocket_core.launch import entries as native

#: Calls of one kind, which is enough for launches to be kept and kernels to be native.
REPEATS = 7
#: Sizes to which arrays of pointwise operators are blown up: of NumPy, of one kernel, of several threads.
SIZES = (5, 33, 2500, 17000, 70000)
#: Elements of results of which no more is asked.
_MOST = 1 << 21
#: Elements from which results are compared between numbers of threads.
MANY = 9000
#: Differences from NumPy and the C library that are not defects, in units of ``values.ROUNDING``.
ROUGH = 30.0

#: The same between ways of pointwise operators: none.
POINTWISE = 0.0
#: Operators whose results, or errors, are about memory.
ABOUT_MEMORY = frozenset({"view", "view_as", "view_as_complex", "view_as_real", "view_dtype", "is_contiguous", "stride",
                          "unflatten", "is_non_overlapping_and_dense", "view_copy", "view_as_complex_copy",
                          "as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "empty_like",
                          "storage_offset", "detach_", "resize_", "resize_as_"})
#: Functions whose results say whether gradients are recorded.
ABOUT_GRADIENTS = frozenset({"__repr__", "__format__", "empty_like", "new_empty", "resize_", "resize_as_"})

Outcome = list[Any]


def run(call: Call, grad: bool = False, tensors: tuple[tuple[Any, ...], dict[str, Any]] | None = None) -> Outcome:
    """The results of a call, and of what it wrote to; or the class of its error, or that NumPy would warn."""
    rng = np.random.default_rng(0)
    args, kwargs = tensors or call.mapped(lambda x: x.tensor(rng, grad))
    torch.manual_seed(11)
    flags: list[str] = []
    try:
        # The conditions that NumPy warns of by default; it ignores underflow.
        with np.errstate(all="call", under="ignore", call=lambda kind, _: flags.append(kind)):
            result = call.function(*args, **kwargs)
        if flags:
            return ["warned", flags[0]]
        found = flattened(result)
        if call.mutates:
            found += [part for x in args if isinstance(x, torch.Tensor) for part in flattened(x)]
        return found
    except Exception as error:
        return ["error", type(error).__name__]


def failed(outcome: Outcome) -> bool:
    """Whether an outcome is an error."""
    return len(outcome) == 2 and outcome[0] == "error" and isinstance(outcome[1], str)


@contextmanager
def prepared() -> Iterator[None]:
    """Operators become native after few calls, and warnings are quiet."""
    before = native._CALLS
    native._CALLS = 4  # type: ignore[misc]
    threads = torch.get_num_threads()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        native._CALLS = before  # type: ignore[misc]
        torch.set_num_threads(threads)


# ---------------------------------------------------------------------------------------------------------------- ways


class Case:
    """One call, and what has been found wrong with it."""

    def __init__(self, campaign: Campaign, call: Call, rng: np.random.Generator) -> None:
        self.campaign, self.call, self.rng = campaign, call, rng
        self.base = self.outcome(call)

    def outcome(self, call: Call, grad: bool = False, tensors: Any = None) -> Outcome:
        self.campaign.called()
        return run(call, grad, tensors)

    def same(self, way: str, found: Outcome, wanted: Outcome, call: Call | None = None, rough: float = 0.0) -> bool:
        """Whether two outcomes agree; reports it if they don't."""
        said = difference(found, wanted, rough)
        if said and rough and not self.call.pointwise:  # sums that cancel
            said = difference(found, wanted, rough, self.magnitude(call or self.call))
        if said:
            self.campaign.differ(f"{call or self.call}\n    {way}: {said}")
        return not said

    def magnitude(self, call: Call) -> float:
        """Return the largest result for the operands' magnitudes: sums of products round relative to it."""
        return largest(self.outcome(call.changed(lambda x: replace(
            x, array=np.abs(x.array).astype(x.array.dtype) if x.array.dtype.kind in "fc" else x.array))))

    def check(self, plain: Plain | None) -> None:
        """Go all ways until one differs."""
        if self.base[:1] == ["warned"]:
            self.campaign.differ(f"{self.call}\n    NumPy warns of it: {self.base[1]}")
            return
        if plain is not None and not self.against_plain(plain):
            return
        arrays = [x[1] for x in self.base if type(x) is tuple and len(x) == 2 and isinstance(x[1], np.ndarray)]
        if sum(x.size for x in arrays) > _MOST:
            return  # a diagonal of many elements is a matrix of many more
        ways: list[Callable[[], bool]] = [self.again]
        if not failed(self.base):
            ways += [self.reference, self.other_contents, self.other_numbers, self.other_layouts, self.gradients,
                     self.threads, self.sizes, self.elements]
        for way in ways:
            if not way():
                return

    def against_plain(self, plain: Plain) -> bool:
        wanted = plain.outcome(self.campaign)
        if wanted is None or any(np.abs(x.array[np.isfinite(x.array)]).max(initial=0) > 100 or not np.isfinite(
                x.array).all() for x in self.call.operands() if x.array.dtype.kind in "fc"):
            return True
        return self.same("with native code, and without", self.base, wanted, rough=ROUGH)

    def again(self) -> bool:
        """The same objects, many times."""
        rng = np.random.default_rng(0)
        tensors = None if self.call.mutates else self.call.mapped(lambda x: x.tensor(rng))
        return all(self.same(f"call {k + 2}", self.outcome(self.call, tensors=tensors), self.base)
                   for k in range(2 if failed(self.base) else REPEATS))

    def reference(self) -> bool:
        """NumPy in float64, within the record's bound."""
        if self.call.sampled is None:
            return True
        record, short = self.call.sampled
        rng = np.random.default_rng(0)
        args, kwargs = self.call.mapped(lambda x: x.tensor(rng))
        got = record.call(*args, **kwargs)
        wide = {"f": np.float64, "c": np.complex128}
        exact = [x.array.astype(wide.get(x.array.dtype.kind, x.array.dtype)) if isinstance(x, Operand) else x
                 for x in self.call.args]
        with np.errstate(all="ignore"):
            wanted = record.reference(*exact, **kwargs)
            condition = record.condition(*exact, **kwargs) if record.condition else 0.0
        many = isinstance(record.result(short), tuple)
        for tensor, expected in zip(got if many else (got,), wanted if many else (wanted,), strict=True):
            form = format_of(tensor)
            bound = tolerance_for(record.tolerance, form)
            try:
                compare(host_array(tensor), np.asarray(expected), form, bound, condition)
            except Failure as error:
                self.campaign.differ(f"{self.call}\n    against NumPy: {error}")
                return False
        return True

    def cold_and_warm(self, way: str, call: Call) -> bool:
        """Compare the results of a call after others with those where no closure is known."""
        warm = self.outcome(call)
        for _ in range(2):
            if not self.same(f"{way}, again", self.outcome(call), warm, call):
                return False
        clear_tables()
        if not self.same(f"{way}, warm and cold", warm, self.outcome(call), call):
            return False
        return all(self.same(f"{way}, warm again", self.outcome(call), warm, call) for _ in range(REPEATS))

    def other_contents(self) -> bool:
        """The same shapes and strides with the elements in another order and with other signs."""
        rng = self.rng

        def changed(x: Operand) -> Operand:
            array = rng.permutation(x.array.ravel()).reshape(x.array.shape)
            if x.layout == "expanded":
                array = np.broadcast_to(x.array[:1] if rng.random() < 0.5 else array[:1], array.shape)
            if x.dtype in FLOATS and rng.random() < 0.5:
                array = np.where(rng.random(array.shape) < 0.3, -array, array) if x.layout != "expanded" else -array
            return replace(x, array=np.asarray(array, x.array.dtype))

        return self.cold_and_warm("other contents", self.call.changed(changed)) and self.same(
            "after other contents", self.outcome(self.call), self.base)

    def other_numbers(self) -> bool:
        """Numbers that are equal, or nearly, but not the same."""
        call = replace(self.call, args=tuple(self._numbers(self.call.args)), kwargs=dict(zip(
            self.call.kwargs, self._numbers(self.call.kwargs.values()), strict=True)))
        if repr(call.args) == repr(self.call.args) and repr(call.kwargs) == repr(self.call.kwargs):
            return True
        return self.cold_and_warm("other numbers", call) and self.same(
            "after other numbers", self.outcome(self.call), self.base)

    def _numbers(self, values: Any) -> list[Any]:
        rng, made = self.rng, []
        for x in values:
            if type(x) is float and rng.random() < 0.8:
                x = -x if x == 0 or rng.random() < 0.3 else int(x) if x == x and abs(x) < 9 and x == int(x) else np.nan
            elif type(x) is int and rng.random() < 0.8:
                x = bool(x) if x in (0, 1) and rng.random() < 0.4 else float(x)
            elif type(x) is bool and rng.random() < 0.5:
                x = int(x)
            made.append(x)
        return made

    def other_layouts(self) -> bool:
        """The same values elsewhere in memory; sums may be taken in another order."""
        rng, rough = self.rng, POINTWISE if self.call.pointwise else 1.0
        if self.call.name.rpartition(".")[2] in ABOUT_MEMORY:
            return True
        # Elements that share memory are not written.
        layouts = [name for name in LAYOUTS if not (self.call.mutates and name == "expanded")]
        for _ in range(3):
            call = self.call.changed(lambda x: laid_out(x.array, x.dtype, str(rng.choice(layouts))))
            found = [self.outcome(call) for _ in range(REPEATS if rng.random() < 0.5 else 1)]
            if not all(self.same("laid out otherwise, again", x, found[0], call) for x in found[1:]):
                return False
            if not self.same("laid out otherwise", found[0], self.base, call, rough):
                return False
        return True

    def gradients(self) -> bool:
        """Values don't depend on whether gradients are recorded, but for the order of sums."""
        if self.call.mutates or self.call.name.rpartition(".")[2] in ABOUT_GRADIENTS:
            return True
        found = [self.outcome(self.call, grad=True) for _ in range(REPEATS)]
        if failed(found[0]):  # dtypes or operators that do not differentiate say so
            return True
        rough = POINTWISE if self.call.pointwise else 1.0
        return self.same("with gradients", found[0], self.base, rough=rough) and all(
            self.same("with gradients, again", x, found[0]) for x in found)

    def threads(self) -> bool:
        """Values don't depend on the number of threads, but for products of matrices."""
        if max([x.array.size for x in self.call.operands()], default=0) < MANY:
            return True
        before = torch.get_num_threads()
        try:
            found = []
            for count in (1, 3):
                torch.set_num_threads(count)
                found.append(self.outcome(self.call))
        finally:
            torch.set_num_threads(before)
        rough = POINTWISE if self.call.pointwise else 1.0
        return all(self.same("other threads", x, self.base, rough=rough) for x in found)

    # Pointwise operators alone.

    def _broadcast(self) -> tuple[list[Operand], tuple[int, ...]] | None:
        operands = self.call.operands()
        if not self.call.pointwise or not operands or self.call.mutates or len(self.base) != 1:
            return None
        if len({x.array.ndim == 0 for x in operands}) > 1 or not isinstance(self.base[0], tuple):
            return None  # 0-d operands take part in promotion in another way
        try:
            shape = np.broadcast_shapes(*[x.array.shape for x in operands])
        except ValueError:
            return None
        if not np.prod(shape) or self.base[0][1].shape != shape:
            return None
        return operands, shape

    def _at(self, operands: list[Operand], shape: tuple[int, ...], pick: Callable[[Any], Any]) -> Call:
        made = iter([replace(x, array=np.array(pick(np.broadcast_to(x.array, shape))), layout="plain")
                     for x in operands])
        return self.call.changed(lambda x: next(made))

    def sizes(self) -> bool:
        """Each element is what it is among others, however many there are."""
        found = self._broadcast()
        if found is None:
            return True
        operands, shape = found
        size = int(self.rng.choice(SIZES, p=[0.3, 0.3, 0.2, 0.15, 0.05]))
        call = self._at(operands, shape, lambda x: np.resize(x.ravel(), size))
        if not operands[0].array.ndim:
            return True
        wanted = [(self.base[0][0], np.resize(self.base[0][1].ravel(), size))]
        return self.same(f"among {size} elements", self.outcome(call), wanted, call, POINTWISE)

    def elements(self) -> bool:
        """Each element is what it is alone."""
        found = self._broadcast()
        if found is None or not found[1]:
            return True
        operands, shape = found
        for _ in range(6):
            at = tuple(int(self.rng.integers(n)) for n in shape)
            for pick in (lambda x, at=at: x[at], lambda x, at=at: x[at].reshape(1)):
                call = self._at(operands, shape, pick)
                wanted = [(self.base[0][0], pick(self.base[0][1]))]
                if not self.same(f"element {list(at)} alone", self.outcome(call), wanted, call, POINTWISE):
                    return False
        return True


def listing() -> str:
    """The public functions that are never drawn, a line each."""
    names = undrawn()
    return "\n".join([*names, f"{len(names)} public functions are never drawn, {len(public_operators())} are"])


def _coverage(drawn: dict[str, bool]) -> str:
    """List the operators without results in a campaign; ``drawn`` says of each name whether a call of it gave one."""
    names = {name for name, _, _ in public_operators()}
    never, refused = sorted(names - drawn.keys()), sorted(name for name, good in drawn.items() if not good)
    return (f"operators: {len(never)} of {len(names)} were not drawn: {' '.join(never)}\n"
            f"operators: of {len(refused)}, every call was refused: {' '.join(refused)}")


def fuzz(campaign: Campaign, compare_plain: bool = True) -> None:
    """Random calls; options are names of operators."""
    drawn: dict[str, bool] = {}
    with prepared():
        plain = Plain(campaign) if compare_plain else None
        try:
            for number, rng in campaign.each():
                if number % 16 == 0:
                    clear_tables()
                call = draw_call(rng, campaign.options)
                if call is not None:
                    case = Case(campaign, call, rng)
                    drawn[call.name] = drawn.get(call.name, False) or not failed(case.base)
                    case.check(plain)
        finally:
            if plain is not None:
                plain.close()
    if campaign.loud and campaign.ran > len(public_operators()) and not campaign.options:
        print(_coverage(drawn), flush=True)


__all__ = ["CONTENTS", "HOST", "contents", "fuzz"]
