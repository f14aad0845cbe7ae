"""Lists of the operators that autocast runs in a low precision, in float32, or in the widest dtype of their arguments.

The lists are those that PyTorch documents for its CPU and for CUDA; devices that are not host-resident follow the
second. Operators in no list compute in the dtypes of their arguments.
"""

from __future__ import annotations

from typing import Final

from tensocket_core.dispatch.autocast import AS_GIVEN, LOW, REFUSED, RESULT, WIDE, WIDEST, use_rules

#: Operators that gain from a low precision because they sum products.
_PRODUCTS: Final = """
addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d linalg_vecdot
linear lstm matmul mm prelu rnn_relu rnn_tanh scaled_dot_product_attention
"""
_LOSSES: Final = """
binary_cross_entropy_with_logits cosine_embedding_loss hinge_embedding_loss huber_loss kl_div l1_loss
margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss smooth_l1_loss
soft_margin_loss triplet_margin_loss
"""
_HOST_FLOAT32: Final = """
adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy border_of_elements cdist cholesky
cholesky_inverse cholesky_solve cross_entropy ctc_loss fft_fft fft_fft2 fft_fftn fft_hfft fft_ifft fft_ifft2
fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn
fractional_max_pool2d fractional_max_pool3d geqrf grid_sampler grid_sampler_2d
grid_sampler_3d inverse linalg_cholesky linalg_cholesky_ex linalg_cond linalg_eig linalg_eigh linalg_eigvals
linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq linalg_matrix_rank linalg_qr
linalg_solve linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve lu_solve max_pool3d max_unpool2d max_unpool3d
nanquantile orgqr ormqr pinverse polar prod qr quantile stft svd trace triangular_solve view_as_complex
"""
_FLOAT32: Final = """
acos asin cdist cosh cosine_similarity dist erfinv exp expm1 group_norm interpolate layer_norm log log10 log1p log2
logsumexp native_layer_norm pdist pow reciprocal renorm rms_norm rsqrt sinh softplus tan
"""

def _table(lists: dict[str, str]) -> dict[str, str]:
    return {name: rule for rule, names in lists.items() for name in names.split()}


#: Rules of host-resident devices.
HOST: Final = _table({
    LOW: _PRODUCTS,
    WIDE: _LOSSES + _HOST_FLOAT32,
    WIDEST: "cat index_copy stack",
    AS_GIVEN: "addmv addr bilinear dot mv vdot",
})  # fmt: skip
#: Rules of other devices.
ACCELERATOR: Final = _table({
    LOW: _PRODUCTS + "addmv addr chain_matmul convolution einsum gru gru_cell linalg_multi_dot lstm_cell mv"
                     " rnn_relu_cell rnn_tanh_cell",
    WIDE: _LOSSES + _FLOAT32,
    WIDEST: "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot",
    RESULT: "cumprod cumsum linalg_matrix_norm linalg_vector_norm log_softmax norm prod softmax sum",
    REFUSED: "binary_cross_entropy",
})  # fmt: skip

use_rules(HOST, ACCELERATOR)
