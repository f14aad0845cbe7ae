"""The settings of PyTorch's code generator. Programs can set any name; these are the ones that they may read first."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from tensocket.backends.flags import Flags

triton = SimpleNamespace(cudagraph_trees=True, cudagraphs=False, max_tiles=None, unique_kernel_names=True)
trace = SimpleNamespace(debug_log=False, enabled=False, fx_graph=True, fx_graph_transformed=True, graph_diagram=False,
                        info_log=False, output_code=True)
cpp = SimpleNamespace(enable_kernel_profile=False, threads=-1, wrapper=False)

Flags.module(
    sys.modules[__name__], compile_threads=1, conv_1x1_as_mm=False, coordinate_descent_check_all_directions=False,
    coordinate_descent_tuning=False, debug=False, epilogue_fusion=True, fallback_by_default=False,
    fallback_random=False, force_fuse_int_mm_with_mul=False, freezing=False, fx_graph_cache=True,
    fx_graph_remote_cache=False, max_autotune=False, max_autotune_gemm=False, max_autotune_gemm_backends="",
    max_autotune_pointwise=False, max_fusion_size=64, memory_planning=False, pattern_matcher=True,
    permute_fusion=False, realize_opcount_threshold=100, reorder_for_compute_comm_overlap=False, shape_padding=True,
    size_asserts=True, split_reductions=True, use_mixed_mm=True)
