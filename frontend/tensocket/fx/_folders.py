"""Folders with a graph module as a Python package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensocket.nn import Module
from tensocket.serialization import save

from ._sources import _format_import_block


def write_folder(module: Any, folder: Path, name: str) -> None:
    """Write a module's code and weights.

    Args:
        module: The graph module.
        folder: The folder, made if it is missing.
        name: Name of the class.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save(module.state_dict(), folder / "state_dict.pt")
    lines = []
    for child_name, child in module.named_children():
        if _is_simple(child):
            lines.append(f"self.{child_name} = torch.nn.{child!r}")
            continue
        save(child, folder / f"{child_name}.pt")
        lines.append(f"self.{child_name} = torch.load(Path(__file__).parent / '{child_name}.pt', weights_only=False)"
                     f"  # {type(child).__name__}")
    for key, value in module._buffers.items():
        if value is not None:
            lines.append(f"self.register_buffer({key!r}, {_empty(value)})")
    for key, value in module._parameters.items():
        if value is not None:
            lines.append(f"self.{key} = torch.nn.Parameter({_empty(value)})")
    imports = _format_import_block(module.graph.python_code(root_module="self").globals)
    body = "\n        ".join(lines)
    code = module.code.strip("\n").replace("\n", "\n    ")
    (folder / "module.py").write_text(
        f"from pathlib import Path\n\n{imports}\nfrom tensocket.nn import *\n\n\nclass {name}(torch.nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n        {body}\n"
        f"        self.load_state_dict(torch.load(Path(__file__).parent / 'state_dict.pt'))\n\n    {code}\n", "utf-8")
    (folder / "__init__.py").write_text("from .module import *\n", "utf-8")


def _is_simple(module: Module) -> bool:
    """Whether the text of a module is the expression that makes it."""
    return type(module).__module__.startswith("tensocket.nn") and type(module).__name__ in {
        "Linear", "Conv1d", "Conv2d", "Conv3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "ReLU", "Dropout"}


def _empty(value: Any) -> str:
    return f"torch.empty({list(value.shape)}, dtype=torch.{str(value.dtype).rpartition('.')[2]})"
