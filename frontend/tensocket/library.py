"""Custom operators: ``custom_op``, ``Library``, and registrations for operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tensocket_operators.library import (
    CustomOpDef,
    Library,
    OpCheckError,
    custom_op,
    decompositions,
    define,
    fallthrough_kernel,
    get_ctx,
    impl,
    impl_abstract,
    infer_schema,
    opcheck,
    register_autocast,
    register_autograd,
    register_decomposition,
    register_fake,
    register_fallback,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
)


@contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """Provide a library that is removed at the end of the block."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


__all__ = [
    "CustomOpDef",
    "Library",
    "OpCheckError",
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
