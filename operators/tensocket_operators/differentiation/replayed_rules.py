"""Rules of derivatives as replays: the launches of an earlier gradient of the same layouts, as one call.

A rule is a function over public operators, which cost a table lookup, a tensor and a launch each. On a few elements,
that is all of its time. Guard: the pass records nothing, and the gradient is small (``launch.replay`` has the others).
Work: the rule's launches. All other calls run the rule itself; so do rules whose results launches alone do not make.

While a call is recorded, all operators of the rule launch kernels (``unrolled.kernels``), whose sums may round
otherwise than NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final

from tensocket_core.device import BY_KEY
from tensocket_core.dispatch.derivative import QUICK_RULES, RESULT, RESULTS, WANTED, Derivative
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, LAZY
from tensocket_core.launch.replay import CALLS, DEVICE_ELEMENTS, ELEMENTS, replayed
from tensocket_plugins.contract.launch_recorder import is_recording
from tensocket_plugins.kit.bounded import BoundedCache

from ..unrolled.kernels import launching_kernels

Rule = Callable[..., Any]

#: Calls of a rule with tensors of the same keys before launches are recorded: kernels may have to be compiled then,
#: which takes as long as some thousand calls, and most programs call few rules often.
PATIENCE = 50
#: Seconds for which a call counts as one; a slower call counts as several, since its replay saves as much more, but at
#: most as so many, since the first calls compile operators.
_CALL_SECONDS: Final = 20e-6
_MOST_CALLS: Final = 10
_INTEGERS: Final = frozenset({int})
#: Tuples of integers, and of bools, by their values: replays compare arguments by identity. They are emptied when full.
_SIZES: Final[BoundedCache[tuple[int, ...], tuple[int, ...]]] = BoundedCache(1024)
_EDGES: Final[BoundedCache[tuple[bool, ...], tuple[bool, ...]]] = BoundedCache(256)


def replayed_rules(derivative: Derivative) -> tuple[Rule | None, ...]:
    """Return a derivative's rules for passes that record nothing; small calls are replayed."""
    if derivative.lists:
        return derivative.functions
    positions = derivative.saved_positions
    return tuple([None if rule is None else _ReplayedRule(derivative, rule, [positions[k] for k in picks]).run
                  for rule, picks in zip(derivative.functions, derivative.picks, strict=True)])


def _kept(cache: BoundedCache[Any, Any], value: Any) -> Any:
    """Return the object of a cache that is equal to a value, which it may become."""
    found = cache.get(value)
    if found is None:
        found = cache[value] = value
    return found


class _ReplayedRule:
    """A rule with its replays, which depend on nothing but its arguments.

    Args:
        derivative: The derivative.
        rule: One of its rules.
        saved: Positions of the values that the rule takes, as in ``Derivative.saved_positions``.
    """

    def __init__(self, derivative: Derivative, rule: Rule, saved: Sequence[int]) -> None:
        self._rule = rule
        self._many, self._joint = derivative.multiple, derivative.joint is not None
        self._tensors = [k for k, at in enumerate(saved) if at == RESULT or at <= RESULTS or at in derivative.tensors]
        self._wanted = saved.index(WANTED) if self._joint and WANTED in saved else None
        self._tuples = [k for k, at in enumerate(saved) if k not in self._tensors and at != WANTED]
        #: By the number of gradients, the positions of operands that are numbers, and the keys of all tensors; bounded
        #: by their combinations.
        self._replays: dict[tuple[int, int, int], Rule] = {}
        self._calls: dict[tuple[int, int, int], float] = {}

    def run(self, grad: Any, *saved: Any) -> Any:
        """Return what the rule returns."""
        grads = grad if self._many else (grad,)
        if grads[0] is None:
            return self._rule(grad, *saved)
        size, resident = grads[0]._array.size, grads[0]._device_state.runtime.profile.host_resident
        if size > (ELEMENTS if resident else DEVICE_ELEMENTS):
            return self._rule(grad, *saved)
        key = numbers = 0
        for x in grads:
            if x is not None:
                key |= x._key
        for k in self._tensors:
            own = getattr(saved[k], "_key", None)
            if own is not None:
                key |= own
            elif saved[k] is not None:
                numbers |= 1 << k
        place = len(grads), numbers, key
        replay = self._replays.get(place)
        if replay is None:
            calls = self._calls.get(place, 0.0)
            if calls < (PATIENCE if resident else CALLS):  # devices have compiled these kernels already
                begin = perf_counter()
                made = self._rule(grad, *saved)
                self._calls[place] = calls + max(1.0, min((perf_counter() - begin) / _CALL_SECONDS, _MOST_CALLS))
                return made
            replay = self._replays[place] = self._make(len(grads), numbers, key, len(saved))
        given = list(saved)
        for k in self._tuples:
            if type(saved[k]) is tuple and {*map(type, saved[k])} <= _INTEGERS:
                given[k] = _kept(_SIZES, saved[k])
        if self._wanted is not None:
            given[self._wanted] = _kept(_EDGES, saved[self._wanted])
        made = replay(*grads, *given)
        if self._wanted is None or len(made) == len(saved[self._wanted]):
            return made
        given = iter(made)
        return [next(given) if wanted else None for wanted in saved[self._wanted]]

    def _make(self, count: int, numbers: int, key: int, saved: int) -> Rule:
        """Return the closure for so many gradients and saved values, of which some operands are numbers."""
        def compute(*args: Any) -> Any:
            grads = args[:count]
            made = self._rule(grads if self._many else grads[0], *args[count:])
            if not self._joint:
                return made
            present = tuple([x for x in made if x is not None])
            whole = self._wanted is None or [x is not None for x in made] != [*args[count + self._wanted]]
            return tuple(made) if whole else present

        def compute_or_record(*args: Any) -> Any:
            if not is_recording():
                return compute(*args)
            with launching_kernels(marks=False):
                return compute(*args)

        state = BY_KEY.get(key & DEVICE_MASK)
        if state is None or key & (LAZY | AUTOGRAD):
            return compute
        tensors = [*range(count), *[count + k for k in self._tensors if not numbers >> k & 1]]
        return replayed(state, tensors, count + saved, compute_or_record, wants_kernels=True, rounds_freely=True)


QUICK_RULES.append(replayed_rules)
