"""Cutting the graph of a program into graphs of modules, along the calls that its nodes name."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tensocket.errors import ExportError
from tensocket.fx.graph import Graph
from tensocket.fx.node import Node, map_arg
from tensocket.nn import Parameter
from tensocket.utils._pytree import tree_leaves, tree_unflatten

from .exported_program import ExportedProgram, ModuleCallSignature, write_back
from .graph_signature import InputKind
from .interpreter_modules import InterpreterModule, InterpreterModuleDispatcher
from .values import sym_size

#: Containers that generated calls can write.
_PLAIN: Final = (tuple, list, dict)


@dataclass
class _Part:
    """The nodes of one call of a module.

    Attributes:
        path: The path of the call.
        kind: Name of the module's class.
        items: Nodes, and parts of the modules that it calls.
    """

    path: str
    kind: str | None
    items: list[Node | _Part] = field(default_factory=list)

    def nodes(self) -> Iterable[Node]:
        """Yield all nodes, in order."""
        for item in self.items:
            if isinstance(item, Node):
                yield item
            else:
                yield from item.nodes()


def _call_path(path: str) -> str:
    """Return the path of a module from that of a call."""
    return path.partition("@")[0]


class Cutter:
    """Cuts the graph of a program into modules.

    Args:
        program: The program.
        root: Gets submodules, state and graph.
    """

    def __init__(self, program: ExportedProgram, root: InterpreterModule) -> None:
        self._root, self._program = root, program
        self._specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
        self._signatures = {x.fqn: x.signature for x in program.module_call_graph if x.signature is not None and x.fqn}
        #: The calls of each module in order: the text of the graph, and the module that has it.
        self._calls: dict[str, list[tuple[str, InterpreterModule]]] = {}
        self._place_state()

    def cut(self) -> None:
        """Make the modules."""
        self._build(self._parts(), self._root)
        for path, calls in self._calls.items():
            modules = [module for _, module in calls]
            if any(module is not modules[0] for module in modules):
                owner, _, name = path.rpartition(".")
                self._module_at(owner)._modules[name] = InterpreterModuleDispatcher(modules)

    # ---- state

    def _place_state(self) -> None:
        """Give the modules copies of parameters, buffers and constants; shared ones stay shared."""
        program, copies = self._program, {}
        outside = set(program.graph_signature.non_persistent_buffers)
        buffers = set(program.graph_signature.buffers)
        for path, value in {**program.state_dict, **program.constants}.items():
            if id(value) not in copies:
                copied = value.detach().clone()
                copies[id(value)] = Parameter(copied, requires_grad=value.requires_grad) if isinstance(
                    value, Parameter) else copied
            owner, _, name = path.rpartition(".")
            module = self._module_at(owner)
            if isinstance(value, Parameter):
                module.register_parameter(name, copies[id(value)])
            elif path in buffers or path in program.state_dict:
                module.register_buffer(name, copies[id(value)], persistent=path not in outside)
            else:
                setattr(module, name, copies[id(value)])

    def _module_at(self, path: str) -> Any:
        module: Any = self._root
        for name in path.split(".") if path else ():
            if name not in module._modules:
                module.add_module(name, InterpreterModule(Graph()))
            module = module._modules[name]
        return module

    # ---- parts

    def _parts(self) -> _Part:
        """Return the tree of calls."""
        root = _Part("", None)
        open_parts = [root]
        nodes = [x for x in self._program.graph.nodes if x.op not in ("placeholder", "output")]
        stacks = _stacks(nodes)
        for node, stack in zip(nodes, stacks, strict=True):
            common = 0
            while common < len(stack) and common + 1 < len(open_parts) and (
                    open_parts[common + 1].path == stack[common][0]):
                common += 1
            del open_parts[common + 1:]
            for path, kind in stack[common:]:
                made = _Part(path, kind)
                open_parts[-1].items.append(made)
                open_parts.append(made)
            open_parts[-1].items.append(node)
        return root

    # ---- building

    def _build(self, part: _Part, module: Any) -> tuple[list[Node], list[Node]]:
        """Give a module the graph of a part; return the nodes that it gets and those that it returns."""
        inside = set(part.nodes())
        is_root = not part.path
        signature = None if is_root else self._signatures.get(part.path)
        given = self._given(part, inside, is_root, signature)
        returned = [x for x in part.nodes() if any(user not in inside for user in x.users)
                    and not (signature is not None and _is_number(x))]
        graph, known = Graph(), {}
        for node in given:
            known[node] = graph.placeholder(node.name)
            known[node].meta = dict(node.meta)
        for item in part.items:
            if isinstance(item, Node):
                read = self._reader(part, graph, known)
                known[item] = (_size_among(item, graph, known) if _is_number(item) else None) or (
                    graph.node_copy(item, read))
            else:
                self._call(item, part, graph, known)
        self._output(part, graph, known, returned, signature)
        module.graph, module._signature, module._ty = graph, signature, part.kind
        graph.lint()
        return given, returned

    def _given(self, part: _Part, inside: set[Node], is_root: bool,
               signature: ModuleCallSignature | None) -> list[Node]:
        """Return the nodes from outside that a part gets as inputs."""
        inputs = {x.name: x for x in self._program.graph.nodes}
        if is_root:
            return [inputs[spec.arg.name] for spec in self._program.graph_signature.input_specs
                    if spec.kind is InputKind.USER_INPUT]
        if signature is not None:
            return [inputs[x.name] if x.name in inputs else self._missing(part) for x in signature.inputs]
        used: dict[Node, None] = {}
        for node in part.nodes():
            for x in node.all_input_nodes:
                if x not in inside and not self._is_own(x, part.path):
                    used.setdefault(x)
        return list(used)

    @staticmethod
    def _missing(part: _Part) -> Node:
        raise ExportError("unflatten", f"the signature of {part.path} with an argument that is a constant",
                          "arguments of modules whose signatures are preserved are tensors", "leave the path out of "
                          "preserve_module_call_signature")

    def _is_own(self, node: Node, path: str) -> bool:
        """Whether a node is a parameter, buffer or constant in a module or below it."""
        spec = self._specs.get(node.name)
        own = f"{_call_path(path)}." if path else ""
        return spec is not None and spec.target is not None and spec.target.startswith(own)

    def _reader(self, part: _Part, graph: Graph, known: dict[Node, Node]) -> Callable[[Node], Node]:
        """Return the function that finds a node in the graph of a part; state is read as an attribute."""
        def read(node: Node) -> Node:
            if node not in known and _is_number(node):
                known[node] = _size_among(node, graph, known) or graph.node_copy(node, read)
            if node not in known:
                spec = self._specs.get(node.name)
                if spec is None or spec.target is None or not self._is_own(node, part.path):
                    raise ExportError("unflatten", f"{node.name} in the module {part.path!r}", "modules use values "
                                      "that they get, make or hold", "leave the module out of "
                                      "preserve_module_call_signature")
                prefix = f"{_call_path(part.path)}." if part.path else ""
                known[node] = graph.get_attr(spec.target.removeprefix(prefix))
                known[node].meta = dict(node.meta)
            return known[node]

        return read

    def _call(self, inner: _Part, part: _Part, graph: Graph, known: dict[Node, Node]) -> None:
        """Add the call of a part to the graph of the part around it."""
        own, outer = _call_path(inner.path), _call_path(part.path)
        given, returned = self._placed(inner, own)
        name = own.removeprefix(f"{outer}." if outer else "")
        read = self._reader(part, graph, known)
        signature = self._signatures.get(inner.path)
        leaves = [read(x) for x in given]
        if signature is None:
            node = graph.create_node("call_module", name, tuple(leaves), {})
        else:
            args, kwargs = tree_unflatten(leaves, signature.in_spec)
            if not _is_writable((args, kwargs)):
                raise ExportError("unflatten", f"the signature of {inner.path}", "arguments of modules whose "
                                  "signatures are preserved are tuples, lists and dicts of tensors",
                                  "leave the path out of preserve_module_call_signature")
            made = graph.create_node("call_module", name, args, kwargs)
            node = graph.create_node("call_function", tree_leaves, (made,), {})
        names = None if signature is None else [x.name for x in signature.outputs]
        single = signature is None and len(returned) == 1
        for k, x in enumerate(returned):
            at = k if names is None else names.index(x.name)
            known[x] = node if single else graph.create_node("call_function", operator.getitem, (node, at), {})
            known[x].meta = dict(x.meta)

    def _placed(self, inner: _Part, own: str) -> tuple[list[Node], list[Node]]:
        """Build the module of a call; a further call with the same graph uses the same module."""
        calls, module = self._calls.setdefault(own, []), self._module_at(own)
        target = module
        if calls:
            target = InterpreterModule(Graph())
            target._parameters, target._buffers = module._parameters, module._buffers
            target._modules = module._modules
        ends = self._build(inner, target)
        text = _canonical(target.graph)
        calls.append((text, next((x for known, x in calls if known == text), target)))
        return ends

    def _output(self, part: _Part, graph: Graph, known: dict[Node, Node], returned: list[Node],
                signature: ModuleCallSignature | None) -> None:
        read = self._reader(part, graph, known)
        if not part.path:
            write_back(self._program, graph, read)
            values = self._program.graph.output_node().args[0]
            users = [value for value, spec in zip(values, self._program.graph_signature.output_specs, strict=True)
                     if spec.kind.name == "USER_OUTPUT"]
            graph.output(map_arg(tuple(users), read))
        elif signature is not None:
            inputs = {x.name: x for x in self._program.graph.nodes}
            graph.output(tuple([read(inputs[x.name]) if x.name in inputs else getattr(x, "value", None)
                                for x in signature.outputs]))
        else:
            found = [known[x] for x in returned]
            graph.output(found[0] if len(found) == 1 else tuple(found))


def _is_number(node: Node) -> bool:
    """Whether a node computes an integer, which any graph with the sizes can compute."""
    return node.op == "call_function" and isinstance(node.meta.get("val"), int)


def _size_among(node: Node, graph: Graph, known: dict[Node, Node]) -> Node | None:
    """Return a node for a size that an input of a graph has, too; None if it has none."""
    name = getattr(node.meta["val"], "name", None)
    for given, inner in known.items():
        for k, size in enumerate(getattr(given.meta.get("val"), "shape", ()) if inner.op == "placeholder" else ()):
            if name is not None and getattr(size, "name", None) == name:
                made = graph.call_function(sym_size, (inner, k))
                made.meta = dict(node.meta)
                return made
    return None


def _stacks(nodes: list[Node]) -> list[list[tuple[str, str]]]:
    """Return the calls below the root that make each node; a node without notes is where its neighbours meet."""
    found: list[list[tuple[str, str]] | None] = []
    for node in nodes:
        stack = node.meta.get("nn_module_stack")
        frames = None if stack is None else [(path, kind) for path, kind in stack.values() if path]
        if frames is not None and any(path.startswith("_empty_nn_module") for path, _ in frames):
            frames = None  # PyTorch's passes made the node
        found.append(frames)
    for at, stack in enumerate(found):
        if stack is None:
            before = next((x for x in reversed(found[:at]) if x is not None), [])
            after = next((x for x in found[at:] if x is not None), [])
            common = 0
            while common < min(len(before), len(after)) and before[common] == after[common]:
                common += 1
            found[at] = before[:common]
    return [x or [] for x in found]


def _is_writable(value: Any) -> bool:
    if isinstance(value, Node):
        return True
    if type(value) not in _PLAIN:
        return isinstance(value, (int, float, str, bool, type(None)))
    return all(map(_is_writable, value.values() if isinstance(value, dict) else value))


def _canonical(graph: Graph) -> str:
    """Return a text that is equal for graphs which compute the same: nodes are numbered."""
    numbers = {node: f"%{k}" for k, node in enumerate(graph.nodes)}

    class Name(str):
        __slots__ = ()

        def __repr__(self) -> str:
            return str(self)

    lines = []
    for node in graph.nodes:
        args, kwargs = map_arg((node.args, dict(node.kwargs)), lambda x: Name(numbers[x]))
        target = "" if node.op == "placeholder" else node.target if isinstance(node.target, str) else id(node.target)
        lines.append(f"{node.op} {target} {args!r} {kwargs!r}")
    return "\n".join(lines)
