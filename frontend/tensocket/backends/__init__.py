"""Switches of libraries under PyTorch.

They are kept, so that programs that set and read them run, and choose nothing: a device's backend decides which
kernels run. Questions whether a library is there are answered with what is true here.

The module can be called, too: ``tensocket.backends()`` lists the installed backends of devices with their states.
"""

from __future__ import annotations

import sys
from types import ModuleType

from tensocket_operators import device_api as api
from tensocket_plugins.contract.states import BackendRecord

from . import cpu, cuda, cudnn, cusparselt, mha, mkl, mkldnn, mps, openmp, opt_einsum


class _Backends(ModuleType):
    def __call__(self) -> list[BackendRecord]:
        """Return all installed backends with their states; loads and probes each."""
        return api.backends()


sys.modules[__name__].__class__ = _Backends

#: One word for the precision of products; see ``set_float32_matmul_precision``.
fp32_precision = "none"

__all__ = ["cpu", "cuda", "cudnn", "cusparselt", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]
