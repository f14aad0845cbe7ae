"""Calls of modules during a run: which module makes each call of an operator, and what modules get and return."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any, Final

from tensocket.errors import ExportError
from tensocket.nn import Module
from tensocket_compiler.graph.names import type_name
from tensocket_core.pytree import tree_flatten

#: Path of a call, and the type of its module.
Frame = tuple[str, str]

#: The notes of running captures, by thread.
_NOTES: Final[dict[int, ModuleCalls]] = {}
_LOCK: Final = threading.Lock()
_plain_call: Final[Any] = Module.__call__


@dataclass(slots=True)
class CallOfModule:
    """The arguments and the result of a module.

    Attributes:
        inputs: Leaves of the arguments; slots in place of tensors that operators have used.
        in_spec: Their structure.
        outputs: Leaves of the result.
        out_spec: Their structure.
    """

    inputs: list[Any]
    in_spec: Any
    outputs: list[Any]
    out_spec: Any


class ModuleCalls:
    """The calls of a module and of those below it.

    Args:
        module: The module.
        preserved: Paths of the modules whose arguments and results are noted.

    Attributes:
        stack: The calls that are running, from the outermost one.
        paths: Paths of all modules that have been called, in order. A further call of one has ``@1`` and so on behind
            its path.
        signatures: The calls of the modules whose arguments and results are noted, by path.

    Raises:
        ExportError: There is no module with a preserved path.
    """

    def __init__(self, module: Any, preserved: tuple[str, ...]) -> None:
        modules = dict(module.named_modules())
        aliases = dict(module.named_modules(remove_duplicate=False))
        for path in preserved:
            if path not in aliases:
                raise ExportError("export", f"preserve_module_call_signature with {path!r}", "it lists paths of "
                                  f"submodules, which are {', '.join(x for x in aliases if x)}", "use one of these")
        self._paths = {id(m): path for path, m in modules.items()}
        self._preserved = {self._paths[id(aliases[path])] for path in preserved}
        self.begin()

    def begin(self) -> None:
        """Begin anew."""
        self._counts: Counter[str] = Counter()
        self.stack: tuple[Frame, ...] = ()
        self.paths: list[str] = []
        self.signatures: dict[str, CallOfModule] = {}
        #: Returns what stands for a tensor from here on: its slot, or the tensor itself if nothing has used it.
        self.stand_in: Callable[[Any], Any] = lambda x: x

    def run(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a module, and note it."""
        path = self._paths.get(id(module))
        if path is None or (self.stack and not path):
            return _plain_call(module, *args, **kwargs)
        count = self._counts[path]
        self._counts[path] += 1
        name = f"{path}@{count}" if count else path
        self.paths.append(name)
        outer, self.stack = self.stack, (*self.stack, (name, type_name(type(module))))
        try:
            given = self._leaves((args, kwargs)) if path in self._preserved else None
            result = _plain_call(module, *args, **kwargs)
            if given is not None:
                self.signatures[name] = CallOfModule(*given, *self._leaves(result))
            return result
        finally:
            self.stack = outer

    def _leaves(self, value: Any) -> tuple[list[Any], Any]:
        leaves, spec = tree_flatten(value)
        return [self.stand_in(x) for x in leaves], spec

    def noting(self, stand_in: Callable[[Any], Any]) -> AbstractContextManager[Any]:
        """Return a block in which the calls of this thread are noted.

        Args:
            stand_in: Returns what stands for a leaf: the slot of a tensor that an operator has used, or the leaf.
        """
        self.stand_in = stand_in
        return _noting(self)


@contextmanager
def _noting(notes: ModuleCalls) -> Iterator[None]:
    with _LOCK:
        _NOTES[get_ident()] = notes
        Module.__call__ = _call  # type: ignore[method-assign]
    try:
        yield
    finally:
        with _LOCK:
            del _NOTES[get_ident()]
            if not _NOTES:
                Module.__call__ = _plain_call  # type: ignore[method-assign]


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a module; the notes of this thread's capture see it."""
    notes = _NOTES.get(get_ident())
    return _plain_call(self, *args, **kwargs) if notes is None else notes.run(self, args, kwargs)
