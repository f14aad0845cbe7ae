"""Containers of parameters. Tensors that are added become parameters; other objects stay as they are."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, overload

from tensocket.errors import ArgumentError, ArgumentTypeError, IndexOutOfRange, UnsupportedOperator
from tensocket.nn.parameter import Parameter
from tensocket_operators import Tensor

from ..module import Module


def position_of(kind: str, index: Any, size: int) -> int:
    """Return ``index`` into ``size`` members as a number from 0."""
    position = operator.index(index)
    if not -size <= position < size:
        raise IndexOutOfRange(kind, f"index {position} for {size} members", "an index is one of the members",
                              f"pass an index from {-size} to {size - 1}" if size else "add members first")
    return position % size


def pairs_of(kind: str, members: Any) -> Iterable[tuple[str, Any]]:
    """Return the names and members of a mapping, of a container with names, or of an iterable of pairs.

    Raises:
        ArgumentTypeError: ``members`` is none of these.
        ArgumentError: An element is not a pair.
    """
    if hasattr(members, "items"):
        return members.items()  # type: ignore[no-any-return]
    if not isinstance(members, Iterable):
        raise ArgumentTypeError(f"{kind}.update", f"a {type(members).__name__}", "members come from a mapping or an "
                                "iterable of key/value pairs", "pass a dict")
    pairs = list(members)
    for pair in pairs:
        if not isinstance(pair, Iterable):
            raise ArgumentTypeError(f"{kind}.update", f"a {type(pair).__name__} among the pairs", "every element is a "
                                    "key/value pair", "pass tuples of a name and a member")
        if len(tuple(pair)) != 2:
            raise ArgumentError(f"{kind}.update", f"{pair!r} among the pairs", "a pair has a key and a value",
                                "pass tuples of a name and a member")
    return pairs


class _Holder(Module):
    """A container whose members are attributes: parameters or any other objects."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: containers compute nothing.

        Raises:
            UnsupportedOperator: Always.
        """
        raise UnsupportedOperator(type(self).__name__, "a call", "a container of parameters is not called",
                                  "use its members in the forward() of a module")

    def _describe(self, name: str, member: Any, by_type: bool = False) -> str:
        if isinstance(member, Tensor):
            kind = "Parameter" if isinstance(member, Parameter) else "Tensor"
            size = "x".join(map(str, member.shape))
            place = "" if member.device.type in ("cpu", "meta") else f" ({member.device})"
            elements = member.type() if by_type else member.dtype
            return f"  ({name}): {kind} containing: [{elements} of size {size}{place}]"
        return f"  ({name}): Object of type: {type(member).__name__}"


def _kept(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(_Holder):
    """A list of parameters; tensors that are added become parameters. It has no ``forward``."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    @overload
    def __getitem__(self, idx: int) -> Any: ...
    @overload
    def __getitem__(self, idx: slice) -> ParameterList: ...
    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return getattr(self, str(position_of(type(self).__name__, idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(position_of(type(self).__name__, idx, len(self))), _kept(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(number)) for number in range(self._size))

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def __dir__(self) -> list[str]:
        # Numbers, which are not valid attribute names in code.
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> ParameterList:
        """Add a member at the end."""
        setattr(self, str(self._size), _kept(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add several members at the end.

        Raises:
            ArgumentTypeError: ``values`` is not an iterable, or a single tensor.
        """
        if isinstance(values, Tensor) or not hasattr(values, "__iter__"):
            raise ArgumentTypeError("ParameterList.extend", f"a {type(values).__name__}", "members come from an "
                                    "iterable that is no tensor", "pass a list of tensors")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """Return one line for each member."""
        return "\n".join(self._describe(str(number), member) for number, member in enumerate(self))


class ParameterDict(_Holder):
    """Parameters by name, in the order of insertion; those of a dict are sorted by name.

    It has no ``forward``.
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise ArgumentTypeError("ParameterDict", f"key {key!r}", "a key is a string", "pass a string")
        setattr(self, key, _kept(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        """Return the members of both; those of ``other`` win."""
        result = self.copy()
        result.update(other)
        return result

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """Return another dict of the same members."""
        return ParameterDict(list(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the member called ``key``; add ``default`` under that name if it does not exist."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all members."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the member called ``key``."""
        member = self[key]
        del self[key]
        return member

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last member, with its name."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the member called ``key``, or ``default``."""
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new dict of the given names with one value."""
        return ParameterDict([(key, default) for key in keys])

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return the names and members."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Return the members."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | ParameterDict) -> None:
        """Add or replace members.

        Raises:
            ArgumentTypeError: ``parameters`` is neither a mapping nor an iterable of pairs.
            ArgumentError: An element is not a pair.
        """
        pairs = pairs_of("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs, key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        """Return one line for each member."""
        return "\n".join(self._describe(str(key), member, by_type=True) for key, member in self.items())
