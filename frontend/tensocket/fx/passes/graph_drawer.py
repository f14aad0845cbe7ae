"""Pictures of graphs: DOT text, which Graphviz draws."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from tensocket.errors import MissingPackage

from ..graph_module import GraphModule
from ..node import Node, _format_arg, _get_qualified_name

#: Colours of nodes by op; those of calls differ by target.
_COLORS: Final = {"placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_param": "Yellow2",
                  "get_attr": "LightGrey", "output": "PowderBlue"}
_PALETTE: Final = ("CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1", "LavenderBlush1",
                   "LightSkyBlue", "MistyRose1", "MediumOrchid1", "PaleTurquoise2", "PeachPuff1", "Salmon", "Thistle1",
                   "Yellow")


class FxGraphDrawer:
    """Draws a module's graph, and those of the graph modules below it.

    Args:
        graph_module: The module.
        name: Name of the picture.
        ignore_getattr: Whether attributes of the module are left out.
        ignore_parameters_and_buffers: Whether parameters and buffers of called modules are left out.
        skip_node_names_in_args: Whether arguments that are nodes are left out of the text of nodes.
        parse_stack_trace: Whether the text of nodes shows the line of the program.
        dot_graph_shape: Shape of the nodes; ``record`` by default.
        normalize_args: Accepted for programs.
    """

    def __init__(self, graph_module: GraphModule, name: str, ignore_getattr: bool = False,
                 ignore_parameters_and_buffers: bool = False, skip_node_names_in_args: bool = True,
                 parse_stack_trace: bool = False, dot_graph_shape: str | None = None,
                 normalize_args: bool = False) -> None:
        self._name = name
        self.graph_module = graph_module
        self.ignore_getattr = ignore_getattr
        self.ignore_parameters_and_buffers = ignore_parameters_and_buffers
        self.skip_node_names_in_args = skip_node_names_in_args
        self.parse_stack_trace = parse_stack_trace
        self.dot_graph_shape = dot_graph_shape or "record"

    def dot_source(self, submod_name: str | None = None) -> str:
        """Return the DOT text of the module, or of a submodule."""
        module = self.graph_module if submod_name is None else self.graph_module.get_submodule(submod_name)
        lines = [f'digraph "{self._name}" {{', "rankdir=TB;"]
        submodules = dict(module.named_modules())
        for node in module.graph.nodes:
            if self.ignore_getattr and node.op == "get_attr":
                continue
            label = self._label(node, submodules)
            lines.append(f'"{node.name}" [shape={self.dot_graph_shape}, label="{label}", '
                         f'fillcolor={self._color(node)}, '
                         'style="filled,rounded", fontcolor="#000000"];')
            lines += [f'"{operand.name}" -> "{node.name}";' for operand in node.all_input_nodes
                      if not (self.ignore_getattr and operand.op == "get_attr")]
        return "\n".join([*lines, "}"]) + "\n"

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """Return the picture as an object of the package ``pydot``.

        Raises:
            MissingPackage: It is not installed.
        """
        try:
            import pydot  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise MissingPackage("FxGraphDrawer", "an environment without pydot", "FXGraphDrawer requires the pydot "
                                 "package for graphs as objects", "pip install pydot, or draw dot_source() with "
                                 "Graphviz") from error
        return pydot.graph_from_dot_data(self.dot_source(submod_name))[0]

    def get_main_dot_graph(self) -> Any:
        """Return the picture of the module as an object of the package ``pydot``."""
        return self.get_dot_graph()

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """Return the pictures of the module and of the graph modules below it, by name."""
        return {self._name if not name else f"{self._name}_{name}": self.get_dot_graph(name or None)
                for name, module in self.graph_module.named_modules() if isinstance(module, GraphModule)}

    def _color(self, node: Node) -> str:
        if node.op in _COLORS:
            return _COLORS[node.op]
        text = node._pretty_print_target(node.target)
        return _PALETTE[int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8], 16) % len(_PALETTE)]

    def _label(self, node: Node, submodules: dict[str, Any]) -> str:
        parts = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            module = submodules[node.target]
            parts.append(type(module).__name__)
            if not self.ignore_parameters_and_buffers:
                parts += [f"{name}: {tuple(value.shape)}" for name, value in
                          [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]]
        elif node.op == "call_function":
            parts.append(f"target={_get_qualified_name(node.target)}")
        else:
            parts.append(f"target={node.target}")
        values = [value for value in node.args if not (self.skip_node_names_in_args and isinstance(value, Node))]
        parts += [f"args={_format_arg(tuple(values), 10)}"] if values else []
        parts += [f"{name}={_format_arg(value, 10)}" for name, value in node.kwargs.items()]
        parts.append(f"num_users={len(node.users)}")
        meta: Any = node.meta.get("tensor_meta", node.meta.get("val"))
        if hasattr(meta, "shape") and hasattr(meta, "dtype"):
            parts += [f"dtype={meta.dtype}", f"shape={tuple(meta.shape)}"]
        if self.parse_stack_trace and node.stack_trace:
            parts.append(node.stack_trace.strip().split("\n")[-1].strip())
        return "{" + r"\n|".join(_escaped(part) for part in parts) + "}"


def _escaped(text: str) -> str:
    for sign in '\\"{}<>|':
        text = text.replace(sign, "\\" + sign)
    return text.replace("\n", " ")
