"""Fixtures of the tests about the repository itself: its root, its distributions and their sources."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Distribution:
    """One folder of the workspace that is a distribution of its own."""

    folder: Path
    project: dict[str, Any]
    build: dict[str, Any]

    @property
    def package(self) -> Path:
        """The folder of its one import package."""
        (name,) = self.build["targets"]["wheel"]["packages"]
        return self.folder / str(name)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def workspace() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="session")
def distributions(workspace: dict[str, Any]) -> dict[str, Distribution]:
    """The distributions by folder name."""
    found = {}
    for folder in workspace["tool"]["tensocket"]["packages"]:
        table = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))
        found[folder] = Distribution(ROOT / folder, table["project"], table["tool"]["hatch"]["build"])
    return found
