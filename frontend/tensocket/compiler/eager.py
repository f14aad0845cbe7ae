"""The objects that ``compile`` returns: the function or module itself, called eagerly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tensocket.nn import Module
from tensocket.notices import EAGER, note
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError


class OptimizedModule(Module):
    """A module that was passed to ``compile``: it calls the original and has its attributes.

    Args:
        mod: The original; its parameters are called ``_orig_mod.…`` here, as in PyTorch.
    """

    _orig_mod: Module

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._orig_mod = mod
        self.training = mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original."""
        return self._orig_mod(*args, **kwargs)

    def train(self, mode: bool = True) -> OptimizedModule:
        """Set the mode of both modules."""
        super().train(mode)
        return self

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__.get("_modules", {}).get("_orig_mod")
        if original is None:
            raise AttributeError(name)
        return original if name == "_orig_mod" else getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_orig_mod" or name in self.__dict__ or "_orig_mod" not in self.__dict__.get("_modules", ()):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``function`` and stores it as ``_torchdynamo_orig_callable``.

    Raises:
        ArgumentTypeError: ``function`` is not callable.
    """
    if not callable(function):
        raise ArgumentTypeError("compile", f"a {type(function).__name__}", "functions and modules are compiled",
                                "pass something that can be called")
    if isinstance(function, type):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call._torchdynamo_orig_callable = function  # type: ignore[attr-defined]
    return call


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = "inductor",
            mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False) -> Any:
    """Return the function or module unchanged, to be called eagerly, with one notice; without it, a decorator.

    Args:
        model: A function or a module.
        fullgraph: Accepted as in PyTorch, like the others.
        dynamic: Whether sizes may change.
        backend: A compiler.
        mode: The goal of the compilation.
        options: Options of the compilation.
        disable: Whether to leave the function alone.

    Raises:
        ArgumentError: Both ``mode`` and ``options`` are given.
        ArgumentTypeError: ``model`` is not callable.
    """
    if mode is not None and options is not None:
        raise ArgumentError("compile", f"mode={mode!r} and options", "a mode is a set of options",
                            "pass mode or options, not both")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                 options=options, disable=disable)
    if not disable:
        note("compile", EAGER)
    return OptimizedModule(model) if isinstance(model, Module) else eager(model)
