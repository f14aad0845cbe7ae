"""Element types that programs name, but that no backend has."""

from __future__ import annotations

from tensocket_plugins.contract.reserved_dtypes import RESERVED

globals().update(RESERVED)
