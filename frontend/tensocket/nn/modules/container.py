"""Modules that hold other modules or parameters."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, overload

from tensocket.errors import ArgumentError, ArgumentTypeError, IndexOutOfRange, MemberTypeError

from .layers.parameters import ParameterDict, ParameterList, pairs_of, position_of
from .module import Module, indent


class Container(Module):
    """A module that consists of the given submodules. ``Module`` can do the same."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn("Container is deprecated; derive from Module", FutureWarning, stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """A container of modules under the names 0, 1, 2, ..."""

    _modules: dict[str, Module]  # type: ignore[assignment]  # no member of a numbered container is None

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(module is member for member in self._modules.values())

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[position_of(type(self).__name__, index, len(self))], module)

    def __delitem__(self, index: int | slice) -> None:
        members = list(self._modules.values())
        del members[index if isinstance(index, slice) else position_of(type(self).__name__, index, len(self))]
        self._renumber(members)

    def _renumber(self, members: Iterable[Module]) -> None:
        members = list(members)
        self._modules.clear()
        for number, module in enumerate(members):
            self.add_module(str(number), module)

    def _member(self, index: int) -> Module:
        return list(self._modules.values())[position_of(type(self).__name__, index, len(self))]

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add several modules at the end."""
        if not isinstance(modules, Iterable):
            raise ArgumentTypeError(f"{type(self).__name__}.extend", f"a {type(modules).__name__}", "modules come from "
                                    "an iterable", "pass a list of modules")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a module before position ``index``, as a list does."""
        members = list(self._modules.values())
        members.insert(index, module)
        self._renumber(members)
        return self

    def __dir__(self) -> list[str]:
        # Numbers, which are not valid attribute names in code.
        return [name for name in super().__dir__() if not name.isdigit()]

    def pop(self, key: int | slice) -> Any:
        """Remove and return the module at a position."""
        taken = self[key]  # type: ignore[index]  # both subclasses have __getitem__
        del self[key]
        return taken


class Sequential(_Numbered):
    """A chain of modules, each called with the result of the previous one. Takes modules, or one ordered mapping."""

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

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module before position ``index``.

        Raises:
            MemberTypeError: ``module`` is not a module.
            IndexOutOfRange: The position is beyond the end.
        """
        if not isinstance(module, Module):
            raise MemberTypeError("Sequential.insert", f"a {type(module).__name__}", "a member is a nn.Module",
                                  "derive its class from nn.Module")
        if not -len(self) <= index <= len(self):
            raise IndexOutOfRange("Sequential.insert", f"index {index} for {len(self)} members", "a module is inserted "
                                  "before one of the members or at the end",
                                  f"pass an index from {-len(self)} to {len(self)}")
        return super().insert(index, module)  # type: ignore[no-any-return]

    def __add__(self, other: Sequential) -> Sequential:
        """Return the modules of both, renumbered."""
        return Sequential(*self, *self._checked(other))

    def __iadd__(self, other: Sequential) -> Sequential:
        self.extend(self._checked(other))
        return self

    def __mul__(self, other: int) -> Sequential:
        """Return the same modules several times in sequence."""
        return Sequential(*list(self) * self._times(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        self.extend(list(self) * (self._times(other) - 1))
        return self

    def _checked(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ArgumentError("Sequential", f"+ {type(other).__name__}", "a Sequential is added to another",
                                "wrap the modules in Sequential(...)")
        return other

    def _times(self, other: Any) -> int:
        if not isinstance(other, int):
            raise ArgumentTypeError("Sequential", f"* {type(other).__name__}", "the factor is an int", "pass an int")
        if other <= 0:
            raise ArgumentError("Sequential", f"* {other}", "the factor is positive", "pass 1 or more")
        return other

    def forward(self, input: Any) -> Any:
        """Return the result of the last module."""
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules whose parameters are part of the model. It has no ``forward``."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._member(index)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        """Return the modules of both, renumbered."""
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        self.extend(modules)
        return self

    def __repr__(self) -> str:
        """Return the repr, in which runs of modules with the same repr appear once."""
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
    """Modules by name, in the order of insertion. It has no ``forward``."""

    _modules: dict[str, Module]  # type: ignore[assignment]  # no member is None

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

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
        """Return the names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """Return the modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return the names and modules."""
        return self._modules.items()

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the module called ``key``."""
        return self._modules.pop(key)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | ModuleDict) -> None:
        """Add or replace modules."""
        for key, module in pairs_of("ModuleDict", modules):
            self[key] = module


__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
