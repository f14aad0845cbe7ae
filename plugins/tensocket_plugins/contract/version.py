"""Version of the contract between runtime and backends. Minor: additions. Major: changes that break a backend."""

from __future__ import annotations

from typing import Final

CONTRACT_VERSION: Final[tuple[int, int]] = (1, 1)
