"""The flag for skipping padding in ``nn.TransformerEncoder`` (``enable_nested_tensor``)."""

from __future__ import annotations


def get_fastpath_enabled() -> bool:
    """Whether encoders skip padding if nothing is trained."""
    from ..nn.modules.transformer import FAST_PATH

    return FAST_PATH[0]


def set_fastpath_enabled(value: bool) -> None:
    """Set whether encoders skip padding if nothing is trained."""
    from ..nn.modules.transformer import FAST_PATH

    FAST_PATH[0] = bool(value)


__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]
