"""The recorder of a run: the public operators that it calls, with the sizes that their arguments follow from."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Final

from tensocket.errors import ExportError
from tensocket_compiler.backends.reads import ReadObserver
from tensocket_compiler.capture.recorder import RUNTIME, caller
from tensocket_compiler.capture.shapes import reason_of_shapes
from tensocket_core.autograd.engine import current_pass
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.protocol import TorchDispatchMode
from tensocket_core.geometry import memory_of
from tensocket_core.keys import AUTOGRAD
from tensocket_operators import Tensor
from tensocket_operators.differentiation.function import INTERCEPTORS
from tensocket_operators.random.positions import positions
from tensocket_plugins.contract.drafts import drafting
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS, unobserved

from .module_calls import Frame, ModuleCalls
from .public_functions import PublicFunctions, has_tensor, plain, tensors_in
from .symbols import SymNotes, plain_number
from .watched_sizes import symbolic_sizes

#: Factories whose results are the elements that they get.
LITERALS: Final = frozenset({"tensor", "as_tensor", "asarray", "from_numpy", "new_tensor", "frombuffer"})
#: Moves between devices, whose results have the shape of their argument.
_MOVES: Final = frozenset({"cpu", "cuda", "to"})


class StopExport(BaseException):  # programs must not catch it as an error of theirs
    """Ends a run that has no place in a graph.

    Attributes:
        error: The error that the caller of ``export`` gets.
    """

    def __init__(self, error: ExportError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a tensor in a recorded call.

    Attributes:
        number: Number of the tensor in the run.
    """

    number: int


