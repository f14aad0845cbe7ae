"""The properties of a device that schedules depend on. Data only; one value per opened device."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal


@dataclass(frozen=True, slots=True)
class Target:
    """Limits and preferences of a code-generating device.

    Attributes:
        kind: ``simt``: kernels run as groups of lanes (GPU, OpenCL). ``cpu``: kernels run as loops; the outermost
            PARALLEL loop is split over threads by the backend. ``interpreter``: kernels run unscheduled.
        group_size: Preferred lanes per group.
        max_group_size: Maximum lanes per group.
        local_bytes: Local memory per group; 0 means none.
        max_groups: Maximum groups along the first axis.
        parallelism: Number of groups that keep the device busy; a reduction with fewer outputs is split.
        sequential: Whether the lanes of a group run one after the other on one core, as in OpenCL on processors: groups
            with barriers are slow, and a reduction runs best on a single lane.
        float64: Whether the device computes in float64.
        native: Scalar functions computed by the device's own float32 implementation although the IR could decompose
            them.
        wide_arithmetic: Whether float64 functions are decomposed too, because the device has no vector form of them.
    """

    kind: Literal["simt", "cpu", "interpreter"]
    group_size: int = 128
    max_group_size: int = 256
    local_bytes: int = 32768
    max_groups: int = 2**31 - 1
    parallelism: int = 64
    sequential: bool = False
    float64: bool = True
    native: frozenset[str] = frozenset()
    wide_arithmetic: bool = False

    @property
    def text(self) -> str:
        """All limits and preferences as text, the same in every process."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return ", ".join(f"{name}={sorted(x) if isinstance(x, frozenset) else x!r}" for name, x in named.items())
