"""Helpers of ``torch.library`` that programs import: rules of schemas, and lookup of operators."""

from __future__ import annotations

from . import infer_schema as infer_schema
from . import utils as utils
