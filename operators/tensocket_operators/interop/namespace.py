"""The array API standard's entry point: the namespace of the functions over tensors.

Core has no such namespace; the front end sets one here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentError, UnsupportedOperator

#: Versions of the standard that the namespace follows; an older version is a subset of a newer one.
VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12")
_LOADERS: Final[list[Callable[[], Any]]] = []


def set_array_namespace(load: Callable[[], Any]) -> None:
    """Set the function that loads the namespace; it runs when a program first requests the namespace of a tensor."""
    _LOADERS[:] = [load]


def array_namespace(api_version: str | None) -> Any:
    """Return the namespace.

    Raises:
        ArgumentError: The version is not one of ``VERSIONS``.
        UnsupportedOperator: Only core is installed.
    """
    if api_version is not None and api_version not in VERSIONS:
        raise ArgumentError("__array_namespace__", f"api_version={api_version!r}",
                            f"the version is one of {', '.join(VERSIONS)}", "leave it out")
    if not _LOADERS:
        raise UnsupportedOperator("__array_namespace__", "a tensor of core alone", "the front end has the namespace",
                                  "import tensocket")
    return _LOADERS[0]()
