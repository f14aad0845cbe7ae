"""Conversions of models to quantized tensors, which do not exist here."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused(
    "ao.quantization.observer",
    "AffineQuantizedObserverBase FixedQParamsObserver HistogramObserver MinMaxObserver "
    "MovingAverageMinMaxObserver MovingAveragePerChannelMinMaxObserver NoopObserver ObserverBase "
    "PerChannelMinMaxObserver PlaceholderObserver UniformQuantizationObserverBase default_observer "
    "default_placeholder_observer",
    "there are no quantized tensors, which a converted model has",
    "keep the model in floats, or round its weights with torchao's quantize_"))
