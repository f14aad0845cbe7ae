"""The recorder behind ``trace``: calls of public functions become nodes of a graph."""

from __future__ import annotations

import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from types import SimpleNamespace
from typing import Any, Final

import tensocket
from tensocket.export.symbols import SizeOf, SymNotes, SymNumber, expression_of, plain_number
from tensocket.export.watched_sizes import symbolic_sizes
from tensocket.jit.annotations import from_value
from tensocket.jit.compiler.compiler import Compiler
from tensocket.jit.frontend import Place, Source
from tensocket.jit.graph import operators as ops
from tensocket.jit.graph import runtime
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import CompiledFunction, FunctionSchema
from tensocket.jit.graph.ir import Value
from tensocket.jit.markers import STATE
from tensocket.jit.tracer_warning import TracerWarning
from tensocket_compiler.capture.recorder import RUNTIME
from tensocket_core.dispatch.overrides import TorchFunctionMode
from tensocket_operators import Tensor
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS

#: The place of nodes that no line of the program stands for.
_NOWHERE: Final = Place(Source("", "<trace>"), 1, 0, 0)
_SIZE_OPERATORS: Final = {"add": "add", "sub": "sub", "mul": "mul", "floordiv": "floordiv", "mod": "remainder",
                          "truediv": "div", "pow": "pow", "neg": "neg", "lshift": "__lshift__",
                          "rshift": "__rshift__"}


