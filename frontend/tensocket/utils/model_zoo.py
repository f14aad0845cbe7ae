"""Downloads of weights, under an old name."""

from __future__ import annotations

from tensocket.hub import load_state_dict_from_url as load_url
from tensocket.hub import tqdm

__all__ = ["load_url", "tqdm"]
