"""Tensors and nested values in files: the library's own format and safetensors. Reading never executes code."""

from __future__ import annotations

from .container import load, save
from .safetensors import load_safetensors, save_safetensors

__all__ = ["load", "load_safetensors", "save", "save_safetensors"]
