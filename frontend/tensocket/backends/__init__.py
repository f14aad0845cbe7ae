"""Settings of the libraries that PyTorch uses.

Settings are stored, so that programs that set and read them run, but they have no effect: a device's backend decides
which kernels run. Functions that ask whether a library is available tell the truth.

The module is callable: ``tensocket.backends()`` lists the installed device backends with their states.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

from tensocket_operators import device_api as api
from tensocket_plugins.contract.states import BackendRecord

from . import cpu, cuda, cudnn, cusparselt, kleidiai, mha, mkl, mkldnn, mps, nnpack, openmp, opt_einsum, quantized


class _Backends(ModuleType):
    def __call__(self) -> list[BackendRecord]:
        """Return all installed backends with their states; load and probe each of them."""
        return api.backends()


sys.modules[__name__].__class__ = _Backends
#: Whether flags are frozen outside of blocks, and whether such a block runs.
_FROZEN: Final = {"frozen": False, "block": False}


def disable_global_flags() -> None:
    """Say that flags change only in blocks; they can be set nevertheless."""
    _FROZEN["frozen"] = True


def flags_frozen() -> bool:
    """Whether ``disable_global_flags`` was called, and no block runs."""
    return _FROZEN["frozen"] and not _FROZEN["block"]


@contextmanager
def __allow_nonbracketed_mutation() -> Iterator[None]:
    """Run a block in which flags change."""
    before, _FROZEN["block"] = _FROZEN["block"], True
    try:
        yield
    finally:
        _FROZEN["block"] = before


#: A name for the precision of products; see ``set_float32_matmul_precision``.
fp32_precision = "none"

__all__ = ["cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "mkl", "mkldnn", "mps", "nnpack",
           "openmp", "opt_einsum", "quantized"]
