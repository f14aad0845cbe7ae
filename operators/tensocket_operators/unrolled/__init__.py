"""Composites and views whose calls repeat what an earlier call did, without its Python code."""

from __future__ import annotations
