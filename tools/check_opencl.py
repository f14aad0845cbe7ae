"""Check that exits 0 if an OpenCL device builds and runs a kernel; else it prints the reason and exits 1.

It needs pyopencl and NumPy.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

_SOURCE = "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2.0f; }"


def first_failure() -> str | None:
    """Return why no device works, or None if one does."""
    try:
        import pyopencl as cl  # optional and heavy; its import fails if the ICD loader is missing

        devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except Exception as error:  # drivers raise exceptions of any type; the message is the reason
        return f"{type(error).__name__}: {error}"
    reasons = [_try(cl, device) for device in devices]
    return None if None in reasons else "; ".join(filter(None, reasons)) or "no OpenCL device"


def _try(cl: Any, device: Any) -> str | None:
    host = np.array([1.5, -2.0], np.float32)
    try:
        context = cl.Context([device])
        queue = cl.CommandQueue(context)
        flags = cl.mem_flags
        buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=host)
        cl.Program(context, _SOURCE).build().twice(queue, host.shape, None, buffer)
        result = np.empty_like(host)
        cl.enqueue_copy(queue, result, buffer)
    except Exception as error:
        return f"{device}: {type(error).__name__}: {error}"
    return None if result.tolist() == [3.0, -4.0] else f"{device}: wrong result {result}"


if __name__ == "__main__":
    reason = first_failure()
    if reason is not None:
        sys.exit(reason)
