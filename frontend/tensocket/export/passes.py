"""Passes over exported programs: ``torch.export.passes``."""

from __future__ import annotations

from typing import Any

from tensocket.nn import Parameter
from tensocket.utils._pytree import tree_map
from tensocket_compiler.graph.node import map_aggregate
from tensocket_core import device as Device
from tensocket_operators import Tensor

from .exported_program import ExportedProgram
from .values import TensorValue


def move_to_device_pass(ep: ExportedProgram, location: Any) -> ExportedProgram:
    """Move a program to another device, in place: state, constants, example inputs, and devices in the graph.

    Args:
        ep: The program.
        location: A device or its name, or a dict from names of devices to others; those that it leaves out stay.

    Returns:
        The program.
    """
    def place(device: Any) -> Any:
        if isinstance(location, dict):
            return Device(location.get(str(device), device))
        return Device(location)

    def moved(value: Any) -> Any:
        if isinstance(value, Parameter):
            return Parameter(value.detach().to(place(value.device)), requires_grad=value.requires_grad)
        if isinstance(value, Tensor):
            return value.to(place(value.device))
        if isinstance(value, TensorValue):
            return TensorValue(value.shape, value.dtype, place(value.device), value.requires_grad, value.stride(),
                               value.layout)
        return place(value) if isinstance(value, Device) else value

    for table in (ep.state_dict, ep.constants):
        copies: dict[int, Any] = {}
        table.update({path: copies.setdefault(id(x), moved(x)) for path, x in list(table.items())})
    ep.example_inputs = tree_map(moved, ep.example_inputs)
    for node in ep.graph.nodes:
        if node.op == "call_function":
            devices = [_device_of(x) for x in node.args] if getattr(node.target, "name", "") == "to" else node.args
            named = {name: _device_of(x) if name == "device" else x for name, x in node.kwargs.items()}
            node.args, node.kwargs = map_aggregate(tuple(devices), moved), map_aggregate(named, moved)
        if "val" in node.meta:
            node.meta["val"] = map_aggregate(node.meta["val"], moved)
    ep.graph_module.recompile()
    ep.validate()
    return ep


def _device_of(value: Any) -> Any:
    """Return arguments with devices in place of their names."""
    if isinstance(value, tuple):
        return tuple([_device_of(x) for x in value])
    return Device(value) if isinstance(value, str) else value


__all__ = ["move_to_device_pass"]
