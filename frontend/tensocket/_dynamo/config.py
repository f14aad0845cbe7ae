"""The settings of PyTorch's tracer. Programs can set any name; these are the ones that they may read first."""

from __future__ import annotations

import sys

from tensocket.backends.flags import Flags

Flags.module(
    sys.modules[__name__], accumulated_cache_size_limit=256, accumulated_recompile_limit=256, allow_rnn=False,
    assume_static_by_default=True, automatic_dynamic_shapes=True, cache_size_limit=8,
    capture_dynamic_output_shape_ops=False, capture_scalar_outputs=False, compiled_autograd=False, disable=False,
    dynamic_shapes=True, error_on_recompile=False, force_parameter_static_shapes=True, guard_nn_modules=True,
    inline_inbuilt_nn_modules=True, log_level=30, optimize_ddp=True, recompile_limit=8, suppress_errors=False,
    verbose=False)
