"""Parameters of the modules of ``nn`` as dicts, attached to the nodes that call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket import nn
from tensocket.errors import ArgumentError
from tensocket_compiler.graph.names import type_name

from ..graph_module import GraphModule


def default_matching(name: str, target_version: int) -> str:
    """Return the name of an attribute in a version of the serialized form: the same."""
    return name


#: Class to version of the form, names of the attributes, and the function that renames them.
module_fetch_book: dict[type, tuple[int, list[str], Callable[[str, int], str]]] = {
    nn.Linear: (1, ["weight", "bias"], default_matching),
    nn.Conv2d: (1, ["weight", "bias", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"],
                default_matching),
    nn.BatchNorm2d: (2, ["weight", "bias", "running_mean", "running_var", "eps"], default_matching),
    nn.AdaptiveAvgPool2d: (1, [], default_matching),
    nn.MaxPool2d: (1, ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"],
                   default_matching),
    nn.AvgPool2d: (1, ["kernel_size", "stride", "padding", "count_include_pad", "ceil_mode"], default_matching),
    nn.LayerNorm: (1, ["weight", "bias", "normalized_shape", "eps"], default_matching),
    nn.ReLU: (1, ["inplace"], default_matching),
}


def extract_attrs_for_lowering(mod: nn.Module) -> dict[str, Any]:
    """Return the class, version and attributes of a module.

    Raises:
        ArgumentError: It is of a class without an entry in ``module_fetch_book``.
    """
    entry = module_fetch_book.get(type(mod))
    if entry is None:
        raise ArgumentError("extract_attrs_for_lowering", f"a {type(mod).__name__}", f"{mod._get_name()} is not in the "
                            "module_fetch_book yet, please add it to the module_fetch_book", "add its attributes there")
    version, names, rename = entry
    found: dict[str, Any] = {"name": type_name(type(mod))}
    found.update((rename(name, version), getattr(mod, rename(name, version))) for name in names)
    return found


def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Set ``node.attrs_for_lowering`` of all nodes that call modules, also in the graph modules below."""
    submodules = dict(fx_module.named_modules())
    for node in fx_module.graph.nodes:
        if node.op == "call_module":
            module = submodules[node.target]
            if isinstance(module, GraphModule):
                lift_lowering_attrs_to_nodes(module)
            else:
                node.attrs_for_lowering = extract_attrs_for_lowering(module)
