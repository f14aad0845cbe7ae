"""Building graphs of captured modules, and their signatures."""

from __future__ import annotations

import builtins
import operator
from typing import Any

from tensocket._C import _set_grad_enabled
from tensocket.errors import ExportError
from tensocket.fx.graph import Graph
from tensocket.fx.node import Node
from tensocket_compiler.graph.purity import has_side_effect
from tensocket_operators import Tensor
from tensocket_operators.namespaces import built_in

from . import symbols
from .capture import Captured
from .exported_program import ModuleCallSignature
from .graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from .merging import Follows, name_of
from .module_calls import CallOfModule, Frame
from .recorder import Call, Slot, set_grad_enabled
from .symbols import SizeOf, SymNumber
from .values import SymbolicSize, TensorValue, sym_size


class GraphBuilder:
    """Builds the graph of a captured module.

    Args:
        captured: The captured module.
        module: The module, which names the constants that it holds.

    Attributes:
        graph: The graph.
        signature: Its signature.
        constants: The constants by path.
        calls: Signatures of calls of modules by path.
    """

    def __init__(self, captured: Captured, module: Any) -> None:
        self.graph = Graph()
        self.signature = ExportGraphSignature()
        self.constants: dict[str, Any] = {}
        self.calls: dict[str, ModuleCallSignature] = {}
        self._captured = captured
        self._nodes: dict[int, Node] = {}
        self._numbers: dict[Any, Node] = {}
        self._sizes = 0
        self._paths = _tensor_paths(module)
        self._stack: tuple[Frame, ...] = ()
        self._prefix = ""
        #: Comparisons of sizes that the graph does not assert yet.
        self._waiting = list(captured.asserts)

    def build(self) -> None:
        """Build the graph."""
        self._placeholders()
        for call in self._captured.calls:
            self._call(call)
            self._assert_known()
        self._stack = self._stack[:1]
        self._assert_known(all_of_them=True)
        for path, slot in self._captured.assigned.items():
            node = next(self._nodes[at] for at, x in enumerate(self._captured.sources) if x.path == path)
            self._make(built_in("copy_"), (node, self._node(slot.number)), {}, "copy__default")
        modules = self._captured.run.modules
        self.calls = {} if modules is None else {
            path: self.signature_of(call) for path, call in modules.signatures.items()}
        self._output()
        erase_unused(self.graph)
        self.graph.lint()

    # ---- inputs

    def _placeholders(self) -> None:
        captured, run = self._captured, self._captured.run
        for at, source in enumerate(captured.sources):
            kind = InputKind.PARAMETER if source.kind == "p" else InputKind.BUFFER
            node = self._placeholder(f"{source.kind}_{_word(source.path)}", self._value(at))
            self.signature.input_specs.append(InputSpec(kind, TensorArgument(node.name), source.path,
                                                        source.persistent))
            self._nodes[at] = node
            first = next(k for k, x in enumerate(run.tensors) if x is source.tensor)
            self._nodes.setdefault(first, node)
        made = {slot.number for call in captured.calls for slot in _slots(call.result)}
        literals = []
        for number in range(run.inputs, len(run.tensors)):
            if number not in made:
                node = self._constant(number)
                if number in run.literals:
                    literals.append((number, node))
        for at, leaf in enumerate(captured.plan.leaves):
            tensor = isinstance(leaf.value, Tensor)
            number = len(captured.sources) + at
            node = self._placeholder(leaf.name, self._value(number) if tensor else leaf.value)
            arg: ArgumentSpec = TensorArgument(node.name) if tensor else ConstantArgument(node.name, leaf.value)
            self.signature.input_specs.append(InputSpec(InputKind.USER_INPUT, arg, None))
            self._nodes[number] = node
        for number, node in literals:
            # Each call gets numbers of its own, because the program may write to them.
            self._nodes[number] = self._make(built_in("clone"), (node,), {}, "lift_fresh_copy")
            self._nodes[number].meta["val"] = node.meta["val"]

    def _placeholder(self, name: str, value: Any) -> Node:
        node = self.graph.create_node("placeholder", name, name=name)
        if node.name != name and hasattr(builtins, name) and name not in [x.name for x in self.graph.nodes]:
            node.name = name  # as in PyTorch, an argument may be called input
        node.target = node.name
        node.meta["val"] = value
        return node

    def _constant(self, number: int) -> Node:
        tensor = self._captured.run.tensors[number]
        lifted = sum(path.startswith("lifted_tensor_") for path in self.constants)
        path = self._paths.get(id(tensor), f"lifted_tensor_{lifted}")
        self.constants[path] = tensor
        node = self._nodes[number] = self._placeholder(f"c_{_word(path)}", self._value(number))
        self.signature.input_specs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), path))
        return node

    # ---- calls

    def _call(self, call: Call) -> None:
        self._stack = call.stack
        if call.function is set_grad_enabled:
            node = self._make(_set_grad_enabled, call.args, {}, "_set_grad_enabled")
        else:
            name = name_of(call).rpartition("::")[2]
            node = self._indexed(call) or self._make(call.function, self._arguments(call),
                                                     self._argument(call.kwargs), name)
        if call.writes:
            has_effect = node.meta.setdefault("writes", True)
            assert has_effect
        node.meta["stack_trace"] = call.trace
        node.meta["torch_fn"] = (f"{node.name}_1", f"OpOverload.{name_of(call)}")
        node.meta["val"] = self._value_of(call.result)
        self._know(call.result, node)

    def _arguments(self, call: Call) -> tuple[Any, ...]:
        """Return the arguments of a call; sequences of integers are lists, as in PyTorch."""
        given = [self._argument(x) for x in call.args]
        schema = getattr(call.function, "schema", None)
        kinds = [] if schema is None else [p.type for p in schema.parameters]
        return tuple([list(x) if type(x) is tuple and kind.startswith("int") else x
                      for x, kind in zip(given, [*kinds, *[""] * len(given)], strict=False)])

    def _indexed(self, call: Call) -> Node | None:
        """Return a read by slices and integers as calls of select, slice and unsqueeze; None for other calls."""
        if name_of(call) != "basic_index" or not all(
                x is None or x is ... or type(x) in (int, Follows, slice) for x in call.args[1]):
            return None
        node, dim = self._argument(call.args[0]), 0
        index = list(call.args[1])
        rank = len(self._captured.run.shape(call.args[0].number))
        if ... in index:
            at = next(k for k, x in enumerate(index) if x is ...)
            index[at:at + 1] = [slice(None)] * (rank - sum(x is not None for x in index) + 1)
        made = node
        for item in index:
            if item is None:
                made = self._make(built_in("unsqueeze"), (made, dim), {}, "unsqueeze")
            elif isinstance(item, slice):
                if item != slice(None):
                    bounds = [self._argument(x) for x in (item.start, item.stop)]
                    step = () if item.step is None else (self._argument(item.step),)
                    made = self._make(built_in("slice"), (made, dim, *bounds, *step), {}, "slice")
            else:
                made = self._make(built_in("select"), (made, dim, self._argument(item)), {}, "select")
                continue
            dim += 1
        return made if made is not node else self._make(built_in("alias"), (node,), {}, "alias")

    def _make(self, target: Any, args: Any, kwargs: Any, name: str) -> Node:
        node = self.graph.create_node("call_function", target, args, kwargs, name=name)
        if self._stack:
            node.meta["nn_module_stack"] = {
                f"L__self__{_word(frame[0])}": frame for frame in self._stack}
        return node

    def _know(self, result: Any, node: Node) -> None:
        if isinstance(result, Slot):
            self._nodes[result.number] = node
        elif isinstance(result, (tuple, list)):
            for at, item in enumerate(result):
                if any(_slots(item)):
                    part = self._make(operator.getitem, (node, at), {}, "getitem")
                    part.meta.update(val=self._value_of(item), stack_trace=node.meta["stack_trace"])
                    self._know(item, part)

    def _node(self, number: int) -> Node:
        found = self._nodes.get(number)
        if found is None:
            tensor = self._captured.run.tensors[number]
            found = next(self._nodes[k] for k, x in enumerate(self._captured.run.tensors)
                         if x is tensor and k in self._nodes)
        return found

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Slot):
            return self._node(value.number)
        if isinstance(value, Follows):
            return self.number(value.expression)
        if isinstance(value, (tuple, list)):
            items = [self._argument(x) for x in value]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(value, dict):
            return {k: self._argument(x) for k, x in value.items()}
        if isinstance(value, slice):
            return slice(*[self._argument(x) for x in (value.start, value.stop, value.step)])
        return value

    def number(self, expression: Any) -> Any:
        """Return the node of a number that follows from sizes; plain numbers unchanged."""
        if isinstance(expression, (int, float)):
            return expression
        found = self._numbers.get(expression)
        if found is None:
            found = self._numbers[expression] = self._size(expression) if isinstance(expression, SizeOf) else (
                self._computed(expression))
        return found

    def _size(self, size: SizeOf) -> Node:
        self._sizes += 1
        name = f"sym_size_int_{self._sizes}"
        node = self._node(size.tensor)
        made = self._make(sym_size, (node, size.dim), {}, name)
        made.meta["val"] = node.meta["val"].shape[size.dim]
        return made

    def _computed(self, expression: Any) -> Node:
        name, *parts = expression
        made = self._make(symbols.FUNCTIONS[name], tuple([self.number(x) for x in parts]), {}, self._prefix + name)
        values = self._captured.merger.values_of(expression)
        made.meta["val"] = SymbolicSize(values[0], self._text(expression)) if values and type(values[0]) is int else (
            values[0] if values else None)
        return made

    def _assert_known(self, all_of_them: bool = False) -> None:
        """Assert the comparisons whose tensors the graph has, beside the call that made the last one."""
        for guard in list(self._waiting):
            if all_of_them or all(size.tensor in self._nodes for side in (guard.left, guard.right)
                                  for size in symbols.sizes_in(side)):
                self._waiting.remove(guard)
                self._assert(guard)

    def _assert(self, guard: symbols.Comparison) -> None:
        from tensocket import _assert

        function, sign = symbols.COMPARISONS[guard.name]
        self._prefix = "size_"  # so that calls of the program have PyTorch's names
        left, right = self.number(guard.left), self.number(guard.right)
        node = self._make(function, (left, right), {}, f"size_{guard.name}")
        self._prefix = ""
        text = f"Runtime assertion failed for expression {self._text(guard.left)} {sign} {self._text(guard.right)}"
        self._make(_assert, (node, text), {}, "_assert")

    # ---- outputs

    def _output(self) -> None:
        outputs: list[Any] = []
        sources = self._captured.sources
        for number, new in self._captured.run.mutated.items():
            outputs.append(self._node(new))
            arg = TensorArgument(outputs[-1].name)
            if number >= len(sources):
                spec = OutputSpec(OutputKind.USER_INPUT_MUTATION, arg, self._nodes[number].name)
            else:
                kind = OutputKind.PARAMETER_MUTATION if sources[number].kind == "p" else OutputKind.BUFFER_MUTATION
                spec = OutputSpec(kind, arg, sources[number].path)
            self.signature.output_specs.append(spec)
        for leaf in self._captured.leaves:
            outputs.append(self._argument(leaf))
            self.signature.output_specs.append(OutputSpec(OutputKind.USER_OUTPUT, _spec_of(outputs[-1]), None))
        self.graph.output(tuple(outputs))

    def signature_of(self, call: CallOfModule) -> ModuleCallSignature:
        """Return the signature of a module's call.

        Raises:
            ExportError: An argument or a result has no node.
        """
        inputs, outputs = ([self._spec(x) for x in leaves] for leaves in (call.inputs, call.outputs))
        return ModuleCallSignature(inputs, outputs, call.in_spec, call.out_spec)

    def _spec(self, leaf: Any) -> ArgumentSpec:
        if isinstance(leaf, Slot):
            return _spec_of(self._node(leaf.number))
        if isinstance(leaf, SymNumber):
            return _spec_of(self.number(self._captured.merger.simplified(leaf.expression)))
        if not isinstance(leaf, Tensor):
            return ConstantArgument("", leaf)
        found = next((self._nodes[k] for k, x in enumerate(self._captured.run.tensors)
                      if x is leaf and k in self._nodes), None)
        if found is None:
            raise ExportError("export", "a module that gets or returns a tensor which no operator uses",
                              "the signature of a call names nodes", "leave the module out of "
                              "preserve_module_call_signature")
        return TensorArgument(found.name)

    # ---- values

    def _text(self, expression: Any) -> str:
        def name(size: SizeOf) -> str:
            rooted = self._captured.root_expression(size)
            if rooted is not None:
                return self._captured.plan.text(rooted)
            node = self._nodes.get(size.tensor)
            return f"{node.name if node is not None else 'tensor'}.size({size.dim})"

        return symbols.text_of(expression, name)

    def _value_of(self, result: Any) -> Any:
        if isinstance(result, Slot):
            return self._value(result.number)
        if isinstance(result, (tuple, list)):
            return type(result)([self._value_of(x) for x in result])
        return result

    def _value(self, number: int) -> TensorValue:
        tensor = self._captured.run.tensors[number]
        shape = [self._shown(SizeOf(number, k), n) for k, n in enumerate(self._captured.run.shape(number))]
        return TensorValue.of(tensor, shape)

    def _shown(self, size: SizeOf, given: int) -> Any:
        """Return a size as nodes' values show it: the simplest expression that gives it in all runs."""
        values = self._captured.merger.size_values(size)
        if values is None or len(set(values)) == 1:
            return given
        rooted = self._captured.root_expression(size)
        if rooted is not None:
            return SymbolicSize(given, self._captured.plan.text(rooted))
        for (at, k), expression in self._captured.plan.sizes.items():
            known = self._captured.merger.size_values(SizeOf(len(self._captured.sources) + at, k))
            if known is not None and len(values) > 2 and len(set(known)) > 1:
                factor, left = divmod(values[1] - values[0], known[1] - known[0] or 1)
                offset = values[0] - factor * known[0]
                if not left and all(factor * b + offset == a for a, b in zip(values, known, strict=True)):
                    text = self._captured.plan.text(expression)
                    text = text if factor == 1 else f"{factor}*{text}" if text.isalnum() else f"{factor}*({text})"
                    return SymbolicSize(given, text if not offset else f"{text} {'+' if offset > 0 else '-'} "
                                        f"{abs(offset)}")
        return SymbolicSize(given, f"u{size.tensor}_{size.dim}")


