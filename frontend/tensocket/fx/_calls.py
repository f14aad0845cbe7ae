"""Calls of graph modules that fail, and readable listings of their code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from textwrap import indent
from typing import Any

from tensocket.nn import Module

from ._sources import KEY, _loader


def _print_readable(module: Module, module_name: str, print_output: bool = True, **options: Any) -> str:
    """Return the code of a module and of the graph modules below it as classes, and print it."""
    graph: Any = module.graph
    code = graph.python_code("self", verbose=True, **options).src.lstrip("\n")
    code = code[code.index("def "):]
    text = f"class {module_name}(torch.nn.Module):\n" + indent(code.rstrip(" "), "    ")
    for name, child in module.named_children():
        if hasattr(child, "graph"):
            inner = _print_readable(child, f"{name}", print_output=False, **options)
            text += "\n" + indent(inner, "    ")
    if print_output:
        print(text)
    return text


class _WrappedCall:
    """A call of a graph module, which shows the generated line that raised an error."""

    def __init__(self, cls: type, cls_call: Callable[..., Any] | None) -> None:
        self.cls: Any = cls
        self.cls_call = cls_call

    @staticmethod
    def _generate_error_message(frame_summary: traceback.FrameSummary) -> str:
        """Return the lines around the one that raised an error, and a mark below that."""
        number = frame_summary.lineno or 0
        source = _loader.get_source(frame_summary.filename) or ""
        lines = source.split("\n")
        trace = traceback.format_exc().strip()
        before = "\n".join(lines[max(0, number - 3):number])
        mark = "~" * (len(lines[number - 1]) if 0 < number <= len(lines) else 0) + "~~~ <--- HERE"
        after = "\n".join(lines[number:number + 2])
        return f"{trace}\n\nCall using an FX-traced Module, line {number} of the traced Module's generated forward " \
               f"function:\n{before}\n{mark}\n{after}"

    def __call__(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the module.

        Raises:
            Exception: The error of the generated code, after its line was written to standard error.
        """
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            base: Any = super(self.cls, obj)
            return base.__call__(*args, **kwargs)
        except Exception as error:
            frames = _frames_of_programs(error)
            if frames and frames[-1].filename.startswith(KEY):
                print(self._generate_error_message(frames[-1]), file=sys.stderr)
                raise error.with_traceback(None)  # noqa: B904
            raise


def _frames_of_programs(error: Exception) -> list[traceback.FrameSummary]:
    """Return the frames of an error that are not of this package's functions."""
    packages = tuple(str(Path(module.__file__).parent) for name, module in list(sys.modules.items())
                     if name.startswith("tensocket") and "." not in name and module.__file__)
    return [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(packages)]
