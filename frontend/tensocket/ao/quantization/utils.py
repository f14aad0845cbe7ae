"""Conversions of models to quantized tensors, which do not exist here."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused(
    "ao.quantization.utils",
    "MatchAllNode get_qparam_dict is_per_channel is_per_tensor to_underlying_dtype weight_is_quantized",
    "there are no quantized tensors, which a converted model has",
    "keep the model in floats, or round its weights with torchao's quantize_"))
