"""The Autocast layer: operators receive their arguments in the precision that suits them best.

While autocast is on in a thread for a device type, the keys of its calls have ``AUTOCAST``; otherwise calls do not pay
for it. Conversions are recorded for gradients. Converted parameters are cached until the outermost block ends, so a
weight with several uses is converted once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError

from ..device import BY_KEY, DeviceState
from ..keys import AUTOCAST, AUTOGRAD, DEVICE_MASK, WRAPPER
from .call import key_of
from .modes import ACTIVE, INHERITED, STATE, run_with_modes, thread_state, update_state

if TYPE_CHECKING:
    from .operator import Operator

Rule = tuple[str, str | DType]

#: The low precision that is set for the device.
LOW: Final = "low"
#: float32.
WIDE: Final = "float32"
#: float32 if any argument is, else the low precision.
WIDEST: Final = "widest"
#: Results in float32: the operator, which has a parameter ``dtype``, computes them in it.
RESULT: Final = "float32 result"
#: Unchanged, also for the operators that it calls: composites of products here that PyTorch does not list.
AS_GIVEN: Final = "as given"
#: Not allowed: intermediate values exceed the low precision's range.
REFUSED: Final = "refused"
#: Rules by operator name, for host-resident devices and for others.
_HOST: Final[dict[str, str]] = {}
_ACCELERATOR: Final[dict[str, str]] = {}


def use_rules(host: dict[str, str], accelerator: dict[str, str]) -> None:
    """Set the rules of operators by their names; the operators package calls this at import."""
    _HOST.update(host)
    _ACCELERATOR.update(accelerator)


class _Precision(threading.local):
    """Autocast settings of a thread.

    Attributes:
        enabled: Low precisions of the device types for which autocast is on.
        chosen: Low precisions that were set, by device type, whether autocast is on or not.
        caching: Whether converted parameters are cached.
        depth: Number of enclosing blocks.
        converted: Converted parameters by identity: the parameter, its version, and the result.
    """

    def __init__(self) -> None:
        self.enabled: dict[str, DType] = {}
        self.chosen: dict[str, DType] = {}
        self.caching = True
        self.depth = 0
        self.converted: dict[tuple[int, bool, DType], tuple[weakref.ref[Any], int, Any]] = {}


PRECISION: Final = _Precision()
INHERITED.append(PRECISION)
#: Low precisions of operators defined outside, by record and device type.
REGISTERED: Final[weakref.WeakKeyDictionary[Operator, dict[str, DType]]] = weakref.WeakKeyDictionary()


def switch(kind: str, dtype: DType | None) -> None:
    """Turn autocast on for a device type in this thread with a low precision, or off with None."""
    enabled = {**PRECISION.enabled}
    enabled.pop(kind, None)
    if dtype is not None:
        enabled[kind] = dtype
    _enable(enabled)


def _enable(enabled: dict[str, DType]) -> None:
    PRECISION.enabled = enabled
    wanted = STATE.include | AUTOCAST if enabled else STATE.include & ~AUTOCAST
    if wanted != STATE.include:
        update_state(include=wanted)


def choices() -> tuple[dict[str, DType], bool]:
    """Return this thread's settings, for ``chosen``."""
    return PRECISION.enabled, PRECISION.caching


@contextmanager
def chosen(enabled: dict[str, DType], caching: bool) -> Iterator[None]:
    """Use the result of ``choices``, possibly from another thread, within a block."""
    before = choices()
    _enable(enabled)
    PRECISION.caching = caching
    PRECISION.depth += 1
    try:
        yield
    finally:
        PRECISION.depth -= 1
        if not PRECISION.depth:
            forget_conversions()
        _enable(before[0])
        PRECISION.caching = before[1]


def forget_conversions() -> None:
    """Clear this thread's cache of converted parameters."""
    PRECISION.converted.clear()


# ------------------------------------------------------------------------------------------------------------ rules


def rules_of(operator: Operator, key: int) -> list[Rule]:
    """Return the device types in a key with the operator's rule; empty if the operator runs unchanged."""
    found: list[Rule] = []
    for state in _entries(key):
        kind = state.device.type
        rule = REGISTERED.get(operator, {}).get(kind) or _table(state).get(operator.name)
        if rule is not None and (rule is not RESULT or "dtype" in operator.schema.names):
            found.append((kind, rule))
    return found


