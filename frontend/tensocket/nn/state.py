"""Reading and writing the state of a module: what is behind ``state_dict`` and ``load_state_dict``."""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tensocket.errors import ArgumentTypeError, StateDictError
from tensocket_core import Tensor, no_grad

from .parameter import Parameter

if TYPE_CHECKING:
    from .module import Module


class IncompatibleKeys(NamedTuple):
    """Names by which a state dict and a module differ."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Slot(NamedTuple):
    """One entry of a module's state: the table that holds it and its name there."""

    owner: Module
    table: dict[str, Any]
    name: str

    @property
    def tensor(self) -> Tensor:
        """The current value."""
        tensor: Tensor = self.table[self.name]
        return tensor


def slots(module: Module, prefix: str = "") -> Iterator[tuple[str, Slot]]:
    """All entries of the state of ``module`` and its submodules, with full names; shared tensors appear every time."""
    for path, owner in module.named_modules(prefix=prefix, remove_duplicate=False):
        start = f"{path}." if path else ""
        for name, parameter in owner._parameters.items():
            if parameter is not None:
                yield start + name, Slot(owner, owner._parameters, name)
        for name, buffer in owner._buffers.items():
            if buffer is not None and name not in owner._non_persistent_buffers_set:
                yield start + name, Slot(owner, owner._buffers, name)


def collect(module: Module, destination: OrderedDict[str, Any], prefix: str, keep_vars: bool) -> OrderedDict[str, Any]:
    """Add the state of ``module`` to ``destination``; tensors share storage with the module's."""
    start = prefix.removesuffix(".")
    for name, slot in slots(module, start):
        destination[name] = slot.tensor if keep_vars else slot.tensor.detach()
    return destination


def load(module: Module, state: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Copy ``state`` into ``module``; nothing is changed if anything does not fit.

    Raises:
        ArgumentTypeError: ``state`` is no mapping.
        StateDictError: Names (if ``strict``) or shapes differ, or a value is not a tensor.
    """
    if not isinstance(state, Mapping):
        raise ArgumentTypeError("load_state_dict", f"a {type(state).__name__}", "state_dict is a mapping of names to "
                                "tensors", "pass what module.state_dict() or tensocket.load() returned")
    own = dict(slots(module))
    found = IncompatibleKeys([name for name in own if name not in state], [name for name in state if name not in own])
    problems = _describe_keys(found, list(own)) if strict else []
    problems += [problem for name, slot in own.items() if name in state for problem in _misfit(name, slot, state[name])]
    if problems:
        advice = "load the state of a module with the same architecture"
        if strict and (found.missing_keys or found.unexpected_keys):
            advice += ", or pass strict=False to skip missing and unexpected names"
        raise StateDictError("load_state_dict", f"state dict for {type(module).__name__}: {'; '.join(problems)}",
                             "names and shapes must be the module's own", advice)
    with no_grad():
        for name, slot in own.items():
            if name in state:
                _store(slot, state[name], assign)
    return found


def _describe_keys(found: IncompatibleKeys, own: list[str]) -> list[str]:
    problems = []
    if found.missing_keys:
        problems.append(f"missing {', '.join(map(repr, found.missing_keys))}")
    if found.unexpected_keys:
        named = []
        for name in found.unexpected_keys:
            close = difflib.get_close_matches(str(name), found.missing_keys or own, n=1)
            named.append(f"{name!r} (did you mean {close[0]!r}?)" if close else repr(name))
        problems.append(f"unexpected {', '.join(named)}")
    return problems


def _misfit(name: str, slot: Slot, value: Any) -> list[str]:
    if not isinstance(value, Tensor):
        return [f"{name!r} is a {type(value).__name__}, not a tensor"]
    if value.shape != slot.tensor.shape:
        return [f"{name!r} has shape {tuple(value.shape)} but the module's has {tuple(slot.tensor.shape)}"]
    return []


def _store(slot: Slot, value: Tensor, assign: bool) -> None:
    current = slot.tensor
    if not assign:
        current.copy_(value)
    elif isinstance(current, Parameter) and not isinstance(value, Parameter):
        slot.table[slot.name] = Parameter(value, requires_grad=current.requires_grad)
    else:
        slot.table[slot.name] = value.requires_grad_(current.requires_grad)
