"""The command ``tensocket`` as ``python -m tensocket``."""

from __future__ import annotations

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
