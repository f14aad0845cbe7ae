"""The module that ``import torch`` finds first in a child of a process with ``as_torch``; it installs that again."""

from __future__ import annotations

if __name__ == "torch":
    from tensocket.as_torch import install

    install()
