"""Calls of a random function, plain and compiled, with everything that a program can tell of them."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final
from unittest.mock import patch

import numpy as np

import tensocket as torch
from tensocket.utils._pytree import tree_flatten
from tensocket_compiler.calls import function as compiled_function

from .graph_programs import Program
from .values import ROUNDING


@dataclass(frozen=True)
class Call:
    """How one call differs from the usual one.

    Attributes:
        sizes: Whether it gets the first or second sizes.
        layout: How all arguments lie in memory; None: each as it is declared.
        shared: ``same`` if an argument is passed twice, ``overlap`` if two are views of one.
        backward: Whether a backward pass follows through the results.
        touched: Whether the caller changes the results.
        early: Number of a result, argument or captured tensor that the caller changes before the backward pass.
        grad: Whether gradients are recorded.
        number: The number that it passes.
    """

    sizes: int = 0
    layout: str | None = None
    shared: str = ""
    backward: bool = True
    touched: bool = False
    early: int = -1
    grad: bool = True
    number: float = 2


#: One eager call, one that is observed, one that is captured, and then graphs.
_FIRST: Final = (Call(), Call(), Call(), Call(), Call(touched=True), Call(backward=False, touched=True))
#: Further calls, of which each function gets two groups.
_GROUPS: Final = (
    (Call(sizes=1), Call(sizes=1), Call(sizes=1), Call(sizes=1, touched=True), Call()),
    (Call(shared="same"), Call(layout="plain"), Call(shared="overlap"), Call()),
    (Call(number=3), Call(number=3), Call(number=3), Call()),
    (Call(grad=False), Call(grad=False), Call(grad=False), Call()),
    (Call(early=0), Call(early=1), Call(early=3), Call(early=5)))


def calls_of(program: Program) -> list[Call]:
    """Return the calls of a function, which follow from its text."""
    rng = np.random.default_rng(zlib.crc32(repr(program.arguments).encode()))
    chosen = [_GROUPS[int(k)] for k in rng.permutation(len(_GROUPS))[:2]]
    return [*_FIRST, *[call for group in chosen for call in group], Call(touched=True)]


@dataclass
class Seen:
    """What a program can tell of a call.

    Attributes:
        facts: Facts that must be equal, by name.
        values: Values of tensors, by name.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


@dataclass
class Verdict:
    """The comparison of a program's compiled calls with plain ones.

    Attributes:
        found: The first difference; empty if there is none.
        served: Calls that graphs served.
        reasons: Why calls were not captured.
    """

    found: str = ""
    served: int = 0
    reasons: tuple[str, ...] = ()


