"""What ``import torch`` finds first in a process that was started by one with ``as_torch``: it installs that again."""

from __future__ import annotations

if __name__ == "torch":
    from tensocket.as_torch import install

    install()
