"""Attributes of a node for users: the name of its class, and its saved values by the names of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError

from ..dispatch.derivative import RESULT, RESULTS, SHAPE, UNUSED, WANTED
from ..dispatch.modes import STATE
from . import saved as saving

#: "Version" of a saved value that a hook has packed.
PACKED: Final = -2

#: Classes that ``named`` made, for nodes with one output.
NAMED: Final[set[type]] = set()
_CLASSES: Final[dict[tuple[type, str], type]] = {}


def named(node: Any) -> Any:
    """Return a node whose class has the name of its operation: ``type(node).__name__ == "AddBackward0"``.

    A node gets such a class only when a user inspects it, so that recording does not pay for it.
    """
    kind = type(node)
    name = node.name().rpartition("::")[2]
    if kind.__name__ != name:
        found = _CLASSES.get((kind, name))
        if found is None:
            found = type(name, (kind,), {"__slots__": (), "__module__": kind.__module__, "__doc__": kind.__doc__})
            _CLASSES[kind, name] = found
            if not hasattr(kind, "outputs"):
                NAMED.add(found)
        node.__class__ = found
    return node


class Inspected:
    """Attributes of nodes for their saved values.

    ``_saved_self`` is a saved value by the name of its parameter (PyTorch calls the first one ``self``),
    ``_saved_self_sym_sizes`` a saved shape, ``_saved_result`` a saved result. ``_raw_saved_self`` accepts hooks.
    """

    __slots__ = ()

    derivative: Any
    saved: tuple[Any, ...] | None
    versions: tuple[int, ...]
    unpack: Callable[[bool], tuple[Any, ...]]
    name: Callable[[], str]

    def __getattr__(self, name: str) -> Any:
        prefix = "_raw_saved_" if name.startswith("_raw_saved_") else "_saved_"
        if name.startswith(prefix):
            wanted = name.removeprefix(prefix)
            for k, position in enumerate(self.derivative.saved_positions):
                if wanted in self._value_names(position):
                    if prefix == "_saved_":
                        return self.unpack(STATE.grad_enabled)[k]
                    if self.versions[k] >= 0 or self.versions[k] == PACKED:
                        return SavedTensor.of(self, k)
        raise AttributeError(f"{self.name()} has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> Iterator[str]:
        yield from object.__dir__(self)
        for k, position in enumerate(self.derivative.saved_positions):
            names = self._value_names(position)
            yield from [f"_saved_{name}" for name in names[-1:]]
            if self.versions[k] >= 0 or self.versions[k] == PACKED:
                yield from [f"_raw_saved_{name}" for name in names[-1:]]

    def _value_names(self, position: int) -> tuple[str, ...]:
        """Return the names of the value at a position of the derivative, PyTorch's name last."""
        names = self.derivative.names
        if position >= 0:
            return (names[position], *(("self",) if position == 0 else ()))
        if position == RESULT:
            return ("result",)
        if position <= RESULTS:
            return (f"result{RESULTS - position}",)
        if position in (UNUSED, WANTED):
            return ()
        return tuple(f"{name}_sym_sizes" for name in self._value_names(SHAPE - position))


class SavedTensor:
    """A saved tensor of a node, before it is unpacked.

    Raises:
        AutogradError: Always; only nodes make them.
    """

    __slots__ = ("_index", "_node")

    _index: int
    _node: Any

    def __init__(self) -> None:
        raise AutogradError("SavedTensor", "a call of the class", "saved tensors are made by nodes only",
                            "read an attribute _raw_saved_... of a node")

    @classmethod
    def of(cls, node: Any, index: int) -> SavedTensor:
        """Return the saved tensor at an index of a node's saved values."""
        made = object.__new__(cls)
        made._node, made._index = node, index
        return made

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Store the result of ``pack_hook`` in place of the tensor; ``unpack_hook`` restores the tensor.

        Raises:
            ArgumentTypeError: A hook is not callable.
            AutogradError: The tensor was freed, already has hooks, or is None.
        """
        for hook in (pack_hook, unpack_hook):
            if not callable(hook):
                raise ArgumentTypeError("register_hooks", f"a hook of type {type(hook).__name__}",
                                        "hooks are functions", "pass pack_hook and unpack_hook")
        node, index = self._node, self._index
        if node.saved is None or node.versions[index] == PACKED:
            state = "was freed" if node.saved is None else "has hooks"
            raise AutogradError("register_hooks", f"a tensor saved by {node.name()} that {state}",
                                "hooks are set once, before the tensor is freed", "set them right after the forward")
        if node.saved[index] is None:
            raise AutogradError("register_hooks", f"None, saved by {node.name()}",
                                "only tensors have hooks", "leave out what is None")
        packed = saving.Packed(node.saved[index], pack_hook, unpack_hook)
        node.saved = (*node.saved[:index], packed, *node.saved[index + 1:])
        node.versions = (*node.versions[:index], PACKED, *node.versions[index + 1:])
