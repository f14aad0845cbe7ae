"""Translation of an exported program's graph into a model."""

from __future__ import annotations

import operator
import re
from typing import Any, Final

import onnx_ir as ir

from tensocket.export import ExportedProgram, InputKind
from tensocket.fx.node import Node
from tensocket_compiler.graph.comments import source_of
from tensocket_core.dispatch.schema import Schema
from tensocket_operators import Tensor
from tensocket_operators.kinds.composite import Composite
from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.pointwise import Pointwise

from ..operators.values import NUMBERS, to_array
from ..packages import UnsupportedOnnxOperators, package
from . import fourier, indexing, layers, losses, pointwise, reductions, shapes  # noqa: F401  (they fill the table)
from .aliases import is_view, name_of, numbered, promoted, writes_first
from .bodies import body_of, tensors_in
from .functions import OWN, SIZES, Call
from .matching import NoMatch, bound, call_arguments, defaults_of, function_for
from .recorder import Recorder, SymbolicValue

#: The opset that torch_lib's functions, and ours, are written in.
BASE: Final = 18
#: Functions of graphs that compute nothing.
_SILENT: Final = frozenset({"_set_grad_enabled", "_assert"})
#: The reason for calls that only follow from others.
_UNKNOWN: Final = "it reads the result of an unsupported operator"


