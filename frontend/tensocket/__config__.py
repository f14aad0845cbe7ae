"""The build of this package, and the environment in which it runs."""

from __future__ import annotations

import platform

import numpy as np

from tensocket_operators import device_api as api
from tensocket_operators import get_num_threads

from .version import OWN


def show() -> str:
    """Return versions, and the states of the installed backends."""
    lines = [f"tensocket {OWN}", f"  - Python {platform.python_version()}, NumPy {np.__version__}",
             f"  - {platform.platform()}"]
    lines += [f"  - {record.name}: {record.state.value}" for record in api.backends()]
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """Return the number of threads that share large kernels."""
    return f"tensocket.get_num_threads() : {get_num_threads()}\n"


__all__ = ["parallel_info", "show"]
