"""Comments of a verbose listing: where nodes come from, and shapes and dtypes of their results."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from .node import Node

_FRAME: Final = re.compile(r'^File "(.+)", line (\d+), in (.+)$')
_COLORS: Final = {"yellow": "\x1b[33m", "cyan": "\x1b[36m", "red": "\x1b[31m", "dim": "\x1b[2m", "reset": "\x1b[0m"}
#: Short names of dtypes in comments; others keep theirs.
_DTYPES: Final = {"bfloat16": "bf16", "float64": "f64", "float32": "f32", "float16": "f16", "float8_e4m3fn": "f8e4m3fn",
                  "float8_e5m2": "f8e5m2", "complex32": "c32", "complex64": "c64", "complex128": "c128", "int8": "i8",
                  "int16": "i16", "int32": "i32", "int64": "i64", "bool": "b8", "uint8": "u8", "uint16": "u16",
                  "uint32": "u32", "uint64": "u64"}


@dataclass
class Commenter:
    """Writes the comments of one listing."""

    verbose: bool
    include_stride: bool
    include_device: bool
    colored: bool
    additional_meta: tuple[str, ...]
    _previous: str | None = field(default=None)

    def before(self, node: Node, body: list[str]) -> None:
        """Add the comment above a node's statement, if the node comes from another line than the one before."""
        if not self.verbose or node.op in ("placeholder", "output"):
            return
        summary = source_of(node.stack_trace) if node.stack_trace else ""
        extra = "".join(f" {name}: {node.meta[name]}" for name in self.additional_meta if name in node.meta)
        text = (summary or "No stacktrace found for following nodes") + extra
        if text != self._previous:
            self._previous = text
            body.append(self._paint("dim", f"\n# {text}") + "\n")

    def shape_of(self, node: Node) -> str:
        """Return the comment behind a node's statement, or ""."""
        if not self.verbose:
            return ""
        value = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
        text = self._describe(value)
        return f"  # {self._paint('yellow', text)}" if text else ""

    def _describe(self, value: Any) -> str:
        if isinstance(value, (tuple, list)) and not hasattr(value, "dtype"):
            parts = [part for part in map(self._describe, value) if part]
            return f"({', '.join(parts)})" if parts else ""
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            return ""
        dtype = str(value.dtype).rpartition(".")[2]
        text = f"{_DTYPES.get(dtype, dtype)}[{', '.join(map(str, value.shape))}]"
        if self.include_stride:
            stride = value.stride() if callable(value.stride) else value.stride
            text += f"[{', '.join(map(str, stride))}]"
        if self.include_device and hasattr(value, "device"):
            text += str(value.device)
        return text

    def _paint(self, color: str, text: str) -> str:
        return f"{_COLORS[color]}{text}{_COLORS['reset']}" if self.colored else text


def source_of(trace: str) -> str:
    """Return file, line, function and text of the innermost call in a stack trace; "" if it cannot be read."""
    lines = trace.strip().split("\n")
    for at in range(len(lines) - 1, -1, -1):
        found = _FRAME.match(lines[at].strip())
        if found:
            code = lines[at + 1].strip() if at + 1 < len(lines) else ""
            return f"File: {found[1]}:{found[2]} in {found[3]}, code: {code}"
    return ""
