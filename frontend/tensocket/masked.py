"""Reductions and normalisations of the elements that a mask holds."""

from __future__ import annotations

from tensocket_core._generated.functions import masked_amax as amax
from tensocket_core._generated.functions import masked_amin as amin
from tensocket_core._generated.functions import masked_argmax as argmax
from tensocket_core._generated.functions import masked_argmin as argmin
from tensocket_core._generated.functions import masked_cumprod as cumprod
from tensocket_core._generated.functions import masked_cumsum as cumsum
from tensocket_core._generated.functions import masked_log_softmax as log_softmax
from tensocket_core._generated.functions import masked_logaddexp as logaddexp
from tensocket_core._generated.functions import masked_logsumexp as logsumexp
from tensocket_core._generated.functions import masked_mean as mean
from tensocket_core._generated.functions import masked_median as median
from tensocket_core._generated.functions import masked_norm as norm
from tensocket_core._generated.functions import masked_normalize as normalize
from tensocket_core._generated.functions import masked_prod as prod
from tensocket_core._generated.functions import masked_softmax as softmax
from tensocket_core._generated.functions import masked_softmin as softmin
from tensocket_core._generated.functions import masked_std as std
from tensocket_core._generated.functions import masked_sum as sum
from tensocket_core._generated.functions import masked_var as var

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