class World:
    """A program with captured tensors of its own.

    Args:
        program: The program.
        compiled: Whether its function is compiled.
        moved: The relative change of all floats that it gets.
    """

    def __init__(self, program: Program, *, compiled: bool = False, moved: float = 0.0) -> None:
        self.program, self.moved = program, moved
        self.captured = {x.name: self._moved(program.made(x, k + 1), k) for k, x in enumerate(program.captured)}
        scope = {"torch": torch, **self.captured}
        exec(compile(program.text(), "<function>", "exec"), scope)
        self.function = torch.compile(scope["f"], options={"budget": math.inf}) if compiled else scope["f"]
        self.held: list[tuple[str, Any]] = []

    def _moved(self, tensor: Any, seed: int) -> Any:
        if self.moved and tensor.is_floating_point():
            change = np.random.default_rng(seed).uniform(-self.moved, self.moved, tuple(tensor.shape))
            tensor.data.mul_(torch.tensor(1 + change, dtype=tensor.dtype, device=tensor.device))
        return tensor

    def arguments(self, number: int, call: Call) -> list[Any]:
        """Return the arguments of a call."""
        program = self.program
        made = [self._moved(program.made(x, 100 * (number + 1) + k, call.sizes, call.layout), 7 * number + k)
                if x.layout != "expanded" or not self.moved else program.made(x, 100 * (number + 1) + k, call.sizes)
                for k, x in enumerate(program.arguments)]
        for k in range(1, len(made)):
            if call.shared == "same" and _alike(made[0], made[k]):
                made[k] = made[0]
            elif call.shared == "overlap" and _alike(made[0], made[k]) and made[0].dim() and made[0].shape[0]:
                base = torch.cat([made[0].detach(), made[0].detach()[:1]])
                made[0], made[k] = (x.requires_grad_(y.requires_grad) for x, y in zip(
                    (base[:-1].detach(), base[1:].detach()), (made[0], made[k]), strict=True))
        return [*made, *([call.number] if program.constant else [])]

    def run(self, number: int, call: Call) -> Seen:
        """Call the function, and note everything that can be told of the call."""
        seen, arguments = Seen(), self.arguments(number, call)
        torch.manual_seed(number)
        try:
            with torch.set_grad_enabled(call.grad):
                result = self.function(*arguments)
        except Warning:
            raise  # the compiler failed
        except Exception as error:
            seen.facts["raised"], result = f"{type(error).__name__}: {error}", None
        leaves, structure = tree_flatten(result)
        seen.facts["structure"] = str(structure)
        known = {**{f"argument {k}": x for k, x in enumerate(arguments)}, **self.captured}
        self._note(seen, {f"result {k}": x for k, x in enumerate(leaves)}, known)
        if call.early >= 0:
            every = [x for x in (*leaves, *arguments, *self.captured.values()) if isinstance(x, torch.Tensor)]
            self._touch(seen, every[call.early: call.early + 1])
        if call.backward:
            self._backward(seen, leaves, number, [
                x for x in known.values() if isinstance(x, torch.Tensor) and x.is_leaf])
        self._note(seen, {f"{name} afterwards": x for name, x in known.items()}, {})
        # Whether a gradient is a sum in place shows in its version, which nobody can rely on.
        self._note(seen, {f"{name}.grad": None if x.grad is None else x.grad.data for name, x in known.items()
                          if isinstance(x, torch.Tensor) and x.is_leaf}, {})
        if call.touched:
            self._touch(seen, leaves)
        seen.values["random"] = np.array(torch.get_rng_state())
        self.held += [(f"call {number} result {k}", x) for k, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        if number % 3 == 2:
            for x in self.captured.values():
                x.grad = None
        return seen

    @staticmethod
    def _note(seen: Seen, objects: dict[str, Any], known: dict[str, Any]) -> None:
        spaces = {x.untyped_storage().data_ptr(): n for n, x in known.items()
                  if isinstance(x, torch.Tensor) and x.numel()}
        for name, x in objects.items():
            if not isinstance(x, torch.Tensor):
                seen.facts[name] = repr(x)
                continue
            strides = tuple(s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1 and x.numel())
            space = x.untyped_storage().data_ptr() if x.numel() else None
            # How a path of an operator makes a new tensor shows in its version; only the CPU's paths agree in that.
            counts = x.device.type == "cpu" or not name.startswith("result")
            seen.facts[name] = (
                f"{x.dtype}{list(x.shape)} strides {strides} requires_grad={x.requires_grad} leaf={x.is_leaf} "
                f"node={_has_node(x)} version={x._version if counts else None} "
                f"is={[n for n, y in known.items() if y is x]} "
                f"memory={spaces.get(space, 'new')}")
            if space is not None:
                spaces.setdefault(space, name)
            seen.values[name] = _numbers(x)

    @staticmethod
    def _backward(seen: Seen, leaves: Sequence[Any], number: int, known: Sequence[Any]) -> None:
        rng, loss = np.random.default_rng(number), None
        for x in leaves:
            if isinstance(x, torch.Tensor) and x.requires_grad and x.is_floating_point():
                weight = torch.tensor(rng.integers(-2, 3, tuple(x.shape)).astype(float), dtype=x.dtype, device=x.device)
                try:
                    part = (x * weight).sum().double()
                except Exception as error:  # a view of no_grad whose base changed
                    seen.facts["loss raised"] = type(error).__name__
                    continue
                loss = part if loss is None else loss + part
        if loss is None:
            return
        try:
            loss.backward()
        except Exception as error:
            seen.facts["backward raised"] = type(error).__name__
            for x in known:
                x.grad = None  # how far the pass got does not matter

    @staticmethod
    def _touch(seen: Seen, leaves: Sequence[Any]) -> None:
        for k, x in enumerate(leaves):
            if isinstance(x, torch.Tensor):
                try:
                    with torch.no_grad():
                        x.zero_()
                except Exception as error:
                    seen.facts[f"change of {k} raised"] = type(error).__name__

    def last(self) -> Seen:
        """Return the values of all results at the end: later calls leave them alone."""
        return Seen({}, {name: _numbers(x) for name, x in self.held})


def _has_node(tensor: Any) -> bool | str:
    try:
        return tensor.grad_fn is not None
    except Exception as error:  # of a view that its base left behind
        return type(error).__name__


def _alike(x: Any, y: Any) -> bool:
    return bool(x.dtype == y.dtype and x.shape == y.shape)


def _numbers(x: Any) -> Any:
    x = x.detach()
    return np.array((x.float() if x.dtype == torch.bfloat16 else x).cpu().numpy())


def _distance(x: Any, y: Any) -> Any:
    """Return the difference of each element; infinite where only one is NaN or infinite."""
    with np.errstate(all="ignore"):
        a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        return np.where(equal, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf))


