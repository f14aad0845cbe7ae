"""Compiled functions whose graphs a backend of the program compiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..calls.function import CompiledFunction
from ..calls.progress import shown
from ..calls.settings import SETTINGS
from ..calls.sizes import Form
from ..capture.guards import Guards
from ..capture.recorder import CannotRecord
from ..errors import BackendCompilerFailed
from .variant import Lowering, lower


class LoweredFunction(CompiledFunction):
    """A function that runs what a backend made of its graph, where this is sure to do the same.

    The first call already makes a graph: it runs as it is and is observed, and a second run, which is undone, is
    recorded.

    Attributes:
        lowering: The front end's part.
    """

    warm = 0
    resizes = has_options = False

    def __init__(self, function: Callable[..., Any], lowering: Lowering, *, fullgraph: bool = False,
                 dynamic: bool | None = None) -> None:
        super().__init__(function, fullgraph=fullgraph, dynamic=dynamic)
        self.lowering = lowering

    def __reduce__(self) -> Any:
        """Return a function without graphs for copies."""
        return _make, (self.function, self.lowering, self.fullgraph, self.dynamic)

    def _share(self) -> float:
        return math.inf  # programs wait for their backends to be called

    def _make_parts(self) -> None:
        """Return None: what a backend gets is one graph, or nothing."""

    def _observed(self, form: Form, known: Guards | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super()._observed(form, known, args, kwargs)
        if self._waiting:
            waiting = self._waiting.pop()
            self._attempts += 1
            self._observations = 0
            try:
                with shown(self.function):
                    made = lower(self.function, waiting.guards, args, kwargs, self.lowering)
            except CannotRecord as error:
                self._refuse(str(error))
            except BackendCompilerFailed as error:
                if not SETTINGS.suppresses_errors:
                    raise
                self._refuse(str(error))
            else:
                self.add(made, waiting.form)
        return result


def _make(function: Callable[..., Any], lowering: Lowering, fullgraph: bool, dynamic: bool | None) -> LoweredFunction:
    return LoweredFunction(function, lowering, fullgraph=fullgraph, dynamic=dynamic)
