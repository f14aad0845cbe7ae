"""Composite operators: functions over public operators.

Devices and autograd act on the operators that they call; ``host_path`` makes a shortcut for keys for which one kernel
call computes the same.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any, Final, Literal, TypeVar

from tensocket_core.device import BY_KEY, DeviceState
from tensocket_core.dispatch.conjugation import resolving
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.layers import record
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.operator import HostPath
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, LAZY
from tensocket_core.launch.path import Entry, HostKernel, LadderOperator, Path, Replay, Signature, climb
from tensocket_plugins.contract.dtypes import DType

from ..unrolled.fronts import unrolled
from ..unrolled.recomputed import Recomputed, cut, recomputed_derivative, recorded_at_once
from .noted_views import NotedViews

F = TypeVar("F", bound=Callable[..., Any])

_VARIADIC: Final = 0x04


class _ReplayByPosition(Replay):
    """The replay of a function with arguments that have no position: keyword-only and variadic ones."""

    def build(self, operator: LadderOperator, call: Signature, next_path: Callable[..., Any]
              ) -> Callable[..., Any] | None:
        """Return a closure that gives these arguments a position."""
        def run_next(*args: Any) -> Any:
            return operator.invoke(next_path, args)

        made = super().build(operator, call, run_next)
        if made is None or made is run_next:
            return None
        replay = made
        if not operator.variadic:
            return lambda *args, **named: replay(*args, *named.values())
        at, known = operator.schema.names.index(operator.variadic), ()

        def run_variadic(*args: Any, **named: Any) -> Any:
            nonlocal known
            values, last = args[at:], known
            if len(values) == len(last) and all(map(is_, values, last)):
                values = last  # replays compare the tuple by identity
            else:
                known = values
            return replay(*args[:at], values, *named.values())

        return run_variadic


class _NamedReplay:
    """The replay of a function whose results may have names: recordings make plain tuples.

    Args:
        path: The replay of the function.
    """

    name = Replay.name

    def __init__(self, path: Path) -> None:
        self._path = path

    def build(self, operator: LadderOperator, call: Signature, next_path: Callable[..., Any]
              ) -> Callable[..., Any] | None:
        """Return a closure that gives results the class that ``next_path`` gives them."""
        known: Any = None
        mixed = False

        def run_next(*args: Any, **named: Any) -> Any:
            nonlocal known, mixed
            made = next_path(*args, **named)
            if not isinstance(made, tuple):
                return made
            known = known or type(made)
            mixed = mixed or known is not type(made)
            return tuple(made)

        replay = self._path.build(operator, call, run_next)
        if replay is None or replay is run_next:
            return None

        def run(*args: Any, **named: Any) -> Any:
            made = None if mixed else replay(*args, **named)
            if mixed:  # a function with several classes of results, of which plain tuples do not tell
                return next_path(*args, **named)
            return known._make(made) if type(made) is tuple and known is not tuple else made

        return run


class Unrolled:
    """The operators of an earlier call with the same layouts and arguments, without the function between them."""

    name = "unrolled"

    def build(self, operator: LadderOperator, call: Signature, next_path: Callable[..., Any]
              ) -> Callable[..., Any] | None:
        """Return the closure that unrolls calls."""
        return unrolled(operator, next_path) if isinstance(operator, Composite) else None


#: The ladder of composites: a replay is one call, an unrolled call several.
COMPOSITE_LADDER: Final[tuple[Path, ...]] = (Replay(), Entry(), HostKernel(), Unrolled())


class Composite(LadderOperator):
    """An operator that is a function over others.

    Attributes:
        body: The function.
        host_path: Makes a shortcut for keys of one host-resident device, including keys that autograd records.
        replayable: Whether it only launches kernels; see ``launch.replay``.
        lazy: Whether the body takes lazily conjugated tensors as they are; other bodies receive resolved ones.
        variadic: Name of the parameter that collects positional arguments.
        recomputed: The tensors that small calls save as one node; see the module ``recomputed``.
        gradients: The derivative of such calls.
    """

    kind = "composite"
    paths = COMPOSITE_LADDER

    def __init__(self, schema: str, body: Callable[..., Any], *, host_path: HostPath | None = None,
                 replayable: bool = False, by_layout: bool | Literal["owners"] = True,
                 lazy: bool = False, recomputed: Recomputed | None = None, **record: Any) -> None:
        super().__init__(schema, body.__doc__ or "", **record)
        self.body: Callable[..., Any] = body
        self.host_path = host_path
        self.replayable = replayable
        if self.makes_views and by_layout:
            self.paths = (NotedViews(by_layout == "owners"), *self.paths)
        self.lazy = lazy or self.makes_views
        code = body.__code__
        self.positional = code.co_argcount
        self.variadic = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if (
            code.co_flags & _VARIADIC) else ""
        self.recomputed = recomputed
        self.gradients = None if recomputed is None else recomputed_derivative(self, recomputed)
        if replayable and (code.co_kwonlyargcount or self.variadic):
            self.paths = tuple([_ReplayByPosition() if type(path) is Replay else path for path in self.paths])
        if replayable and "any" in self.schema.results:
            self.paths = tuple([_NamedReplay(path) if isinstance(path, Replay) else path for path in self.paths])

    @property
    def is_open(self) -> bool:
        """Whether a call is nothing but the calls of the operators inside, for every key."""
        return self.derivative is None and self.host_path is None and not self.replayable and not self.overrides

    def _register(self) -> None:
        if self.name in COMPOSITES:
            raise ValueError(f"composite {self.name!r} is defined twice")
        COMPOSITES[self.name] = self

    def recorded(self, key: int) -> Callable[..., Any]:
        """Return the function: autograd records the calls inside it. With its own derivative, these run unrecorded."""
        if self.derivative is None:
            run = self._climb(key, self._body(key), (HostKernel(), Unrolled()))[0][1]
            if self.recomputed is None or self.gradients is None or key & LAZY or not key & DEVICE_MASK:
                return run
            return recorded_at_once(self, self.recomputed, self.gradients, key, run)
        unrolled = self._climb(key & ~AUTOGRAD, self._body(key), (Unrolled(),))[0][1]
        faster = tuple([path for path in self.paths if not isinstance(path, Unrolled)])
        return self.recording_calls(self._climb(key & ~AUTOGRAD, self.unrecorded(unrolled), faster)[0][1], key)

    def unrecorded(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``run`` without recording. It receives detached tensors, which costs less than a mode that every
        operator inside it reads; lists of tensors need the mode.
        """
        return _in_mode(run) if self.schema.lists else _detaching(run)

    def recording_calls(self, below: Callable[..., Any], key: int) -> Callable[..., Any]:
        """Return ``below``, which is called as the function is, with recording by the operator's own derivative."""
        if self.positional == len(self.schema.names):
            return record(self.derivative, below, key)
        # Recorders take all arguments by position.
        recorder = record(self.derivative, lambda *args: self.invoke(below, args), key)
        return lambda *args, **named: recorder(*args, *named.values())

    def resolve_device(self, key: int) -> Callable[..., Any]:
        """Return the function, for any device and any mixture of devices, or a shortcut."""
        return self._climb(key, self._body(key), self.paths)[0][1]

    def _body(self, key: int) -> Callable[..., Any]:
        return self.body if self.lazy or not key & LAZY else resolving(self.body, writes=self.schema.is_mutable)

    def _climb(self, key: int, function: Callable[..., Any], paths: tuple[Path, ...]
               ) -> list[tuple[str, Callable[..., Any]]]:
        """Return the paths over the function; only one device and tensors as they are in memory have faster ones."""
        state = BY_KEY.get(key & DEVICE_MASK)
        if key & LAZY or state is None:
            return [("compose", function)]
        return climb(self, Signature(key, state), function, paths)

    def rungs(self, key: int, state: DeviceState) -> list[tuple[str, Callable[..., Any]]]:
        """Return the paths for a key without layers."""
        return self._climb(key, self._body(key), self.paths)

    def how(self, state: DeviceState, dtype: DType) -> str:
        """Return the name of the fastest path; unrolled calls compute as the function does."""
        name = super().how(state, dtype)
        return self.how_composed(state, dtype) if name == Unrolled.name else name

    def how_composed(self, state: DeviceState, dtype: DType) -> str:
        """Return ``composite``: the operators that the function calls compute."""
        return "composite"

    def invoke(self, kernel: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call ``kernel`` with keyword-only arguments by name."""
        count = self.positional
        names = self.schema.names
        if self.variadic:
            at = names.index(self.variadic)
            return kernel(*args[:at], *args[at], **dict(zip(names[at + 1:], args[at + 1:], strict=True)))
        if count == len(names):
            return kernel(*args)
        return kernel(*args[:count], **dict(zip(names[count:], args[count:], strict=True)))

    def gathered(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        """Gather the values of the variadic parameter into one argument of the schema."""
        if not self.variadic:
            return super().gathered(args, keywords)
        at = self.schema.names.index(self.variadic)
        return (*args[:at], args[at:], *[keywords[name] for name in self.schema.names[at + 1:]])


def _detaching(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **named: run(*map(cut, args), **{name: cut(x) for name, x in named.items()})


def _in_mode(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_in_mode(*args: Any, **named: Any) -> Any:
        with thread_state(exclude=STATE.exclude | AUTOGRAD):
            return run(*args, **named)

    return run_in_mode


def composite(schema: str, *, method: bool | str = True, function: bool = True, namespace: str = "torch",
              aliases: tuple[str, ...] = (), dunder: tuple[str, ...] = (), host_path: HostPath | None = None,
              derivative: Derivative | None = None, replayable: bool = False,
              by_layout: bool | Literal["owners"] = True, lazy: bool = False, hands_by_name: bool = False,
              recomputed: Recomputed | None = None, kind: type[Composite] = Composite) -> Callable[[F], F]:
    """Register a function as an operator; its docstring is the operator's documentation.

    With ``by_layout``, views that the function returns follow from the layout of its first argument and from the other
    arguments: not from random numbers, or positions in memory. ``"owners"``: they do if the tensor owns its memory.
    With ``recomputed``, small calls are one node of the graph. ``kind`` is the operator's class.

    Raises:
        ValueError: The name is taken, or the schema's parameters are not the function's.
    """

    def register(run: F) -> F:
        item = kind(schema, run, method=method, function=function, namespace=namespace, aliases=aliases, dunder=dunder,
                    host_path=host_path, derivative=derivative, replayable=replayable, by_layout=by_layout, lazy=lazy,
                    hands_by_name=hands_by_name, recomputed=recomputed)
        code = run.__code__
        names = [*code.co_varnames[: code.co_argcount], *([item.variadic] if item.variadic else ()),
                 *code.co_varnames[code.co_argcount: code.co_argcount + code.co_kwonlyargcount]]
        if tuple(names) != item.schema.names:
            del COMPOSITES[item.name]
            raise ValueError(f"composite {item.name}: schema {item.schema.names}, function {tuple(names)}")
        return run

    return register