class Translator:
    """Translates the graph of a program.

    Args:
        program: The program.
        registry: The functions of torch_lib.
        custom: Functions for operators, which come first, by operator.
    """

    def __init__(self, program: ExportedProgram, registry: Any, custom: dict[Any, Any]) -> None:
        self._program, self._registry, self._custom = program, registry, custom
        self._opset = getattr(package("onnxscript").onnx_opset, f"opset{BASE}")
        self._recorder = Recorder(self._opset)
        self._graph = ir.Graph([], [], nodes=[], opset_imports={"": BASE}, name="main_graph")
        self._values: dict[Node, Any] = {}
        self._unsupported: dict[str, list[str]] = {}
        self._taken: set[str] = set()

    def model(self) -> Any:
        """Return the model, in opset 18.

        Raises:
            UnsupportedOnnxOperators: Some operators have no function; all are listed, with source lines.
        """
        evaluator = package("onnxscript.evaluator")
        self._placeholders()
        with evaluator.default_as(self._recorder):
            for node in self._program.graph.nodes:
                if node.op == "call_function":
                    self._call(node)
            self._check()
            self._outputs()
        self._graph.extend(self._recorder.nodes)
        version = getattr(package("tensocket"), "__version__", "")
        made = ir.Model(self._graph, ir_version=10, producer_name="tensocket", producer_version=str(version))
        for identifier, function in self._recorder.functions.items():
            made.functions[identifier] = function
            made.graph.opset_imports.setdefault(identifier[0], 1)
        for node in ir.traversal.RecursiveGraphIterator(self._graph):
            made.graph.opset_imports.setdefault(node.domain, 1)
        return made

    # ---- inputs

    def _placeholders(self) -> None:
        specs = {spec.arg.name: spec for spec in self._program.graph_signature.input_specs}
        held = {**self._program.constants, **self._program.state_dict}
        for node in self._program.graph.find_nodes(op="placeholder"):
            spec = specs[node.name]
            if spec.kind is InputKind.USER_INPUT:
                if not isinstance(getattr(node.meta.get("val"), "shape", None), tuple):
                    continue  # an argument that is a number, or None: its value is in the graph
                value = SymbolicValue(self._opset, node.name)
                describe(value, node.meta["val"])
                self._graph.inputs.append(value)
            else:
                if not node.users:
                    continue
                assert spec.target is not None
                array = to_array(_readable(held[spec.target]))
                value = SymbolicValue(self._opset, spec.target)
                value.const_value = ir.tensor(array, name=spec.target)
                describe(value, node.meta["val"])
                self._graph.initializers[spec.target] = value
            self._values[node] = value
            self._taken.add(str(value.name))

    # ---- calls

    def _call(self, node: Node) -> None:
        name = name_of(node)
        if name in _SILENT:
            return
        before = len(self._recorder.nodes)
        try:
            found = self._translated(node)
            self._note(node, found, self._recorder.nodes[before:])
            if writes_first(node):
                self._write(node)
        except (NoMatch, NotImplementedError) as error:
            self._refuse(node, name, str(error))

    def _translated(self, node: Node) -> Any:
        """Return the values of a call.

        Raises:
            NoMatch: There is no function for it.
        """
        name = name_of(node)
        if node.target is operator.getitem and isinstance(self._values.get(node.args[0]), (list, tuple)):
            return self._values[node.args[0]][node.args[1]]
        unknown = any(x not in self._values and x.op == "call_function" for x in node.all_input_nodes)
        plain = name.removesuffix("_") if name.endswith("_") and not name.endswith("__") else name
        own = OWN.get(name) or OWN.get(plain)
        arguments = bound(node)
        is_complex = any(getattr(getattr(x.meta.get("val"), "dtype", None), "is_complex", False)
                         for x in node.all_input_nodes)
        function = own or function_for(self._registry, plain, arguments, is_complex)
        operator_ = isinstance(getattr(node.target, "schema", None), Schema)
        composite = isinstance(node.target, Composite) and function is None
        if operator_ and function is None and not composite and node.target not in self._custom:
            raise NoMatch(name)
        if unknown:
            raise NoMatch(_UNKNOWN)
        if node.target in self._custom:
            return self._custom[node.target](*[self._argument(x) for x in node.args],
                                             **{k: self._argument(x) for k, x in node.kwargs.items()})
        if not operator_:
            return self._size(node, name)
        values = {key: self._argument(x) for key, x in arguments.items()}
        if own is not None:
            return own(Call(self._opset, self._recorder, node, values, arguments))
        if composite:
            return self._inlined(node)
        if isinstance(node.target, (Pointwise, InPlace)) and not is_complex:
            values = self._promoted(node, values)
        schema = node.target.schema
        given = call_arguments(function, list(schema.names), values, defaults_of(schema))
        if "dtype" in given and given["dtype"] is None:
            given["dtype"] = -1
        first, *rest = given  # the first parameter may be called self, which Python's calls have already
        try:
            return function(given[first], **{name: given[name] for name in rest})
        except Exception as error:  # functions of torch_lib raise errors of any class for what they do not have
            raise NoMatch(f"{type(error).__name__}: {error}") from error

    def _promoted(self, node: Node, values: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a pointwise operator in the dtype that it computes in."""
        forms = [x.meta["val"] for x in node.all_input_nodes]
        dtype = node.meta["val"].dtype
        if dtype.name == "bool":
            numbers = [x for x in values.values() if isinstance(x, (int, float))]
            dtype = promoted([x for x in forms if hasattr(x, "dtype")], numbers)
        to = ir.DataType(NUMBERS[dtype])
        return {key: self._opset.Cast(x, to=to) if isinstance(x, ir.Value) and x.dtype != to else x
                for key, x in values.items()}

    def _inlined(self, node: Node) -> Any:
        """Return the values of a composite operator by the operators that it consists of.

        Raises:
            NoMatch: One of them has no function, or the composite has no graph.
        """
        try:
            inner = body_of(node, self._program.range_constraints)
        except Exception as error:  # of any class: the function runs on zeros, which it may refuse
            raise NoMatch(getattr(error, "given", type(error).__name__)) from error
        outer = iter(tensors_in(node))
        specs = {x.arg.name: x for x in inner.graph_signature.input_specs}
        for each in inner.graph.nodes:
            if each.op == "placeholder":
                target = specs[each.name].target
                self._values[each] = self._values[next(outer)] if target is None else self._recorder.constant(
                    ir.tensor(to_array(_readable(inner.constants[target]))))
            elif each.op == "call_function" and name_of(each) not in _SILENT:
                found = self._translated(each)
                self._describe(each, found)
                self._values[each] = found
                if writes_first(each):
                    self._write(each)
        found = [self._argument(x) for x in inner.graph.output_node().args[0]]
        return found if isinstance(node.meta["val"], (list, tuple)) else found[0]

    def _size(self, node: Node, name: str) -> Any:
        """Return the value of a function of sizes."""
        if name not in SIZES:
            raise NoMatch(name)
        return SIZES[name](self._opset, *[self._argument(x) for x in node.args])

    def _argument(self, value: Any) -> Any:
        """Return an argument as torch_lib's functions take it."""
        if isinstance(value, Node):
            return self._values.get(value, value.meta.get("val"))
        if isinstance(value, (list, tuple)):
            return [self._argument(x) for x in value]
        if isinstance(value, slice):
            return slice(*[self._argument(x) for x in (value.start, value.stop, value.step)])
        if isinstance(value, Tensor):
            return self._recorder.constant(ir.tensor(to_array(value)))
        return NUMBERS.get(value, value) if type(value).__name__ == "DType" else value

    def _note(self, node: Node, found: Any, made: list[Any]) -> None:
        """Keep the values of a call, with their forms and names."""
        self._describe(node, found)
        for k, each in enumerate(found if isinstance(found, (list, tuple)) else [found]):
            if isinstance(each, ir.Value) and each.name is None:
                word = f"{node.name}_{k}" if each is not found else node.name
                each.name = f"{word}_value" if word in self._taken else word
        trace = node.meta.get("stack_trace") or ""
        for each in made:
            each.metadata_props["source"] = source_of(trace) if trace else ""
        self._values[node] = found

    def _describe(self, node: Node, found: Any) -> None:
        """Give the values of a call the forms of its results."""
        value: Any = node.meta.get("val")
        several = isinstance(found, (list, tuple)) and isinstance(value, (list, tuple))
        for each, form in zip(found, value, strict=False) if several else [(found, value)]:
            if isinstance(each, ir.Value):
                describe(each, form)

    def _write(self, node: Node) -> None:
        """Let later nodes read what a call writes to its first argument, and all that share its memory.

        A write to a view replaces elements of the tensor that the view is of: the view of a tensor of places tells
        which ones.
        """
        target, changed = node.args[0], self._values[node]
        chain = [target]
        while is_view(chain[-1]):
            chain.append(chain[-1].args[0])
        base = chain[-1]
        if len(chain) == 1:
            self._values[base] = changed
        else:
            old = self._values[base]
            places = numbered(self._opset, self._recorder, old)
            for view in reversed(chain[:-1]):
                places = self._viewed(view, places)
            line = self._recorder.constant([-1], ir.DataType.INT64)
            op = self._opset
            made = op.ScatterElements(op.Reshape(old, line), op.Reshape(places, line), op.Reshape(changed, line),
                                      axis=0)
            self._values[base] = op.Reshape(made, op.Shape(old))
        describe(self._values[base], base.meta["val"])
        pending = [base]
        while pending:
            each = pending.pop()
            for user in each.users:
                if user in self._values and user is not node and is_view(user) and user.args[0] is each:
                    self._values[user] = self._viewed(user, self._values[each])
                    pending.append(user)

    def _viewed(self, node: Node, value: Any) -> Any:
        """Return a view of another tensor than the one that it is of."""
        if writes_first(node):
            return value
        before = self._values[node.args[0]]
        self._values[node.args[0]] = value
        try:
            found = self._translated(node)
        finally:
            self._values[node.args[0]] = before
        self._describe(node, found)
        for each in found if isinstance(found, (list, tuple)) else [found]:
            each.dtype = value.dtype if isinstance(value, ir.Value) else each.dtype
        return found

    # ---- errors

    def _refuse(self, node: Node, name: str, reason: str) -> None:
        place = source_of(node.meta.get("stack_trace") or "")
        label = name if reason in (name, "") else f"{name} ({reason})"
        self._unsupported.setdefault(label, []).append(place)

    def _check(self) -> None:
        own = {k: v for k, v in self._unsupported.items() if _UNKNOWN not in k}
        if not own:
            return
        listed = "; ".join([f"{label} at {', '.join(sorted({p for p in places if p}) or ['an unknown line'])}"
                            for label, places in sorted(own.items())])
        error = UnsupportedOnnxOperators("onnx.export", f"a model that calls {listed}", "ONNX, or the table of "
                                         "docs/onnx.md, has no operators for these calls",
                                         "compute with others, or pass functions in custom_translation_table")
        error.operators = tuple(sorted(label.partition(" ")[0] for label in own))
        raise error

    # ---- outputs

    def _outputs(self) -> None:
        taken: set[int] = set()
        for output in self._program.graph.output_node().args[0]:
            value = self._values.get(output) if isinstance(output, Node) else output
            if value is None:
                continue
            if not isinstance(value, ir.Value):
                value = self._recorder.constant(value)
            inside = value.producer() is None
            if id(value) in taken or inside:
                before, value = value, self._opset.Identity(value)
                value.dtype, value.shape = before.dtype, before.shape
                value.name = f"{before.name}_output"
            taken.add(id(value))
            self._graph.outputs.append(value)


def _readable(tensor: Any) -> Any:
    """Return a tensor without lazy conjugation or negation."""
    return tensor.detach().resolve_conj().resolve_neg()


def describe(value: Any, form: Any) -> None:
    """Give a value the dtype and shape of a node's value; sizes that change have the names of their symbols."""
    if isinstance(form, bool):
        value.dtype, value.shape = ir.DataType.BOOL, ir.Shape([])
    elif isinstance(form, float):
        value.dtype, value.shape = ir.DataType.FLOAT, ir.Shape([])
    elif isinstance(form, int):
        value.dtype, value.shape = ir.DataType.INT64, ir.Shape([])
    elif form is not None and hasattr(form, "dtype"):
        sizes = [getattr(n, "name", n) for n in form.shape]
        dtype = form.dtype
        if dtype.is_complex:
            dtype, sizes = dtype.to_real(), [*sizes, 2]
        value.dtype = ir.DataType(NUMBERS[dtype])
        value.shape = ir.Shape([re.sub(r"\s", "", n) if isinstance(n, str) else int(n) for n in sizes])
