"""Detection of the forward line behind a failing gradient."""

from __future__ import annotations

from tensocket_core.autograd.anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)

#: Its name in the main namespace.
set_anomaly_enabled = set_detect_anomaly

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly"]
