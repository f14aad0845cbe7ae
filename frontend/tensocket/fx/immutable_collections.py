"""Lists and dicts of arguments, which cannot be changed."""

from __future__ import annotations

from tensocket_compiler.graph.immutable import immutable_dict, immutable_list

__all__ = ["immutable_dict", "immutable_list"]