class Tracer(TorchFunctionMode):
    """Mode that records the public functions which its block calls.

    Args:
        name: Name of the function.
        strict: Whether lists and dicts as results are refused.
    """

    def __init__(self, name: str, strict: bool = True) -> None:
        super().__init__()
        self.function = CompiledFunction(name, f"__torch__.{name}", FunctionSchema(name, [], t.TENSOR),
                                         source=Source("", "<trace>", name=name))
        self.compiler = Compiler(Source("", "<trace>"), _no_name, self.function)
        self.strict = strict
        self.depth = 0
        self.values: dict[int, Value] = {}
        self.alive: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.parameters: dict[int, tuple[Any, str]] = {}
        self.root: Value | None = None
        self.modules: dict[int, str] = {}
        self.paths: dict[str, Value] = {}
        self.run = SimpleNamespace(notes=SymNotes(lambda: ""))
        self.warned: set[str] = set()

    # ---- values

    def number_of(self, tensor: Any) -> int | None:
        """Return the number of a tensor that the trace knows, for the sizes that programs read."""
        if id(tensor) not in self.values and id(tensor) not in self.parameters:
            return None
        if id(tensor) not in self.numbers:
            self.numbers[id(tensor)] = len(self.alive)
            self.alive.append(tensor)
        return self.numbers[id(tensor)]

    def know(self, tensor: Any, value: Value) -> None:
        """Let a value stand for a tensor."""
        self.values[id(tensor)] = value
        self.alive.append(tensor)

    def set_root(self, module: Any, value: Value) -> None:
        """Let a value stand for a module, and paths below it for its parts."""
        self.root = value
        for path, part in module.named_modules(remove_duplicate=False):
            self.modules.setdefault(id(part), path)
            for name, tensor in [*part._parameters.items(), *part._buffers.items()]:
                if tensor is not None:
                    self.parameters.setdefault(id(tensor), (tensor, f"{path}.{name}" if path else name))

    def at_path(self, path: str) -> Value:
        """Return the value of a part of the module."""
        value = self.root
        assert value is not None
        for name in path.split(".") if path else ():
            kind = value.kind
            assert isinstance(kind, t.ClassType)
            value = self.compiler.node("prim::GetAttr", [value], kind.attributes[name], None, name, name=name)
        return value

    def value(self, thing: Any) -> Value:
        """Return the value that stands for an argument."""
        if isinstance(thing, SymNumber):
            return self.size(expression_of(thing))
        if isinstance(thing, Tensor):
            return self.tensor(thing)
        if isinstance(thing, tensocket.Size) and _holds(thing):
            return self.compiler.list_of([self.value(each) for each in thing], None, t.INT)
        if isinstance(thing, (list, tuple)) and not isinstance(thing, tensocket.Size) and _holds(thing):
            parts = [self.value(each) for each in thing]
            if isinstance(thing, tuple) and hasattr(thing, "_fields"):
                return self.compiler.node("prim::TupleConstruct", parts, self._tuple_type(thing, parts), None)
            kinds = t.unify_all([p.kind for p in parts])
            if isinstance(thing, list) and kinds is not None:
                return self.compiler.list_of(parts, None, kinds)
            return self.compiler.tuple_of(parts, None)
        if isinstance(thing, dict) and _holds(list(thing.values())):
            flat = [v for k, x in thing.items() for v in (self.compiler.constant(k, None, None), self.value(x))]
            return self.compiler.dict_of(flat, None, _NOWHERE)
        return self.constant(thing)

    def _tuple_type(self, thing: Any, parts: list[Value]) -> t.JitType:
        from tensocket.jit.annotations import qualified

        return t.TupleType([p.kind for p in parts], type(thing), qualified(type(thing)), thing._fields)

    def constant(self, thing: Any) -> Value:
        """Return a constant."""
        if isinstance(thing, tensocket.Size):
            thing = [plain_number(n) for n in thing]
        if isinstance(thing, (tuple, list)):
            parts = [self.constant(plain_number(each)) for each in thing]
            return (self.compiler.tuple_of(parts, None) if isinstance(thing, tuple) or not parts
                    else self.compiler.list_of(parts, None))
        thing = plain_number(thing)
        kind = from_value(thing)
        return self.compiler.constant(thing, t.ANY if kind is None else kind, None)

    def tensor(self, tensor: Any) -> Value:
        """Return the value of a tensor: one of the trace, of the module, or a constant."""
        if id(tensor) in self.values:
            return self.values[id(tensor)]
        if id(tensor) in self.parameters:
            return self.at_path(self.parameters[id(tensor)][1])
        if tensor.requires_grad:
            raise RuntimeError("[jit.trace] a tensor that requires a gradient and is no argument — Cannot insert a "
                               "Tensor that "
                               "requires grad as a constant. Consider making it a parameter or input, or detaching the "
                               "gradient — make it a parameter, an argument, or use detach()")
        value = self.compiler.constant(tensor, t.TENSOR, None)
        self.know(tensor, value)
        return value

    def size(self, expression: Any) -> Value:
        """Return the value of a size, or of what a program computed of sizes."""
        if isinstance(expression, SizeOf):
            tensor = self.tensor(self.alive[expression.tensor])
            dim = self.compiler.constant(expression.dim, t.INT, None)
            return self.compiler.node("aten::size", [tensor, dim], t.INT, None)
        if not isinstance(expression, tuple):
            return self.constant(expression)
        name, *parts = expression
        values = [self.size(part) for part in parts]
        if name in _SIZE_OPERATORS and len(values) == 2:
            return self.compiler.binary(_SIZE_OPERATORS[name], values[0], values[1], _NOWHERE)  # type: ignore[no-any-return]
        if name == "neg":
            return self.compiler.node("aten::neg", values, values[0].kind, None)
        if name in ("sym_int", "sym_float"):
            kind = t.INT if name == "sym_int" else t.FLOAT
            return self.compiler.node("aten::Int" if kind is t.INT else "aten::Float", values, kind, None)
        kind = t.INT if name in ("floor", "ceil") else values[0].kind
        op = {"floor": "aten::math_floor", "ceil": "aten::math_ceil", "abs": "prim::abs", "round": "aten::round_"}[name]
        import math

        callee = getattr(math, name, None) if op.startswith("aten::math") else None
        return self.compiler.node(op, values, kind, None, callee=callee)

    # ---- calls

    def __torch_function__(self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Run a call and record it."""
        kwargs = kwargs or {}
        if self.depth or STATE.tracer is not self:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "").removeprefix("method_")
        before = VALUE_OBSERVERS.pop(get_ident(), None)
        self.depth += 1
        try:
            result = func(*_plain(args), **_plain(kwargs))
        finally:
            self.depth -= 1
            if before is not None:
                VALUE_OBSERVERS[get_ident()] = before
        if name in _READS:
            return result
        self.record(name, func, args, kwargs, result)
        return result

    def record(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Add the node of a call."""
        if name in ("tensor", "as_tensor", "from_numpy", "asarray") and not _holds([*args, *kwargs.values()]):
            self.know(result, self.compiler.constant(result.detach().clone(), t.TENSOR, None))
            return
        if name == "__getitem__":
            self.know(result, self.part(self.tensor(args[0]), args[0].dim(), args[1]))
            return
        if name == "__setitem__":
            self.write(args[0], args[1], args[2])
            return
        kwargs = {key: value for key, value in kwargs.items() if value is not None or key not in ("out",)}
        values = [self.value(each) for each in args] + [self.value(each) for each in kwargs.values()]
        names = [""] * len(args) + list(kwargs)
        kind, callee = self._result_type(result), self._callee(name, func)
        made = self.compiler.node(callee[0], values, kind, self._place(), keywords=names, callee=callee[1])
        self.bind(result, made)

    @staticmethod
    def _callee(name: str, func: Any) -> tuple[str, Any]:
        """Return the kind of a node for a function, and the function that runs."""
        from tensocket.jit.compiler.wrapping import operator

        method = getattr(tensocket.Tensor, name, None)
        if getattr(tensocket, name, None) is None and method is not None and ops.find(name) is method:
            return f"aten::{name}", method
        if func.__name__ != name and method is not None:
            return f"aten::{name}", method
        found = operator(func)
        return found.kind, found.function

    def _result_type(self, result: Any) -> t.JitType:
        if isinstance(result, Tensor):
            return t.TENSOR
        if isinstance(result, (tuple, list)) and not isinstance(result, tensocket.Size):
            kinds = [self._result_type(each) for each in result]
            if (kinds and len(kinds) > 3) or isinstance(result, list):
                return t.ListType(kinds[0] if kinds else t.TENSOR)
            return t.TupleType(kinds)
        return from_value(result) or t.ANY

    def bind(self, result: Any, value: Value) -> None:
        """Let a value and its parts stand for the result of a call."""
        if isinstance(result, Tensor):
            self.know(result, value)
        elif isinstance(result, (tuple, list)) and _holds(result):
            op = "prim::TupleUnpack" if isinstance(value.kind, t.TupleType) else "prim::ListUnpack"
            made = self.compiler.add(op, [value], None)
            for each in result:
                part = made.add_output(self._result_type(each))
                self.bind(each, part)
        elif isinstance(result, dict):
            for key, each in result.items():
                index = self.compiler.constant(key, None, None)
                self.bind(each, self.compiler.node("aten::__getitem__", [value, index], self._result_type(each), None))

    def part(self, value: Value, dims: int, index: Any) -> Value:
        """Return an element or part of a tensor."""
        view, tensors = self._views(value, dims, index)
        if not tensors:
            return view
        return self.compiler.node("aten::index", [view, self._positions(tensors)], t.TENSOR, None)

    def _positions(self, tensors: dict[int, Value]) -> Value:
        none = [tensors.get(k) or self.compiler.constant(None, t.NONE, None) for k in range(max(tensors) + 1)]
        return self.compiler.list_of(none, None, t.optional(t.TENSOR))

    def _views(self, value: Value, dims: int, index: Any) -> tuple[Value, dict[int, Value]]:
        parts = list(index) if isinstance(index, tuple) else [index]
        used = sum(_dims(part) for part in parts)
        c, dim, tensors = self.compiler, 0, {}
        for part in parts:
            at = c.constant(dim, t.INT, None)
            if part is ...:
                dim += dims - used
            elif part is None:
                value = c.node("aten::unsqueeze", [value, at], t.TENSOR, None)
                dim += 1
            elif isinstance(part, slice):
                if part != slice(None):
                    bounds = [self.value(each) for each in (part.start, part.stop, 1 if part.step is None
                                                            else part.step)]
                    value = c.node("aten::slice", [value, at, *bounds], t.TENSOR, None)
                dim += 1
            elif isinstance(part, int) and not isinstance(part, bool):
                value = c.node("aten::select", [value, at, self.value(part)], t.TENSOR, None)
            else:
                tensors[dim] = self.value(part if isinstance(part, Tensor) else tensocket.as_tensor(part))
                dim += _dims(part)
        return value, tensors

    def write(self, target: Any, index: Any, thing: Any) -> None:
        """Record a write to a part of a tensor."""
        c = self.compiler
        view, tensors = self._views(self.tensor(target), target.dim(), index)
        value = self.value(thing)
        if tensors:
            if value.kind is not t.TENSOR:
                value = c.node("prim::tensor_like", [value, view], t.TENSOR, None)
            c.node("aten::index_put_", [view, self._positions(tensors), value], t.TENSOR, None)
        elif value.kind is t.TENSOR:
            c.node("prim::assign_view", [view, value], t.TENSOR, None)
        else:
            c.node("aten::fill_", [view, value], t.TENSOR, None)

    def call_script(self, function: CompiledFunction, arguments: list[Any], receiver: Any, run: Any) -> Any:
        """Record a call of a script as one node, and run it."""
        values = [self.value(each) for each in arguments]
        op = "prim::CallFunction"
        if receiver is not None:
            path = self.modules.get(id(receiver))
            if path is None:
                return run()
            values.insert(0, self.at_path(path))
            op = "prim::CallMethod"
        before = VALUE_OBSERVERS.pop(get_ident(), None)
        self.depth += 1
        try:
            result = run()
        finally:
            self.depth -= 1
            if before is not None:
                VALUE_OBSERVERS[get_ident()] = before
        made = self.compiler.node(op, values, function.schema.result, self._place(), name=function.name,
                                  callee=function)
        self.bind(result, made)
        return result

    # ---- the block

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls of a block."""
        me, before = get_ident(), STATE.tracer
        STATE.tracer = self
        STATE.tracing += 1
        VALUE_OBSERVERS[me] = self
        try:
            with symbolic_sizes(self), self:
                yield
        finally:
            VALUE_OBSERVERS.pop(me, None)
            STATE.tracing -= 1
            STATE.tracer = before

    def _place(self) -> Place | None:
        for frame in reversed(traceback.extract_stack(limit=24)[:-3]):
            if not any(f"/{name}/" in frame.filename for name in RUNTIME):
                source = Source(frame.line or "", frame.filename, frame.lineno or 1)
                return Place(source, 1, 0, len(frame.line or ""))
        return None

    # ---- reads of elements, told by the runtime

    def note_read(self, source: Any) -> None:
        """Warn that the trace keeps what the elements are now."""
        place = self._place()
        key = "" if place is None else place.short()
        if key in self.warned:
            return
        self.warned.add(key)
        warnings.warn(f"[jit.trace] a read of a tensor's elements at {key} — Converting a tensor to a Python number "
                      f"might cause "
                      "the trace to be incorrect: the value is a constant of the trace, which might not generalize "
                      "to other "
                      "inputs — use torch.where, or torch.jit.script for the function", TracerWarning, stacklevel=5)

    def note_range(self, array: Any, low: int, high: int, other: int) -> None:
        """Do nothing: the operator that checks the range is a node, and does so again."""

    def number(self, tensor: Any) -> Any:
        """Return the element of a tensor."""
        self.note_read(tensor)
        return tensor._array.item()

    def number_at(self, table: dict[str, Any], key: str) -> Any:
        """Return an option."""
        return table[key]

    def run_apart(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Call a function that computes options."""
        return function(*args)


#: Functions that only look at a tensor.
_READS: Final = frozenset({"__len__", "__bool__", "__float__", "__int__", "__index__", "item", "tolist", "numpy",
                           "size",
                           "dim", "stride", "__repr__", "is_floating_point", "is_complex", "numel", "__format__",
                           "is_contiguous", "element_size", "storage_offset", "data_ptr", "get_device", "ndimension",
                           "is_tensor", "__hash__", "__array__", "__get__", "__set__", "register_hook",
                           "requires_grad_", "retain_grad", "is_same_size", "nelement", "__iter__", "__reversed__"})


def _plain(value: Any) -> Any:
    if isinstance(value, SymNumber):
        return plain_number(value)
    if type(value) in (list, tuple):
        return type(value)([_plain(x) for x in value])
    if isinstance(value, tensocket.Size):
        return tensocket.Size([_plain(x) for x in value])
    if isinstance(value, slice):
        return slice(_plain(value.start), _plain(value.stop), _plain(value.step))
    return {k: _plain(v) for k, v in value.items()} if type(value) is dict else value


def _dims(part: Any) -> int:
    """Return the number of dimensions that a part of an index takes."""
    if part is ... or part is None:
        return 0
    if isinstance(part, Tensor) and part.dtype == tensocket.bool:
        return int(part.dim())
    return 1


def _holds(thing: Any) -> bool:
    """Whether a tensor or a size is somewhere in a container."""
    if isinstance(thing, (list, tuple)):
        return any(map(_holds, thing))
    if isinstance(thing, dict):
        return any(map(_holds, thing.values()))
    return isinstance(thing, (Tensor, SymNumber))


def _no_name(name: str) -> Any:
    raise KeyError(name)


__all__ = ["Tracer", "runtime", "threading"]
