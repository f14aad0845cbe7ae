"""Modules and names of the main namespace that are imported at their first use.

Both lists are written out: to list the folder would cost time at every import and fail in archives, and to know a
module's names takes its import. ``tests/frontend/test_import.py`` compares them with the modules.
"""

from __future__ import annotations

from typing import Final

#: Modules of the package, but for those of the command line and of the import.
MODULES: Final = frozenset({
    "_C", "_VF", "__config__", "__future__", "_custom_op", "_custom_ops", "_decomp", "_dynamo",
    "_functorch", "_guards", "_higher_order_ops", "_inductor", "_jit_internal", "_library", "_logging",
    "_ops", "_prims_common",
    "_subclasses",
    "_tensor", "_tensor_str", "_utils", "_vmap_internals", "amp", "ao", "array_api", "as_torch", "autograd", "backends",
    "compiler", "cpu", "cuda", "dispatch", "distributed", "distributions", "errors", "export", "fft", "func",
    "functional", "functorch", "futures", "fx", "hub", "jit", "library", "linalg", "masked", "mps", "mtia",
    "multiprocessing",
    "nested", "nn", "onnx", "optim", "overrides", "profiler", "quasirandom", "random", "return_types", "serialization",
    "signal", "sparse", "special", "storage", "testing", "torch_version", "types", "utils", "version", "xpu",
})

_NAMES: Final = {
    "_higher_order_ops": ("cond", "while_loop"),
    "amp.autocast_mode": (
        "autocast", "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
        "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled",
        "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
        "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
    ),
    "amp.grad_scaler": ("GradScaler",),
    "autograd.anomaly_mode": ("is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_anomaly_enabled"),
    "compiler": ("compile",),
    "errors": ("OutOfMemoryError",),
    "func": ("vmap",),
    "futures": ("Future",),
    "namespace.classes": ("classes",),
    "jit": ("ScriptFunction", "ScriptModule"),
    "jit.native_names": (
        "AnyType", "Argument", "Block", "BoolType", "ClassType", "CompilationUnit", "ComplexType", "DeviceObjType",
        "DictType", "EnumType", "FloatType", "FunctionSchema", "FutureType", "Graph", "IntType", "InterfaceType",
        "JITException", "ListType", "Node", "NoneType", "NumberType", "OptionalType", "ScriptMethod",
        "ScriptObject", "StringType", "TensorType", "TupleType", "Type", "UnionType", "Value",
    ),
    "namespace.quantization": (
        "_fake_quantize_learnable_per_channel_affine", "_fake_quantize_learnable_per_tensor_affine",
        "_make_per_channel_quantized_tensor", "_make_per_tensor_quantized_tensor", "choose_qparams_optimized",
        "dequantize", "empty_quantized", "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine",
        "fused_moving_avg_obs_fake_quant", "int_repr", "per_channel_affine", "per_channel_affine_float_qparams",
        "per_channel_symmetric", "per_tensor_affine", "per_tensor_symmetric", "q_per_channel_axis",
        "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme",
        "quantize_per_channel", "quantize_per_tensor", "quantize_per_tensor_dynamic", "quantized_batch_norm",
        "quantized_max_pool1d", "quantized_max_pool2d",
    ),
    "namespace.devices": ("available_devices",),
    "namespace.legacy": (
        "compiled_with_cxx11_abi", "dsmm", "eig", "frobenius_norm", "get_num_interop_threads", "is_distributed",
        "is_vulkan_available", "is_warn_always_enabled", "lstsq", "matrix_rank", "norm_except_dim", "nuclear_norm",
        "range", "set_flush_denormal", "set_num_interop_threads", "set_warn_always", "solve", "spmm", "sym_float",
        "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum", "symeig",
    ),
    "namespace.reserved": (
        "float4_e2m1fn_x2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "int1", "int2", "int3", "int4",
        "int5", "int6", "int7", "qint32", "qint8", "quint2x4", "quint4x2", "quint8", "uint1", "uint2", "uint3",
        "uint4", "uint5", "uint6", "uint7",
    ),
    "namespace.checks": (
        "_assert_async", "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all",
        "_check_tensor_all_with", "_check_type", "_check_value", "_check_with",
    ),
    "namespace.private": (
        "_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo",
        "_grouped_mm", "_has_compatible_shallow_copy_type", "_int_mm", "_sample_dirichlet", "_scaled_mm",
        "_shape_as_tensor",
        "_softmax_backward_data",
    ),
    "namespace.symbols": ("SymBool", "SymFloat"),
    "nested.conversion": (
        "_nested_from_padded", "_nested_from_padded_and_nested_example", "_nested_tensor_from_mask",
        "_nested_tensor_from_mask_left_aligned",
    ),
    "nested.encoder": ("_native_multi_head_attention", "_transform_bias_rescale_qkv"),
    "nested.sizes": ("SymInt",),
    "nn.functional": ("celu_", "rrelu_", "selu_", "threshold_"),
    "overrides": ("_assert",),
    "random": ("default_generator",),
    "serialization": ("load", "save"),
    "serialization.file_reader": ("PyTorchFileReader",),
    "storage": (
        "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
        "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage", "StorageBase",
        "_LegacyStorage", "_storage_classes",
    ),
}
#: The module of each name.
SOURCES: Final = {name: module for module, names in _NAMES.items() for name in names}
