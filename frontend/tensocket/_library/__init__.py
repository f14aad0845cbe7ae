"""Helpers of ``torch.library`` that programs reach: rules of schemas, and look-up of operators."""

from __future__ import annotations

from . import infer_schema as infer_schema
from . import utils as utils
