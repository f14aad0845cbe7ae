"""Operators of images and boxes for the library torchvision, in place of its own ones in C++."""

from __future__ import annotations

from .registration import register

__all__ = ["register"]
