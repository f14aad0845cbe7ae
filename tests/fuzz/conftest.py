"""Fuzzers are modules of the package ``fuzz``, so that tests, the command line and child processes share them."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = str(Path(__file__).resolve().parent.parent)

if TESTS not in sys.path:
    sys.path.append(TESTS)
