"""Finding the nodes for which two ways to run a module give different results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensocket.errors import ArgumentError
from tensocket_operators import Tensor

from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_arg
from .shape_prop import ShapeProp
from .split_utils import split_by_tags
from .tools_common import CALLABLE_NODE_OPS, FxNetAccFusionsFinder, Names, NodeList, NodeSet, TensorOrTensors, Tensors

logger = logging.getLogger(__name__)
#: Tag of the nodes that are compared, and begins of those of the nodes before and behind them.
_MINIMIZE, _BEFORE, _BEHIND = "minimize", "main_0", "main_1"
#: Compares two results: returns a number that describes the difference, and whether it is small.
Compare = Callable[[Any, Any, Names], tuple[float, bool]]


class FxNetMinimizerBadModuleError(ArgumentError):
    """A module that cannot be split at the nodes to compare."""


class FxNetMinimizerRunFuncError(ArgumentError):
    """A way to run the module that fails."""


class FxNetMinimizerResultMismatchError(ArgumentError):
    """Results that differ."""


@dataclass
class _MinimizerSettingBase:
    """Settings of a search.

    Attributes:
        accumulate_error: Whether the compared nodes get the second way's results of earlier nodes.
        traverse_method: ``sequential``, ``binary``, ``accumulate``, ``block`` or ``skip``.
        find_all: Whether the search goes on behind the first difference.
        return_intermediate: Whether results of all compared nodes are compared, not only of the last.
        all_outputs: Whether all results of the module are compared.
    """

    accumulate_error: bool = False
    traverse_method: str = "sequential"
    find_all: bool = False
    return_intermediate: bool = False
    all_outputs: bool = False


class _MinimizerBase:
    """Searches for nodes whose results differ; subclasses define ``run_a`` and ``run_b``.

    Args:
        module: The module.
        sample_input: Examples of its arguments.
        compare_fn: Compares two results.
        settings: Settings.
        module_exporter: Gets the inputs and the part of the module that was compared.
        exclusion_fn: Takes nodes out of the list to compare: ``(nodes, start, end)``.
    """

    def __init__(self, module: GraphModule, sample_input: Tensors, compare_fn: Compare, settings: _MinimizerSettingBase,
                 module_exporter: Callable[..., None] | None = None,
                 exclusion_fn: Callable[[NodeList, int, int], None] | None = None) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module = module
        self.sample_input = sample_input
        self.compare_fn = compare_fn
        self.settings = settings
        self.module_exporter = module_exporter
        self.exclusion_fn = exclusion_fn
        self.a_outputs: dict[str, Any] = {}
        self.b_outputs: dict[str, Any] = {}
        self.results: dict[Any, Any] = {}
        self.reports: list[list[str]] = []
        self.iteration = 0
        callable_nodes = {node for node in module.graph.nodes if node.op in CALLABLE_NODE_OPS}
        ShapeProp(module).propagate(*sample_input)
        self.fusions = FxNetAccFusionsFinder(module, callable_nodes)()
        for node, value in zip((n for n in module.graph.nodes if n.op == "placeholder"), sample_input, strict=False):
            self.a_outputs[node.name] = self.b_outputs[node.name] = value

    def run_a(self, mod: GraphModule, inputs: Tensors, report_idx: int = -1) -> TensorOrTensors:
        """Run a module in the first way."""
        raise NotImplementedError(f"{type(self).__name__} defines no run_a")

    def run_b(self, mod: GraphModule, inputs: Tensors, report_idx: int = -1) -> TensorOrTensors:
        """Run a module in the second way."""
        raise NotImplementedError(f"{type(self).__name__} defines no run_b")

    # ---- one comparison

    def _tag_nodes(self, selected: NodeSet) -> None:
        """Set the tags of nodes: before the selected ones, selected, and behind them."""
        behind: NodeSet = set()
        for node in self.module.graph.nodes:
            if node.op not in CALLABLE_NODE_OPS:
                continue
            if node in selected:
                if any(operand in behind for operand in node.all_input_nodes):
                    raise FxNetMinimizerBadModuleError("minimizer", f"nodes {sorted(n.name for n in selected)}",
                                                       "Found a node behind the compared ones that they depend on",
                                                       "compare a part that only its last node leaves")
                node.tag = _MINIMIZE
            elif any(operand in selected or operand in behind for operand in node.all_input_nodes):
                node.tag = _BEHIND
                behind.add(node)
            else:
                node.tag = _BEFORE

    def _build_submodule(self, nodes: NodeSet) -> tuple[GraphModule, str]:
        """Split the module at some nodes; return it and the name of the part with them."""
        if not nodes:
            raise FxNetMinimizerBadModuleError("minimizer", "no nodes", "a part to compare has nodes",
                                               "name nodes that compute")
        self._tag_nodes(nodes)
        return split_by_tags(self.module, [_BEFORE, _MINIMIZE, _BEHIND]), _MINIMIZE

    def _inputs_of(self, made: GraphModule, name: str) -> tuple[list[Any], list[Any]]:
        call = next(node for node in made.graph.nodes if node.op == "call_module" and node.target == name)
        names = [operand.name for operand in made.get_submodule(name).graph.nodes
                 if operand.op == "placeholder"]
        values = _run_until(made, call, self.sample_input)
        a = [self.a_outputs.get(key, value) for key, value in zip(names, values, strict=True)]
        b = [self.b_outputs.get(key, value) for key, value in zip(names, values, strict=True)]
        return a, (b if self.settings.accumulate_error else a)

    def _run_and_compare(self, made: GraphModule, name: str, output_names: Names, report_idx: int = -1) -> None:
        """Run a part in both ways and compare.

        Raises:
            FxNetMinimizerRunFuncError: A way fails.
            FxNetMinimizerResultMismatchError: The results differ.
        """
        part: Any = made.get_submodule(name)
        a_input, b_input = self._inputs_of(made, name)
        if self.module_exporter is not None:
            self.module_exporter(a_input, part, f"{self.module._get_name()}_{self.iteration}")
        results = []
        for way, run, inputs in (("run_a", self.run_a, a_input), ("run_b", self.run_b, b_input)):
            try:
                results.append(run(part, tuple(inputs), report_idx))
            except Exception as error:
                raise FxNetMinimizerRunFuncError("minimizer", f"{way} on {output_names}", f"Exception raised when "
                                                 f"running {way}", f"run the part alone: {error}") from error
        self._note(output_names, *results)
        number, is_close = self.compare_fn(results[0], results[1], output_names)
        key = tuple(output_names)
        self.results[key] = number
        if not is_close:
            raise FxNetMinimizerResultMismatchError("minimizer", f"{key}: {number}", "Result mismatch for the two "
                                                    "ways to run the nodes", "look at their kernels")

    def _note(self, names: Names, a: Any, b: Any) -> None:
        if isinstance(a, Tensor):
            a, b = (a,), (b,)
        self.a_outputs.update(zip(names, a, strict=False))
        self.b_outputs.update(zip(names, b, strict=False))

    def _differs(self, nodes: NodeList) -> bool:
        """Whether the results of some nodes differ, or a way to run them fails."""
        selected = set(nodes)
        for node in nodes:
            selected |= self.fusions.get(node, set())
        self.iteration += 1
        made, name = self._build_submodule(selected)
        outputs = [node.name for node in nodes if any(user not in selected for user in node.users)]
        try:
            self._run_and_compare(made, name, outputs)
        except (FxNetMinimizerRunFuncError, FxNetMinimizerResultMismatchError) as error:
            self.reports.append([str(error)])
            return True
        self.reports.append([f"{outputs}: the results agree"])
        return False

    # ---- searches

    def _sequential_traverse(self, nodes: NodeList) -> NodeSet:
        """Compare each node alone."""
        culprits: NodeSet = set()
        for node in nodes:
            if node not in culprits and self._differs([node]):
                culprits |= {node} | self.fusions.get(node, set())
                if not self.settings.find_all:
                    break
        return culprits

    def _binary_traverse(self, nodes: NodeList) -> NodeSet:
        """Compare halves, and halves of those that differ."""
        if not nodes or not self._differs(nodes):
            return set()
        if len(nodes) == 1:
            return set(nodes)
        half = len(nodes) // 2
        culprits = self._binary_traverse(nodes[:half])
        if culprits and not self.settings.find_all:
            return culprits
        culprits |= self._binary_traverse(nodes[half:])
        return culprits or set(nodes)  # together they differ, but neither half does

    def _accumulate_traverse(self, nodes: NodeList) -> NodeSet:
        """Compare longer and longer begins; the last node of the first one that differs is the culprit."""
        for at in range(1, len(nodes) + 1):
            if self._differs(nodes[:at]):
                return {nodes[at - 1]}
        return set()

    def _block_traverse(self, nodes: NodeList) -> NodeSet:
        """Find the shortest begin that differs, and of it the shortest end."""
        for end in range(1, len(nodes) + 1):
            if self._differs(nodes[:end]):
                start = next(at for at in reversed(range(end)) if self._differs(nodes[at:end]))
                return set(nodes[start:end])
        return set()

    def _skip_traverse(self, nodes: NodeList) -> NodeSet:
        """Compare all nodes at once."""
        return set(nodes) if nodes and self._differs(nodes) else set()

    def _collect_nodes(self, start: str | None, end: str | None) -> NodeList:
        """Return the nodes that compute, from one to another.

        Raises:
            ArgumentError: A name is not one of a node.
        """
        nodes = [node for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS]
        names = [node.name for node in nodes]
        for name in (start, end):
            if name is not None and name not in names:
                raise ArgumentError("minimizer", f"node {name!r}", "start and end are names of nodes that compute",
                                    "look at module.graph")
        first = names.index(start) if start is not None else 0
        last = names.index(end) + 1 if end is not None else len(nodes)
        return nodes[first:last]

    def run_nodes(self, start: str | None = None, end: str | None = None) -> None:
        """Run the nodes from one to another in both ways, and print how the results compare."""
        nodes = self._collect_nodes(start, end)
        print("The results differ" if self._differs(nodes) else "The results agree")

    def minimize(self, start: str | None = None, end: str | None = None, skip_nodes: list[Any] | None = None,
                 find_last_node: bool | None = None) -> NodeSet:
        """Return the nodes whose results differ.

        Args:
            start: Name of the first node; the first of the module by default.
            end: Name of the last node.
            skip_nodes: Names of nodes that are not compared.
            find_last_node: Accepted for programs.

        Raises:
            ArgumentError: The settings name another method.
        """
        nodes = self._collect_nodes(start, end)
        if self.exclusion_fn is not None:
            self.exclusion_fn(nodes, 0, len(nodes))
        nodes = [node for node in nodes if node.name not in (skip_nodes or ())]
        search = _SEARCHES.get(self.settings.traverse_method)
        if search is None:
            raise ArgumentError("minimizer", f"traverse_method {self.settings.traverse_method!r}", "Unknown traverse "
                                f"method: it is one of {sorted(_SEARCHES)}", "use one of them")
        found: NodeSet = search(self, nodes)
        return found


_SEARCHES: Final[dict[str, Any]] = {
    "sequential": _MinimizerBase._sequential_traverse, "binary": _MinimizerBase._binary_traverse,
    "accumulate": _MinimizerBase._accumulate_traverse, "block": _MinimizerBase._block_traverse,
    "skip": _MinimizerBase._skip_traverse}


def _run_until(made: GraphModule, call: Node, inputs: Sequence[Any]) -> list[Any]:
    """Run a graph up to a node, and return the values of its arguments."""
    interpreter = Interpreter(made, garbage_collect_values=False)
    interpreter.args_iter = iter(inputs)
    for node in made.graph.nodes:
        if node is call:
            break
        interpreter.env[node] = interpreter.run_node(node)
    return [interpreter.env[value] for value in map_arg(call.args, lambda n: n)]


__all__ = ["FxNetMinimizerBadModuleError", "FxNetMinimizerResultMismatchError", "FxNetMinimizerRunFuncError",
           "_MinimizerBase", "_MinimizerSettingBase"]
