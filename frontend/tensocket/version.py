"""Which version this is."""

from __future__ import annotations

from typing import Final

from tensocket_plugins.contract.naming import package_name

from .torch_version import TorchVersion

OWN: Final = "0.1.0"
#: The release of PyTorch whose names and semantics these are.
PYTORCH: Final = "2.13.0"
#: No CUDA or ROCm is built in: a device's backend brings its own.
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = ""
debug = False


def current() -> str:
    """This package's version; for a program that knows the package as ``torch``, PyTorch's with this one's behind it.

    Such a program asks in order to find out which names it can use.
    """
    return TorchVersion(f"{PYTORCH}+tensocket.{OWN}") if package_name() == "torch" else OWN


def __getattr__(name: str) -> str:
    """``__version__``, which depends on who asks."""
    if name == "__version__":
        return current()
    raise AttributeError(f"module 'tensocket.version' has no attribute {name!r}")


__all__ = ["cuda", "debug", "git_version", "hip"]