@dataclass(slots=True)
class Call:
    """A recorded call.

    Attributes:
        function: The operator's record.
        args: Positional arguments, slots in place of tensors.
        kwargs: Keyword arguments.
        result: The result, slots in place of tensors.
        symbols: The symbolic numbers among the arguments that the program gave.
        place: Where the program makes the call.
        trace: The program's frames, as tracebacks show them.
        writes: Whether it modifies an argument.
        stack: The calls of modules that make it, from the outermost one.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    symbols: list[Any]
    place: str
    trace: str
    writes: bool
    stack: tuple[Frame, ...] = ()


@dataclass(slots=True)
class Run:
    """A recorded run.

    Attributes:
        calls: The calls, in order.
        tensors: The tensors, by number.
        literals: Numbers of the tensors that the program makes of elements.
        inputs: Number of tensors that are inputs; they have the first numbers.
        notes: The comparisons of sizes.
        result: The value that the function returned.
        assigned: Tensors that the function assigned to buffers, by path.
        modules: The calls of modules; None if they are not noted.
        mutated: For inputs that functional graphs return in place of writing to them, the number of the new tensor.
    """

    calls: list[Call] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)
    literals: list[int] = field(default_factory=list)
    inputs: int = 0
    notes: SymNotes = field(default_factory=lambda: SymNotes(caller))
    result: Any = None
    assigned: dict[str, Any] = field(default_factory=dict)
    modules: ModuleCalls | None = None
    mutated: dict[int, int] = field(default_factory=dict)

    @property
    def stack(self) -> tuple[Frame, ...]:
        """The calls of modules that are running."""
        return () if self.modules is None else self.modules.stack

    def shape(self, number: int) -> tuple[int, ...]:
        """Return the plain shape that a tensor had."""
        return tuple(self.tensors[number]._array.shape)


class ExportRecorder(TorchDispatchMode, ReadObserver):
    """Mode that records the operators which its block calls; composite ones stay whole.

    Args:
        inputs: The tensors that the graph gets as inputs: those that the module holds, then the arguments.
        sources: Number of tensors that the module holds.
        preserve: Sees each tensor that a call is about to write.
        symbolic: Whether sizes that the program reads are symbolic.
        traces: Whether calls have the program's frames.
        modules: Notes of the calls of modules.
    """

    #: Tells the runtime and programs that an export runs.
    exports = True

    def __init__(self, inputs: list[Any], sources: int, preserve: Callable[[Any], None], *, symbolic: bool = False,
                 traces: bool = False, modules: ModuleCalls | None = None) -> None:
        super().__init__()
        self.run = Run(tensors=list(inputs), inputs=len(inputs), modules=modules)
        self.depth = 0
        self._sources = sources
        self._numbers = {id(x): number for number, x in reversed(list(enumerate(inputs)))}
        self._preserve, self._symbolic, self._traces = preserve, symbolic, traces
        #: The symbolic numbers among the arguments of the public function that runs.
        self.symbols: list[Any] = []
        self._grad = True
        self._running = False
        #: Positions of the random streams behind the last call.
        self._positions: Any = None
        self.functions = PublicFunctions(self)

    # ---- tensors

    def number_of(self, tensor: Any) -> int | None:
        """Return the number of a tensor; None for one that the run has not used."""
        return self._numbers.get(id(tensor))

    def slot(self, tensor: Any) -> Slot:
        """Return the slot of a tensor; the first use of one from before the run makes a constant."""
        number = self._numbers.get(id(tensor))
        if number is None:
            self._check_constant(tensor)
            return self._know(tensor)
        return Slot(number)

    def has_used(self, tensor: Any) -> bool:
        """Whether a call got or made a tensor."""
        return id(tensor) in self._numbers

    def _check_constant(self, tensor: Any) -> None:
        """Refuse a tensor on the memory of one that the run made, or got as an argument: no operator made it."""
        memory = memory_of(tensor._array)
        if any(isinstance(x, Tensor) and memory_of(x._array) is memory for x in self.run.tensors[self._sources:]):
            self._stop("a view that no operator made", "the graph has no place for it", "use detach() or view()")

    def _know(self, tensor: Any) -> Slot:
        number = self._numbers[id(tensor)] = len(self.run.tensors)
        self.run.tensors.append(tensor)
        return Slot(number)

    def slots(self, value: Any, make: Callable[[Any], Slot] | None = None) -> Any:
        """Return arguments or results with slots in place of tensors, and plain numbers."""
        make = make or self.slot
        if isinstance(value, Tensor):
            return make(value)
        if isinstance(value, dict):
            return {name: self.slots(x, make) for name, x in value.items()}
        if isinstance(value, (tuple, list)):
            items = [self.slots(x, make) for x in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, slice):
            return slice(*[self.slots(x, make) for x in (value.start, value.stop, value.step)])
        return plain_number(value)

    def _stand_in(self, leaf: Any) -> Any:
        """Return the slot of a tensor that the run has used, or the leaf itself."""
        number = self.number_of(leaf) if isinstance(leaf, Tensor) else None
        return leaf if number is None else Slot(number)

    def mutations(self) -> dict[int, int]:
        """Return the inputs that the graph returns in place of writing to them: none."""
        return {}

    # ---- the block

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls of a block.

        Raises:
            ExportError: The block does something that graphs do not have.
        """
        me = get_ident()
        self._grad = STATE.grad_enabled
        self._positions = positions()
        began = self._grad
        VALUE_OBSERVERS[me] = self

        def refuse_function(kind: Any, args: tuple[Any, ...]) -> Any:
            # A function inside of an operator is a part of its node.
            if get_ident() == me and STATE.grad_enabled and not self._running:
                self._stop(f"a call of {kind.__name__}.apply", "the graph has no place for the backward pass of an "
                          "autograd.Function", "export in a no_grad block, or compute with operators")
            return NotImplemented

        INTERCEPTORS.append(refuse_function)
        try:
            modules = self.run.modules
            noted = nullcontext() if modules is None else modules.noting(self._stand_in)
            with drafting(), noted, symbolic_sizes(self if self._symbolic else None), self, self.functions:
                yield
            self._note_grad(began)
            self._check_draws()
        except StopExport as stopped:
            raise stopped.error from None
        finally:
            INTERCEPTORS.remove(refuse_function)
            VALUE_OBSERVERS.pop(me, None)

    def keeps(self, operator: Any, args: tuple[Any, ...]) -> bool:
        """Whether a composite is one call: all are, except for reads by slices and integers."""
        return operator.name != "getitem" or has_tensor(args[1])

    def __torch_dispatch__(self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Run a call and record it."""
        kwargs = {name: plain(x) for name, x in (kwargs or {}).items()}
        args = plain(args)
        if current_pass() is not None:
            self._stop("a backward pass", "a graph of an exported program contains no backward pass",
                      "call backward() on the results of the exported program")
        if kwargs.get("generator") is not None:
            self._stop(f"{func.name} with a generator", "a graph of an exported program has no generators: its calls "
                       "draw from the default one", "leave the generator out, and seed the default one")
        schema = getattr(func, "schema", None)
        written = [] if schema is None else [
            x for p, value in zip(schema.parameters, args, strict=False) if p.mutated for x in tensors_in(value)]
        written += [args[0]] if func.name == "setitem" else []
        self._check_draws()
        before = STATE.before_dispatch
        self._note_grad(before is None or not before & AUTOGRAD)
        given, named = self.slots(args), self.slots(kwargs)
        for x in written:
            self._preserve(x)
        versions = [(x, x._version) for x in tensors_in([args, *kwargs.values()])]
        outer, self._running = self._running, True
        try:
            with unobserved():
                result = self._call(func, args, kwargs)
        finally:
            self._running = outer
        self._positions = positions()
        written += [x for x, version in versions if x._version != version]
        if not written:
            self._check_shapes(func, args, kwargs, result)
        if func.name in LITERALS:
            self.run.literals.append(self._know(result).number)
            return result
        self.run.calls.append(Call(func, given, named, None, list(self.symbols), caller(), self._trace(),
                                   bool(written), self.run.stack))
        self.run.calls[-1].result = None if func.name == "setitem" else self.slots(result, self._know)
        return result

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an operator; one without a derivative of its own records those of its parts."""
        before = STATE.before_dispatch
        if getattr(func, "body", None) is None or func.is_recorded or before is None:
            return func(*args, **kwargs)
        with thread_state(exclude=before):
            return func(*args, **kwargs)

    def _check_draws(self) -> None:
        """Refuse random numbers that no operator has drawn: they would be constants of the graph."""
        known, found = self._positions, positions()
        if any(found[key] != known[key] for key in found.keys() & known.keys()):
            self._stop("random numbers", "they are drawn outside of operators, so that the graph would have constants",
                       "draw them with operators, such as rand and bernoulli, in place of methods that fill a tensor")

    def run_whole(self, record: Any, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a public function that is one call of its operator, whatever its class of tensors makes of it."""
        self._note_grad(STATE.grad_enabled)
        given, named = self.slots(args), self.slots(kwargs)
        outer, self._running = self._running, True
        try:
            with thread_state(dispatch_modes=()), unobserved():
                result = func(*args, **kwargs)
        finally:
            self._running = outer
        self.run.calls.append(Call(record, given, named, self.slots(result, self._know), list(self.symbols), caller(),
                                   self._trace(), False, self.run.stack))
        self._positions = positions()
        return result

    def _check_shapes(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if func.name in LITERALS or func.name in _MOVES:
            return
        reason = reason_of_shapes(func, args, kwargs, list(tensors_in(result)))
        if reason is not None:
            self._stop(f"a call of {func.name}", f"sizes of results follow from sizes of arguments, but {reason}",
                      "compute this outside of the exported program, or with a mask")

    def _note_grad(self, enabled: bool) -> None:
        if enabled is not self._grad:
            self._grad = enabled
            self.run.calls.append(Call(set_grad_enabled, (enabled,), {}, None, [], caller(), self._trace(), True,
                                       self.run.stack))

    def _trace(self) -> str:
        if not self._traces:
            return ""
        frames = [x for x in traceback.extract_stack() if not any(f"/{name}/" in x.filename for name in RUNTIME)]
        return "".join(traceback.format_list(frames[-1:]))

    def _stop(self, given: str, rule: str, advice: str) -> None:
        """End the run.

        Raises:
            StopExport: Always.
        """
        raise StopExport(ExportError("export", f"{given}{caller()}", rule, advice))

    # ---- reads of elements, told by the runtime

    def note_read(self, source: Any) -> None:
        """End the run: the graph would hold what the elements are now."""
        self._stop("a read of elements of a tensor", "the graph must be the same for all elements, so that "
                  "item(), bool(tensor), float(tensor), tolist() and the like have no place in it",
                  "choose with torch.where, or pass the number as an argument")

    def run_apart(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a function that computes options."""
        return function(*args)


def set_grad_enabled(enabled: bool) -> None:
    """Turn the recording of gradients on or off, in graphs."""
    from tensocket._C import _set_grad_enabled

    _set_grad_enabled(enabled)
