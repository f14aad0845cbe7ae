"""Special functions."""

from __future__ import annotations

from tensocket_operators.functions import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    i0,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    polygamma,
    round,
    sinc,
    softmax,
    xlogy,
)
from tensocket_operators.functions import digamma as psi
from tensocket_operators.functions import igamma as gammainc
from tensocket_operators.functions import igammac as gammaincc
from tensocket_operators.functions import lgamma as gammaln
from tensocket_operators.functions import mvlgamma as multigammaln
from tensocket_operators.functions import sigmoid as expit
from tensocket_operators.functions import special_airy_ai as airy_ai
from tensocket_operators.functions import special_bessel_j0 as bessel_j0
from tensocket_operators.functions import special_bessel_j1 as bessel_j1
from tensocket_operators.functions import special_bessel_y0 as bessel_y0
from tensocket_operators.functions import special_bessel_y1 as bessel_y1
from tensocket_operators.functions import special_chebyshev_polynomial_t as chebyshev_polynomial_t
from tensocket_operators.functions import special_chebyshev_polynomial_u as chebyshev_polynomial_u
from tensocket_operators.functions import special_chebyshev_polynomial_v as chebyshev_polynomial_v
from tensocket_operators.functions import special_chebyshev_polynomial_w as chebyshev_polynomial_w
from tensocket_operators.functions import special_entr as entr
from tensocket_operators.functions import special_erfcx as erfcx
from tensocket_operators.functions import special_hermite_polynomial_h as hermite_polynomial_h
from tensocket_operators.functions import special_hermite_polynomial_he as hermite_polynomial_he
from tensocket_operators.functions import special_i0e as i0e
from tensocket_operators.functions import special_i1 as i1
from tensocket_operators.functions import special_i1e as i1e
from tensocket_operators.functions import special_laguerre_polynomial_l as laguerre_polynomial_l
from tensocket_operators.functions import special_legendre_polynomial_p as legendre_polynomial_p
from tensocket_operators.functions import special_log_ndtr as log_ndtr
from tensocket_operators.functions import special_modified_bessel_i0 as modified_bessel_i0
from tensocket_operators.functions import special_modified_bessel_i1 as modified_bessel_i1
from tensocket_operators.functions import special_modified_bessel_k0 as modified_bessel_k0
from tensocket_operators.functions import special_modified_bessel_k1 as modified_bessel_k1
from tensocket_operators.functions import special_ndtr as ndtr
from tensocket_operators.functions import special_ndtri as ndtri
from tensocket_operators.functions import special_scaled_modified_bessel_k0 as scaled_modified_bessel_k0
from tensocket_operators.functions import special_scaled_modified_bessel_k1 as scaled_modified_bessel_k1
from tensocket_operators.functions import (
    special_shifted_chebyshev_polynomial_t as shifted_chebyshev_polynomial_t,
)
from tensocket_operators.functions import (
    special_shifted_chebyshev_polynomial_u as shifted_chebyshev_polynomial_u,
)
from tensocket_operators.functions import (
    special_shifted_chebyshev_polynomial_v as shifted_chebyshev_polynomial_v,
)
from tensocket_operators.functions import (
    special_shifted_chebyshev_polynomial_w as shifted_chebyshev_polynomial_w,
)
from tensocket_operators.functions import special_spherical_bessel_j0 as spherical_bessel_j0
from tensocket_operators.functions import special_xlog1py as xlog1py
from tensocket_operators.functions import special_zeta as zeta

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]
