"""Makes the workspace depend on the distributions beside it, so that ``pip install .`` installs them all."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class WorkspaceHook(MetadataHookInterface):
    """Fills the dynamic ``dependencies`` of the root distribution."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``dependencies`` to one absolute file URL for each folder of ``[tool.tensocket] packages``."""
        root = Path(self.root)
        workspace = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["tensocket"]
        metadata["dependencies"] = [_requirement(root / folder) for folder in workspace["packages"]]


def _requirement(folder: Path) -> str:
    name = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["name"]
    return f"{name} @ {folder.as_uri()}"