def _far(found: Any, wanted: Any, bound: float) -> bool:
    """Whether values differ by more than a bound, relative to the largest one."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return True
    if not found.size:
        return False
    with np.errstate(all="ignore"):
        finite = np.abs(np.asarray(wanted, np.float64))
        largest = float(np.where(np.isfinite(finite), finite, 0).max())
    return bool((_distance(found, wanted) > (bound * max(largest, 1.0) if found.dtype.kind == "f" else 0.0)).any())


#: Operators whose gradients are shares of one by equal elements, which are rounded.
_SHARING: Final = ("amax(", "amin(", ".max()", ".min()")


def bound_of(program: Program) -> float:
    """Return the relative error that rounding in another order may cause."""
    text = f"{program.text()}{program.arguments}{program.captured}"
    if program.bits and program.kind == "few" and not any(name in text for name in _SHARING):
        return 0.0
    return max([ROUNDING[name] for name in ("float16", "bfloat16", "float32") if name in text or name == "float32"])


def _compare(found: Seen, wanted: Seen, bound: float) -> tuple[str, str]:
    """Return the name of the first thing that differs, and how; empty if nothing does."""
    for name in {"raised": "", **wanted.facts, **found.facts}:
        if found.facts.get(name) != wanted.facts.get(name):
            return "", f"{name}: {found.facts.get(name)}\n   expected {wanted.facts.get(name)}"
    for name, value in wanted.values.items():
        if _far(found.values[name], value, 0.0 if name == "random" else bound):
            return name, f"{name}: {found.values[name].tolist()}\n   expected {value.tolist()}"
    return "", ""


@contextmanager
def strict() -> Iterator[None]:
    """Make failures of the compiler raise, and let graphs serve their first calls: they are compared here.

    Otherwise, calls run the function behind the first run of a graph, and drop it if it is wrong.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"), patch.object(compiled_function, "CHECKED_BYTES", -1):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="the compiler failed")
        warnings.filterwarnings("error", message="a graph of ")
        yield


def difference_of(program: Program, calls: Sequence[Call] | None = None) -> Verdict:
    """Compare compiled calls of a program with plain ones."""
    with strict():
        return _difference(program, calls_of(program) if calls is None else calls)


def _difference(program: Program, calls: Sequence[Call]) -> Verdict:
    plain, run = World(program), World(program, compiled=True)
    verdict = Verdict()
    for number, call in enumerate([*calls, None]):
        wanted = plain.last() if call is None else plain.run(number, call)
        try:
            found = run.last() if call is None else run.run(number, call)
        except Warning as error:
            verdict.found = f"call {number}: {error}"
            break
        bound = bound_of(program)
        if call is not None and call.early >= 0 and "backward raised" not in found.facts and (
                wanted.facts.get("backward raised") == "AutogradError"):
            verdict.found = _differs_undisturbed(program, calls, number, found)
            break  # gradients of further calls are sums with these
        name, text = _compare(found, wanted, bound)
        if text and name and program.kind == "tame" and _is_unstable(program, calls, number, name, found, wanted):
            break  # nothing can be told from calls after this one
        if text:
            verdict.found = f"call {number}: {text}"
            break
    compiled = run.function._compiled
    verdict.served = sum(x.hits for x in compiled.variants)
    verdict.reasons = tuple(compiled.reasons)
    if not verdict.found and any("compiler failed" in reason for reason in verdict.reasons):
        verdict.found = str(verdict.reasons)
    return verdict


def _differs_undisturbed(program: Program, calls: Sequence[Call], number: int, found: Seen) -> str:
    """Compare gradients of a call whose plain backward pass refuses a change of what it saved.

    Those of a graph may need other tensors; then they are what they are without the change.
    """
    world, seen = World(program), Seen()
    for k, call in enumerate(calls[:number + 1]):
        seen = world.run(k, replace(call, early=-1) if k == number else call)
    for name, value in seen.values.items():
        if name.endswith(".grad") and _far(found.values.get(name, np.array("none")), value, bound_of(program)):
            return f"call {number}: {name}: {found.values.get(name)}\n   expected {value}, or the plain pass's error"
    return ""


def _is_unstable(program: Program, calls: Sequence[Call], number: int, name: str, found: Seen, wanted: Seen) -> bool:
    """Whether a change of the inputs as small as rounding changes a value as much."""
    for seed in range(2):
        world, seen = World(program, moved=(1e-6, 1e-5)[seed]), Seen()
        for k, call in enumerate([*calls, None][:number + 1]):
            seen = world.last() if call is None else world.run(k, call)
        value = seen.values.get(name)
        if value is None or value.shape != wanted.values[name].shape:
            return True
        moved, observed = _distance(value, wanted.values[name]), _distance(found.values[name], wanted.values[name])
        if moved.max(initial=0) >= observed.max(initial=0):
            return True
    return False


def shrink(program: Program) -> Program:
    """Return a program with fewer lines that differs as well."""
    smallest, calls = program, calls_of(program)
    for name in [f"x{k}" for k in range(100)]:
        candidate = replace(smallest, returned=name)
        if name in smallest.returned and smallest.returned != name and _still_differs(candidate, calls):
            smallest = candidate
            break
    for k in reversed(range(len(program.lines))):
        candidate = replace(smallest, lines=[*smallest.lines[:k], *smallest.lines[k + 1:]])
        if _still_differs(candidate, calls):
            smallest = candidate
    return smallest


def _still_differs(program: Program, calls: Sequence[Call]) -> bool:
    if "raised" in World(program).run(0, calls[0]).facts:
        return False
    return bool(difference_of(program, calls).found)
