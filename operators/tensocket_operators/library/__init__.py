"""Operators, kernels, gradients and decompositions from outside, with the same rights as built-in ones."""

from __future__ import annotations

from .checking import OpCheckError, opcheck
from .custom import CustomOpDef, custom_op
from .inference import infer_schema
from .libraries import Library, decompositions
from .operators import LibraryOperator, get_ctx
from .registering import (
    define,
    fallthrough_kernel,
    impl,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_decomposition,
    register_fake,
    register_fallback,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
)
from .tags import Tag

__all__ = [
    "CustomOpDef",
    "Library",
    "LibraryOperator",
    "OpCheckError",
    "Tag",
    "custom_op",
    "decompositions",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_decomposition",
    "register_fake",
    "register_fallback",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
]
