"""The operators whose arguments with defaults overriding handlers receive by name.

PyTorch writes these functions in Python, and each hands its arguments to ``__torch_function__`` in one form, however a
program spelled the call: those without a default by position, the others by name, whether they were given or not.
Handlers of programs read ``kwargs["dims"]``.
"""

from __future__ import annotations

from typing import Final

from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS

_BY_NAME: Final = """
affine_grid binary_cross_entropy cdist cross_entropy elu embedding_bag gaussian_nll_loss glu grid_sample gumbel_softmax
hardsigmoid hardswish hardtanh huber_loss interpolate l1_loss leaky_relu linear_cross_entropy local_response_norm
lp_pool1d lp_pool2d lp_pool3d max_pool2d_with_indices max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d
meshgrid mish mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss norm normalize pad
relu6 silu smooth_l1_loss soft_margin_loss stft tensordot triplet_margin_with_distance_loss
"""

for _name in _BY_NAME.split():
    (OPERATORS.get(_name) or COMPOSITES[_name]).hands_by_name = True