def _entries(key: int) -> Iterable[DeviceState]:
    bits = key & DEVICE_MASK
    return [state for bit, state in BY_KEY.items() if bit & bits]


def _table(state: DeviceState) -> dict[str, str]:
    return _HOST if state.runtime.profile.host_resident else _ACCELERATOR


def layer(operator: Operator, key: int) -> Callable[..., Any]:
    """Return an operator's closure for a key with ``AUTOCAST``."""
    below, rules = operator.below(key & ~AUTOCAST), rules_of(operator, key)
    if not rules:
        return below

    def run(*args: Any, **keywords: Any) -> Any:
        for kind, rule in rules:
            dtype = PRECISION.enabled.get(kind)
            if dtype is not None:
                given = operator.gathered(args, keywords) if keywords or operator.variadic else args
                return _run(operator, given, kind, rule, dtype)
        return below(*args, **keywords)

    return run


def applied(operator: Operator, args: tuple[Any, ...]) -> Callable[[], Any] | None:
    """Return the call with converted arguments, for subclasses and transforms; None if none needs conversion."""
    if STATE.include & ~STATE.exclude & AUTOCAST:
        for kind, rule in rules_of(operator, key_of(operator, args)):
            dtype = PRECISION.enabled.get(kind)
            if dtype is not None:
                return lambda: _run(operator, args, kind, rule, dtype)
    return None


def _run(operator: Operator, args: tuple[Any, ...], kind: str, rule: str | DType, low: DType) -> Any:
    """Call an operator again, below this layer, with arguments converted by its rule."""
    if rule is REFUSED:
        raise ArgumentError(operator.name, f"a call under autocast({kind!r})",
                            "its logarithms leave the range of a low precision",
                            f"use {operator.name}_with_logits, or leave autocast for this call")
    if rule is RESULT:
        args = _with_dtype(operator, args, kind)
    elif rule is not AS_GIVEN:
        to = low if rule is LOW else dtypes.float32 if rule is WIDE else (
            rule if isinstance(rule, DType) else _widest(args, kind, low))
        args = tuple([_converted(value, kind, to, low) for value in args])
    with thread_state(include=STATE.include & ~AUTOCAST):
        key = key_of(operator, args)
        return run_with_modes(operator, key, args) if ACTIVE else operator.invoke(operator.below(key), args)


def _with_dtype(operator: Operator, args: tuple[Any, ...], kind: str) -> tuple[Any, ...]:
    at = operator.schema.names.index("dtype")
    if args[at] is not None or not _eligible(args[0], kind):
        return args
    return (*args[:at], dtypes.float32, *args[at + 1:])


# ------------------------------------------------------------------------------------------------------ conversions


def _eligible(value: Any, kind: str) -> bool:
    """Whether autocast converts a value; not float64, other dtypes than floats, or tensors of other devices."""
    return (hasattr(value, "_key") and value.dtype.is_floating_point and value.dtype is not dtypes.float64
            and bool(value.device.type == kind))


def _eligible_dtypes(values: Iterable[Any], kind: str) -> Iterable[DType]:
    for value in values:
        if type(value) in (tuple, list):
            yield from _eligible_dtypes(value, kind)
        elif _eligible(value, kind):
            yield value.dtype


def _widest(args: tuple[Any, ...], kind: str, low: DType) -> DType:
    return dtypes.float32 if any(dtype is not low for dtype in _eligible_dtypes(args, kind)) else low


def _converted(value: Any, kind: str, to: DType, low: DType) -> Any:
    if type(value) in (tuple, list):
        return type(value)([_converted(item, kind, to, low) for item in value])
    if not _eligible(value, kind) or value.dtype is to:
        return value
    leaf = value._key & (AUTOGRAD | WRAPPER) == AUTOGRAD and value._grad_fn is None and value._base is None
    if leaf and PRECISION.caching and to is low and value.dtype is dtypes.float32:
        return _kept(value, to)
    return value.to(to)


def _kept(parameter: Any, to: DType) -> Any:
    """Return a parameter's conversion, from the cache if the parameter has not changed since."""
    place = id(parameter), STATE.grad_enabled, to
    counter = parameter._version_counter
    version = 0 if counter is None else counter[0]
    known = PRECISION.converted.get(place)
    if known is None or known[0]() is not parameter or known[1] != version:
        known = weakref.ref(parameter), version, parameter.to(to)
        PRECISION.converted[place] = known
    return known[2]
