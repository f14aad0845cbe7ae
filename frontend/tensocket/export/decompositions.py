"""Decomposing programs: operators as others, and writes as results (``ExportedProgram.run_decompositions``).

The program runs again, node by node, under a recorder that looks into operators. A write in place is recorded as the
operator that returns a new tensor; the tensor that the program goes on with stands for this one from there on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import Any, Final

from tensocket.errors import ExportError
from tensocket.fx.interpreter import Interpreter
from tensocket.utils._pytree import tree_flatten, tree_unflatten
from tensocket_compiler.capture.recorder import caller
from tensocket_compiler.graph.names import PUBLIC
from tensocket_core import device as Device
from tensocket_core.dispatch.modes import STATE, thread_state
from tensocket_core.dispatch.packets import AtenOverloads
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.formats import layout as Layout
from tensocket_core.formats import memory_format as MemoryFormat
from tensocket_core.geometry import memory_of
from tensocket_core.keys import AUTOGRAD
from tensocket_operators import Tensor
from tensocket_operators.graph_functions import FUNCTIONS_OF_GRAPHS
from tensocket_operators.namespaces import built_in
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.value_observers import unobserved

from .assembling import assemble
from .capture import Captured, capture
from .dynamic_shapes import Dim, ShapesCollection
from .exported_program import ExportedProgram, argument_names
from .functional_forms import formed, put
from .module_calls import CallOfModule, ModuleCalls
from .public_functions import leaves_in
from .recorder import Call, ExportRecorder, Slot, StopExport, set_grad_enabled
from .symbols import evaluate
from .values import GraphOperator
from .watched_sizes import current_recorder

#: The functional form of batch_norm in training.
_BATCH_NORM: Final = "_native_batch_norm_legit_functional"


#: Arguments of public operators, beside containers.
_PLAIN: Final = (Slot, bool, int, float, complex, str, DType, Device, Layout, MemoryFormat, type(None))


class CustomDecompTable(dict[Any, Callable[..., Any]]):
    """Decompositions by operator: at first, those of all composite operators into their parts.

    Delete an operator to preserve it, or set a function of its arguments in its place.
    """

    def __init__(self) -> None:
        super().__init__({record: record.body for record in COMPOSITES.values() if record.body is not None})

    def copy(self) -> CustomDecompTable:
        """Return a copy."""
        made = CustomDecompTable()
        made.clear()
        made.update(self)
        return made

    def materialize(self) -> dict[Any, Callable[..., Any]]:
        """Return the decompositions as a plain dict."""
        return dict(self)


def default_decompositions() -> CustomDecompTable:
    """Return the table of all composite operators."""
    return CustomDecompTable()


class _SharedMemory(StopExport):
    """Ends a run, or the decomposition of an operator, that writes to memory which several tensors share."""


class _NotPublic(Exception):
    """Ends the decomposition of an operator whose parts are not operators of ``torch.ops``."""


class DecomposingRecorder(ExportRecorder):
    """A recorder that looks into operators, and records writes as new tensors.

    Args:
        arguments: As for ``ExportRecorder``.
        table: Decompositions by operator.
        options: As for ``ExportRecorder``.
    """

    def __init__(self, *arguments: Any, table: Mapping[Any, Callable[..., Any]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._table = table
        #: Names of operators that stay whole.
        self._whole: set[str] = set()
        self._complete: tuple[Any, tuple[Any, ...]] = (None, ())
        #: Number of writes to memory, and to that of a tensor when it was last read or made, by identity.
        self._writes: dict[int, int] = {}
        self._seen: dict[int, int] = {}

    def keeps(self, operator: Any, args: tuple[Any, ...]) -> bool:
        """Whether a composite is one call; its complete arguments are noted for its decomposition."""
        self._complete = operator, args
        return super().keeps(operator, args)

    def __torch_dispatch__(self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Record a call, its decomposition, or the functional form of a write."""
        kwargs = kwargs or {}
        if func.name == "batch_norm" and args[3] is not None and args[5]:
            return self._batch_norm(args)
        schema = getattr(func, "schema", None)
        if func.name == "setitem" or (schema is not None and schema.parameters and schema.parameters[0].mutated):
            with self._again():
                value = self._functional(func, args, kwargs)
            self._replace(args[0], value)
            return None if func.name == "setitem" else args[0]
        if func in self._table and func.name not in self._whole:
            operator, complete = self._complete
            try:
                return self._parts(func, args, kwargs, complete if operator is func else args)
            except (StopExport, _NotPublic):
                # Parts of the operator read elements, write to shared memory or are not public: it stays whole.
                self._whole.add(func.name)
        return super().__torch_dispatch__(func, types, args, kwargs)

    @contextmanager
    def _again(self) -> Iterator[None]:
        """Record the operators of a block, gradients included."""
        before = STATE.before_dispatch
        with thread_state(exclude=STATE.exclude if before is None else before), self:
            yield

    def _parts(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], complete: tuple[Any, ...]) -> Any:
        """Record the decomposition of an operator; what it has recorded goes if it fails."""
        run = self.run
        calls, tensors, literals = len(run.calls), len(run.tensors), len(run.literals)
        tables = [(table, dict(table)) for table in (self._numbers, self._writes, self._seen)]
        decomposition = self._table[func]
        try:
            with self._again():
                result = (func.invoke(decomposition, complete) if decomposition is func.body
                          else decomposition(*args, **kwargs))
            if all(map(_is_public, run.calls[calls:])):
                return result
            raise _NotPublic
        except (StopExport, _NotPublic):
            del run.calls[calls:], run.tensors[tensors:], run.literals[literals:]
            for table, contents in tables:
                table.clear()
                table.update(contents)
            raise

    # ---- writes

    def _functional(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a write gives its first argument, as a new tensor of the same form."""
        target, name = args[0], func.name
        if name == "setitem":
            return put(target, args[1] if isinstance(args[1], tuple) else (args[1],), args[2])
        if name == "copy_":
            value = args[1]
        elif name in ("fill_", "zero_"):
            value = args[1] if name == "fill_" else 0
            value = value if isinstance(value, Tensor) else target.new_full((), value)
        else:
            record: Any = COMPOSITES.get(name.removesuffix("_")) or built_in(name.removesuffix("_"))
            if not name.endswith("_") or not callable(record) or not isinstance(target, Tensor):
                self._stop(f"a write of {name}", "a decomposed program returns new tensors in place of writing, and "
                           "the operator has no such form", "leave the program as it is, or use another operator")
            value = record(*args, **kwargs)
        return formed(value, target)

    def _batch_norm(self, args: tuple[Any, ...]) -> Any:
        """Record a normalisation that updates running statistics."""
        input, weight, bias, mean, var, training, momentum, eps = args[:8]
        given = (input, weight, bias, mean, var, training, momentum, eps)
        function = FUNCTIONS_OF_GRAPHS[_BATCH_NORM]
        before = STATE.before_dispatch
        self._note_grad(before is None or not before & AUTOGRAD)
        slots = self.slots(given)
        with thread_state(dispatch_modes=()), unobserved():
            result = function(*given)
        self.run.calls.append(Call(function, slots, {}, self.slots(result, self._know), list(self.symbols), "", "",
                                   False, self.run.stack))
        self._replace(mean, result[3])
        self._replace(var, result[4])
        return result[0]

    def _replace(self, target: Any, value: Any) -> None:
        """Let a tensor have new elements, and its number be that of the tensor that has them in the graph."""
        self._check(target)
        self._preserve(target)
        with thread_state(dispatch_modes=()), unobserved():
            target.detach().copy_(value.detach())
        memory = id(memory_of(target._array))
        self._writes[memory] = self._writes.get(memory, 0) + 1
        self._seen[id(target)] = self._writes[memory]
        number = self.number_of(value)
        assert number is not None
        self._numbers[id(target)] = number

    def _check(self, tensor: Any) -> None:
        """Refuse a tensor whose memory was written through another one: the graph has its old elements."""
        count = self._writes.get(id(memory_of(tensor._array)), 0)
        if self._seen.get(id(tensor), 0) != count:
            raise _SharedMemory(ExportError(
                "run_decompositions", f"a view whose memory was written through another tensor{caller()}", "a "
                "decomposed program has no memory that tensors share", "leave the program as it is, or write to whole "
                "tensors"))

    def slot(self, tensor: Any) -> Slot:
        """Return the slot of a tensor."""
        if self.number_of(tensor) is not None:
            self._check(tensor)
        return super().slot(tensor)

    def _know(self, tensor: Any) -> Slot:
        self._seen[id(tensor)] = self._writes.get(id(memory_of(tensor._array)), 0)
        return super()._know(tensor)

    def mutations(self) -> dict[int, int]:
        """Return the inputs whose elements changed, with the numbers of the tensors that have the new ones."""
        found = {}
        for number, tensor in enumerate(self.run.tensors[:self.run.inputs]):
            new = None if tensor is None else self.number_of(tensor)
            if new is not None and new >= self.run.inputs:
                self._check(tensor)
                found[number] = new
        return found


def _is_public(call: Call) -> bool:
    """Whether a call is of a public operator, with arguments that programs may write."""
    return is_named(call.function) and all(isinstance(x, _PLAIN) or x is ...
                                           for x in leaves_in([call.args, call.kwargs]))


@cache  # one entry for each operator
def is_named(function: Any) -> bool:
    """Whether a function has a public name; parts of composites that have their name do not count."""
    name = str(getattr(function, "name", ""))
    if function is set_grad_enabled or COMPOSITES.get(name) is function:
        return True
    return name not in COMPOSITES and PUBLIC.name_of(function) is not None


# ------------------------------------------------------------------------------------------------------------ programs


class _ReplayedCalls(ModuleCalls):
    """The calls of modules that a program's nodes name, while it runs again."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self.begin()

    def begin(self) -> None:
        """Begin anew."""
        self.stack = ()
        self.paths = [entry.fqn for entry in self._program.module_call_graph if entry.fqn]
        self.signatures = {}

    def noting(self, stand_in: Callable[[Any], Any]) -> AbstractContextManager[Any]:
        """Do nothing: the interpreter tells the calls."""
        self.stand_in = stand_in
        return nullcontext()

    def note_values(self, values: dict[str, Any]) -> None:
        """Note arguments and results of calls from the values of the nodes that signatures name."""
        for entry in self._program.module_call_graph:
            if entry.fqn and entry.signature is not None:
                inputs, outputs = ([values.get(x.name, getattr(x, "value", None)) for x in specs]
                                   for specs in (entry.signature.inputs, entry.signature.outputs))
                self.signatures[entry.fqn] = CallOfModule(inputs, entry.signature.in_spec, outputs,
                                                          entry.signature.out_spec)


class _Replayer(Interpreter):
    """Runs a program's module, and tells which call makes each node."""

    def __init__(self, module: Any, calls: _ReplayedCalls, names: set[str]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self._calls, self._names = calls, names
        self.values: dict[str, Any] = {}

    def run_node(self, n: Any) -> Any:
        """Run a node."""
        self._calls.stack = tuple(n.meta.get("nn_module_stack", {}).values())
        result = super().run_node(n)
        if n.meta.get("name_in_program") in self._names:
            self.values[n.meta["name_in_program"]] = self._calls.stand_in(result)
        return result


    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function; operators get plain numbers, and the recorder sees the symbolic ones, as in a program."""
        recorder = current_recorder()
        if recorder is None or not isinstance(target, AtenOverloads) or isinstance(target, GraphOperator):
            return super().call_function(target, args, kwargs)
        return recorder.functions.__torch_function__(target, (), args, kwargs)


def decompose(program: ExportedProgram, table: Mapping[Any, Callable[..., Any]] | None) -> ExportedProgram:
    """Return a program whose operators are decomposed, and which writes to nothing.

    Args:
        program: The program.
        table: Decompositions by operator; None stands for ``default_decompositions()``.

    Raises:
        ExportError: The program has no example inputs, or writes that have no such form.
    """
    if program.example_inputs is None:
        raise ExportError("run_decompositions", "a program without example inputs", "the program runs again",
                          "set program.example_inputs to (args, kwargs)")
    args, kwargs = program.example_inputs
    module: Any = program.module(check_guards=False)
    calls = _ReplayedCalls(program)
    names = {x.name for entry in program.module_call_graph if entry.fqn and entry.signature is not None
             for x in (*entry.signature.inputs, *entry.signature.outputs)}
    spec = program.call_spec

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        replayer = _Replayer(self, calls, names)
        found = replayer.run(*tree_flatten((args, kwargs))[0], enable_io_processing=False)
        calls.stack = ()
        calls.note_values(replayer.values)
        return tree_unflatten(found, spec.out_spec)

    count, names_of_arguments = spec.in_spec.children()[0].num_children, argument_names(program)
    kinds = [inspect.Parameter.POSITIONAL_OR_KEYWORD] * count + [inspect.Parameter.KEYWORD_ONLY] * len(kwargs)
    forward.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        inspect.Parameter(name, kind) for name, kind in zip(
            ["self", *names_of_arguments], [inspect.Parameter.POSITIONAL_OR_KEYWORD, *kinds], strict=True)])
    type(module).forward = forward
    shapes = _shapes(program, (args, kwargs))

    def captured_with(table: Mapping[Any, Callable[..., Any]]) -> Captured:
        return capture(module, args, dict(kwargs), shapes, calls, partial(DecomposingRecorder, table=table))

    captured = _with_default_table(program, captured_with) if table is None else captured_with(dict(table))
    made = assemble(captured, module, args, dict(kwargs), "ATEN")
    if program._guards is not None:
        made._guards = program._guards  # with comparisons that Python made
    return made


def _with_default_table(program: ExportedProgram, captured_with: Callable[[Any], Captured]) -> Captured:
    """Capture with all decompositions; operators whose parts depend on sizes that change stay whole."""
    table = default_decompositions()
    try:
        return captured_with(table)
    except ExportError:
        used = [x for x in dict.fromkeys(node.target for node in program.graph.nodes) if x in table]
    found = {}
    for operator in used:
        with suppress(ExportError):
            captured_with({operator: table[operator]})
            found[operator] = table[operator]
    return captured_with(found)


def _shapes(program: ExportedProgram, inputs: Any) -> ShapesCollection:
    """Return the dynamic shapes of the example inputs."""
    shapes = ShapesCollection()
    guards = program._guards
    if guards is None:
        return shapes
    leaves = tree_flatten(inputs)[0]
    dims = {root: Dim(root.symbol, min=root.low, max=None if root.high == float("inf") else int(root.high))
            for root in guards.roots}
    for (at, k), expression in guards.sizes.items():
        root = guards.root_of(expression)
        if k is None or root is None:
            raise ExportError("run_decompositions", f"the size {expression} of an input", "sizes are multiples of one "
                              "plus a constant", "export the program with other dims")
        offset = int(evaluate(expression, lambda root: 0))
        factor = int(evaluate(expression, lambda root: 1)) - offset
        dim: Any = dims[root] if factor == 1 else factor * dims[root]
        shapes[leaves[at]][k] = dim + offset if offset else dim
    return shapes
