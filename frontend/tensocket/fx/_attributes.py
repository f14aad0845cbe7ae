"""Attributes of modules by their paths: reading, copying, assigning and deleting them."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ArgumentError
from tensocket.nn import Module, Parameter
from tensocket_operators import Tensor


class MissingGraphAttribute(ArgumentError, AttributeError):
    """An attribute that a graph reads and its module does not have."""


def _get_attr(model: Module, attr_name: str) -> Any:
    """Return an attribute by its path.

    Raises:
        MissingGraphAttribute: The module does not have it.
    """
    value: Any = model
    for part in attr_name.split(".") if attr_name else ():
        if not hasattr(value, part):
            raise MissingGraphAttribute("GraphModule", f"target {attr_name} of a {type(model).__name__}",
                                        f"{type(value).__name__} has no attribute `{part}`",
                                        "assign it before the graph is used")
        value = getattr(value, part)
    return value


def _has_attr(model: Module, attr_name: str) -> bool:
    """Whether a module has an attribute with a path."""
    try:
        _get_attr(model, attr_name)
    except AttributeError:
        return False
    return True


def _del_attr(model: Module, attr_name: str) -> None:
    """Delete an attribute by its path."""
    parent, _, name = attr_name.rpartition(".")
    delattr(_get_attr(model, parent), name)


def _parent(module: Module, path: list[str]) -> Module:
    """Return the submodule with a path, made of empty modules where it is missing."""
    here = module
    for name in path:
        below = getattr(here, name, None)
        if below is None:
            below = Module()
            here.add_module(name, below)
        here = below
    return here


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Share an attribute of a module with another one, under the same path."""
    *path, name = target.split(".")
    for part in path:
        below = getattr(from_module, part)
        if getattr(to_module, part, None) is below:
            return  # shared already, with everything below it
        above, from_module = to_module, below
        to_module = getattr(above, part, None)  # type: ignore[assignment]
        if to_module is None:
            to_module = Module()
            above.add_module(part, to_module)
    value = getattr(from_module, name)
    if isinstance(value, Tensor) and name not in from_module._parameters:
        to_module.register_buffer(name, value, name not in from_module._non_persistent_buffers_set)
    else:
        setattr(to_module, name, value)


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Assign an object to a path of a module; tensors become buffers."""
    *path, name = target.split(".")
    parent = _parent(to_module, path)
    if isinstance(from_obj, Tensor) and not isinstance(from_obj, Parameter):
        parent.register_buffer(name, from_obj)
    else:
        setattr(parent, name, from_obj)


