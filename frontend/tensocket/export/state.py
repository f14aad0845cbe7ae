"""The state of a module during a capture: everything that a run changed comes back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tensocket.errors import ExportError
from tensocket_compiler.backends.contents import SavedContents
from tensocket_operators import Tensor
from tensocket_operators.random.positions import from_positions, positions

_TABLES: Final = ("_parameters", "_buffers", "_modules")


class ModuleState:
    """The attributes of a module and of those below it, and the elements of tensors that a run writes.

    Args:
        module: The module.

    Attributes:
        preserve: Saves the elements of a tensor that the run is about to write, and its version.
    """

    def __init__(self, module: Any) -> None:
        self._modules = dict(module.named_modules(remove_duplicate=False))
        self._attributes = [(path, m, dict(vars(m)), {
            name: (value, _copied(value)) for name, value in vars(m).items() if type(value) in (dict, list, set)})
            for path, m in self._modules.items()]
        self._contents = SavedContents()
        self.preserve = self._contents.preserve
        for m in self._modules.values():
            # Operators like batch_norm write to buffers that their schemas do not mark.
            for x in [*m._buffers.values(), *[x for x in vars(m).values() if isinstance(x, Tensor)]]:
                if x is not None and not x.is_sparse:
                    self.preserve(x)

    def assigned(self, is_used: Callable[[Any], bool], *, warns: bool = True) -> dict[str, Any]:
        """Return the tensors that the run assigned to buffers, by path; a warning names other attributes.

        Args:
            is_used: Whether the graph uses a tensor.
            warns: Whether there are warnings.

        Raises:
            ExportError: The run assigned a tensor to another attribute, and read the former one: it is state.
        """
        found: dict[str, Any] = {}
        for path, m, before, copies in self._attributes:
            prefix = f"{path}." if path else ""
            for name, value in m._buffers.items():
                if value is not copies["_buffers"][1].get(name):
                    found[prefix + name] = value
            for name, value in vars(m).items():
                if not isinstance(value, Tensor) or value is before.get(name):
                    continue
                text = (f"The tensor attribute self.{prefix}{name} was assigned during export. Such attributes must be "
                        "registered as buffers")
                if isinstance(before.get(name), Tensor) and is_used(before[name]):
                    raise ExportError("export", f"a module that reads and assigns self.{prefix}{name}", text,
                                      f"use register_buffer({name!r}, ...) in its constructor")
                if warns:  # a value that each call computes anew, such as a normalized weight
                    warnings.warn(f"{text} using the `register_buffer` API, or calls of the program leave them as they "
                                  "are", stacklevel=2)
        return found

    def undo(self) -> None:
        """Restore everything."""
        self._contents.restore()
        for _, m, before, copies in self._attributes:
            attributes = m.__dict__
            for name in attributes.keys() - before.keys():
                del attributes[name]
            for name, value in before.items():
                if attributes.get(name) is not value:
                    attributes[name] = value
            for container, contents in copies.values():
                _restore(container, contents)


@contextmanager
def undone(module: Any) -> Iterator[ModuleState]:
    """Undo what a block changes: attributes of modules, elements of tensors, positions of random streams."""
    from tensocket import no_grad

    state = ModuleState(module)
    try:
        with from_positions(positions()):
            yield state
    finally:
        with no_grad():
            state.undo()


def _copied(container: Any) -> Any:
    return type(container)(container)


def _restore(container: Any, contents: Any) -> None:
    if type(container) is list:
        if len(container) != len(contents) or any(a is not b for a, b in zip(container, contents, strict=True)):
            container[:] = contents
    elif type(container) is set:
        if container != contents:
            container.clear()
            container.update(contents)
    elif list(container) != list(contents) or any(container[k] is not v for k, v in contents.items()):
        container.clear()
        container.update(contents)
