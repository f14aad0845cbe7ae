"""All operator records. Importing this module defines them, family by family, and then their in-place forms."""

from __future__ import annotations

from tensocket_core.dispatch.registry import COMPOSITES as COMPOSITES
from tensocket_core.dispatch.registry import OPERATORS as OPERATORS

from . import autocast_lists as _autocast_lists  # noqa: F401  registers the operators' precisions
from .differentiation import replayed_passes as _replayed_passes  # noqa: F401  serves backward passes
from .differentiation import replayed_rules as _replayed_rules  # noqa: F401  serves backward passes
from .indexing import (  # noqa: F401
    advanced_indexing,
    combinatorics,
    gather_scatter,
    gradients,
    masked_scatter,
    scatter_reductions,
    selection,
    subscript,
    triangles,
)
from .kinds.inplace import define_forms
from .linalg import (  # noqa: F401
    decompositions,
    distances,
    einsum,
    factorizations,
    inverses,
    linalg,
    low_rank,
    matmul,
    matrix_functions,
    products,
    solvers,
)
from .nn.attention import attention  # noqa: F401
from .nn.convolution import convolution, padding, windows  # noqa: F401
from .nn.dropout import dropout  # noqa: F401
from .nn.embedding import embeddings  # noqa: F401
from .nn.losses import callbacks, classification, cross_entropy, ctc, losses, margins, nll  # noqa: F401
from .nn.normalization import batch_norm, grouped_norms, normalization, row_norms, softmax  # noqa: F401
from .nn.pooling import grids, interpolation, points, pooling, unpooling  # noqa: F401
from .nn.recurrent import recurrent, recurrent_layers  # noqa: F401
from .pointwise import (  # noqa: F401
    activations,
    activations_piecewise,
    arithmetic,
    bits,
    casts,
    comparison,
    complex,
    conditional,
    elementary,
    exponents,
    inplace,
    numeric,
    powers,
    unary,
)
from .reductions import (  # noqa: F401
    histograms,
    integrals,
    log_sums,
    masked,
    order_statistics,
    reductions,
    segments,
    statistics,
)
from .scans import scans  # noqa: F401
from .shapes import (  # noqa: F401
    copies,
    diagonals,
    rearrangement,
    reshaping,
    slicing,
    storage_ops,
    view_copies,
    views,
)
from .signal import fourier, signal_windows, spectrograms  # noqa: F401
from .sorting import sorting, unique  # noqa: F401
from .special import bessel, error, gamma, incomplete_gamma, polynomials  # noqa: F401

define_forms()
