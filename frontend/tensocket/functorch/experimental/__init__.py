"""Transforms that PyTorch calls experimental."""

from __future__ import annotations

from tensocket.func import functionalize, hessian, jacfwd, jvp
from tensocket.nn import Module
from tensocket.nn.modules.batchnorm import _BatchNorm
from tensocket_operators.transforms import chunk_vmap

__all__ = ["chunk_vmap", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Make all batch normalisations of a module use only the statistics of their input, in place.

    Args:
        root: The module; batches of modules, and gradients of single examples, can't update running statistics.
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
