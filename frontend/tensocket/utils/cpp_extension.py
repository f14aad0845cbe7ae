"""Building operators in C++: they need PyTorch's headers and library."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

CUDA_HOME = ROCM_HOME = None
IS_HIP_EXTENSION = False

globals().update(refused(
    "utils.cpp_extension", "BuildExtension CUDAExtension CppExtension load load_inline include_paths library_paths",
    "operators in C++ are compiled for PyTorch's own library",
    "define them with tensocket.library.custom_op, or use the library's operators in Python"))
