"""Modules that hold other modules or parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, overload

from tensocket.errors import ArgumentTypeError, IndexOutOfRange
from tensocket.nn.modules.module import Module, indent
from tensocket.nn.parameter import Parameter
from tensocket_core import Tensor


def _position(kind: str, index: Any, size: int) -> int:
    """``index`` into ``size`` members as a number from 0."""
    position = operator.index(index)
    if not -size <= position < size:
        raise IndexOutOfRange(kind, f"index {position} for {size} members", "an index is one of the members",
                              f"pass an index from {-size} to {size - 1}" if size else "add members first")
    return position % size


class _Numbered(Module):
    """Modules under the names 0, 1, 2, ..."""

    _modules: dict[str, Module]  # type: ignore[assignment]  # no member of a numbered container is None

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(module is member for member in self._modules.values())

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[_position(type(self).__name__, index, len(self))], module)

    def __delitem__(self, index: int | slice) -> None:
        members = list(self._modules.values())
        del members[index if isinstance(index, slice) else _position(type(self).__name__, index, len(self))]
        self._renumber(members)

    def _renumber(self, members: Iterable[Module]) -> None:
        members = list(members)
        self._modules.clear()
        for number, module in enumerate(members):
            self.add_module(str(number), module)

    def _member(self, index: int) -> Module:
        return list(self._modules.values())[_position(type(self).__name__, index, len(self))]

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add several modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a module before position ``index``, as a list does."""
        members = list(self._modules.values())
        members.insert(index, module)
        self._renumber(members)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take out and return the module at a position."""
        taken = self[key]  # type: ignore[index]  # both subclasses have __getitem__
        del self[key]
        return taken


class Sequential(_Numbered):
    """Calls its modules one after the other. Takes modules, or one ordered mapping of names to modules."""

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], Mapping) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)  # type: ignore[arg-type]  # checked there

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._member(index)

    def forward(self, input: Any) -> Any:
        """The result of the last module."""
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules whose parameters are part of the model. It has no ``forward``."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._member(index)

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        self.extend(modules)
        return self

    def __repr__(self) -> str:
        """Runs of modules that print the same are shown once."""
        runs: list[tuple[int, int, str]] = []
        for number, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], number, text)
            else:
                runs.append((number, number, text))
        if not runs:
            return f"{self._get_name()}()"
        lines = [f"({first}): {indent(text)}" if first == last else
                 f"({first}-{last}): {last - first + 1} x {indent(text)}" for first, last, text in runs]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """Modules by name, in the order in which they were added. It has no ``forward``."""

    _modules: dict[str, Module]  # type: ignore[assignment]  # no member is None

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names and modules."""
        return self._modules.items()

    def clear(self) -> None:
        """Take out all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Take out and return the module called ``key``."""
        return self._modules.pop(key)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules."""
        for key, module in modules.items() if isinstance(modules, Mapping) else modules:
            self[key] = module


class ParameterList(Module):
    """A list of parameters; tensors that are put in become parameters. It has no ``forward``."""

    _parameters: dict[str, Parameter]  # type: ignore[assignment]  # no member is None

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    @overload
    def __getitem__(self, index: int) -> Parameter: ...
    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    def __getitem__(self, index: int | slice) -> Parameter | ParameterList:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._parameters[str(_position(type(self).__name__, index, len(self)))]

    def __setitem__(self, index: int, value: Tensor) -> None:
        self._parameters[str(_position(type(self).__name__, index, len(self)))] = _as_parameter(value)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def append(self, value: Tensor) -> ParameterList:
        """Add a parameter at the end."""
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Tensor]) -> ParameterList:
        """Add several parameters at the end."""
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """One line for each parameter."""
        return "\n".join(f"({name}): Parameter containing: [{str(p.dtype).rpartition('.')[2]} of size "
                         f"{'x'.join(map(str, p.shape))} ({p.device})]" for name, p in self._parameters.items())


def _as_parameter(value: Any) -> Parameter:
    if not isinstance(value, Tensor):
        raise ArgumentTypeError("ParameterList", f"a {type(value).__name__}", "members are tensors",
                                "convert the value with tensocket.tensor(...)")
    return value if isinstance(value, Parameter) else Parameter(value)
