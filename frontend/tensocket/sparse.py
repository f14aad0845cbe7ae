"""Operators of sparse tensors: products, sums, softmax."""

from __future__ import annotations

from tensocket_core.sparse import addmm, log_softmax, mm, sampled_addmm, softmax, sum

__all__ = ["addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "sum"]
