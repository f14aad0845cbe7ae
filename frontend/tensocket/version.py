"""The version of this package."""

from __future__ import annotations

from typing import Final

from tensocket_plugins.contract.naming import package_name

from .torch_version import TorchVersion

OWN: Final = "0.1.0"
#: The release of PyTorch whose names and semantics this package implements.
PYTORCH: Final = "2.13.0"
#: CUDA and ROCm are not built in: a device's backend brings its own.
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version = ""
debug = False


def current() -> str:
    """Return this package's version; under the name ``torch``, PyTorch's version with this one as a suffix.

    Programs that import ``torch`` read the version to decide which names they can use.
    """
    return TorchVersion(f"{PYTORCH}+tensocket.{OWN}") if package_name() == "torch" else OWN


def __getattr__(name: str) -> str:
    """Return ``__version__``, which depends on the name of the package."""
    if name == "__version__":
        return current()
    raise AttributeError(f"module 'tensocket.version' has no attribute {name!r}")


__all__ = ["cuda", "debug", "git_version", "hip"]
