"""The backend's own kernels, which come from schedules or from machine code."""
