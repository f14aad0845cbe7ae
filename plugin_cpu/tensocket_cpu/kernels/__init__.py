"""Kernels of the backend's own, which schedules or machine code make."""
