"""The former place of ``fully_shard``."""

from __future__ import annotations

from tensocket.distributed.fsdp.api import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from tensocket.distributed.fsdp.fully_shard import FSDPModule, fully_shard

__all__ = ["CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "fully_shard"]