def _spec_of(output: Any) -> ArgumentSpec:
    if not isinstance(output, Node):
        return ConstantArgument("", output)
    value = output.meta.get("val")
    if isinstance(value, TensorValue):
        return TensorArgument(output.name)
    return SymIntArgument(output.name) if isinstance(value, int) else SymFloatArgument(output.name)


def _tensor_paths(module: Any) -> dict[int, str]:
    """Return the paths of the tensors that are plain attributes of modules, by identity."""
    return {id(value): f"{path}.{name}" if path else name for path, m in module.named_modules()
            for name, value in vars(m).items() if isinstance(value, Tensor)}


def _word(path: str) -> str:
    return path.replace(".", "_")


def _slots(value: Any) -> Any:
    if isinstance(value, Slot):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _slots(item)


def erase_unused(graph: Graph) -> None:
    """Erase calls without use or effect; those that draw random numbers stay."""
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users and not _has_effect(node):
            graph.erase_node(node)


def _has_effect(node: Node) -> bool:
    schema = getattr(node.target, "schema", None)
    if node.meta.get("writes") or (schema is not None and any(
            p.mutated or "generator" in p.name.lower() for p in schema.parameters)):
        return True
    name = str(getattr(node.target, "name", ""))
    return node.is_impure() or "dropout" in name or name.endswith("_")


has_side_effect(_set_grad_enabled)
