"""Logged values as messages of tensorboard."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from ...errors import ArgumentError, ArgumentTypeError
from .encoding import numpy_of, png
from .protocol import proto

#: Precision-recall curves: true and false positives, true and false negatives, precision, recall.
_CURVES: Final = 6


def _value(tag: str, **fields: Any) -> Any:
    return proto("summary", "Summary", value=[proto("summary", "Summary").Value(tag=tag, **fields)])


def _metadata(plugin: str, content: bytes = b"") -> Any:
    kind = proto("summary", "SummaryMetadata")
    return type(kind)(plugin_data=kind.PluginData(plugin_name=plugin, content=content))


def _shape(*sizes: int) -> Any:
    kind = proto("tensor_shape", "TensorShapeProto")
    return type(kind)(dim=[kind.Dim(size=size) for size in sizes])


def number(value: Any) -> float:
    """Return a number, or the only element of a tensor.

    Raises:
        ArgumentError: The tensor has several elements.
    """
    array = numpy_of(value)
    if array.size != 1:
        raise ArgumentError("add_scalar", f"a value of shape {array.shape}", "a scalar is one number", "reduce it")
    return float(array.reshape(-1)[0])


def scalar(tag: str, value: Any, new_style: bool, double: bool) -> Any:
    """Return one number."""
    if not new_style:
        return _value(tag, simple_value=number(value))
    fields = {"dtype": "DT_DOUBLE", "double_val": [number(value)]} if double else {
        "dtype": "DT_FLOAT", "float_val": [number(value)]}
    return _value(tag, tensor=proto("tensor", "TensorProto", **fields), metadata=_metadata("scalars"))


def tensor(tag: str, value: Any) -> Any:
    """Return a float tensor."""
    array = numpy_of(value).astype(np.float32)
    message = proto("tensor", "TensorProto", dtype="DT_FLOAT", tensor_shape=_shape(*array.shape),
                    float_val=array.reshape(-1).tolist())
    return _value(tag, tensor=message, metadata=_metadata("tensor"))


def edges(bins: Any, values: Any, max_bins: int | None) -> Any:
    """Return the edges of a histogram: given, or by a rule; ``tensorflow`` means powers of 1.1."""
    if isinstance(bins, str) and bins == "tensorflow":
        powers = np.cumprod(np.concatenate([[1e-12], np.full(774, 1.1)]))
        powers = powers[powers < 1e20]
        return np.concatenate([-powers[::-1], [0.0], powers])
    found = np.histogram_bin_edges(values, bins)
    if max_bins is not None and len(found) - 1 > max_bins:
        found = np.linspace(found[0], found[-1], max_bins + 1)
    return found


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None) -> Any:
    """Count numbers in bins.

    Raises:
        ArgumentError: ``values`` is empty.
    """
    array = numpy_of(values).astype(np.float64).reshape(-1)
    if not array.size:
        raise ArgumentError("add_histogram", "no values", "a histogram has at least one value", "pass values")
    counts, limits = np.histogram(array, edges(bins, array, max_bins))
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ArgumentError("add_histogram", "values outside of all bins", "a value lies in a bin", "pass other bins")
    # An empty bin on each side marks the first and last values.
    first, last = max(filled[0] - 1, 0), min(filled[-1] + 1, len(counts) - 1)
    counts, limits = counts[first:last + 1], limits[first + 1:last + 2]
    return histogram_raw(tag, float(array.min()), float(array.max()), array.size, float(array.sum()),
                         float((array * array).sum()), limits.tolist(), counts.tolist())


def histogram_raw(tag: str, low: float, high: float, num: int, total: float, squares: float,
                  limits: Sequence[float], counts: Sequence[float]) -> Any:
    """Return a histogram whose counts are known."""
    message = proto("histogram", "HistogramProto", min=low, max=high, num=num, sum=total, sum_squares=squares,
                    bucket_limit=limits, bucket=counts)
    return _value(tag, histo=message)


def picture(tag: str, pixels: Any) -> Any:
    """Return a picture of [H, W, C] bytes."""
    height, width, channels = pixels.shape
    return encoded_picture(tag, png(pixels), height, width, channels)


def encoded_picture(tag: str, data: bytes, height: int, width: int, channels: int = 3) -> Any:
    """Return a picture that is already encoded."""
    kind = proto("summary", "Summary")
    return _value(tag, image=kind.Image(height=height, width=width, colorspace=channels, encoded_image_string=data))


def sound(tag: str, data: bytes, rate: int, frames: int) -> Any:
    """Return a WAV file."""
    kind = proto("summary", "Summary")
    return _value(tag, audio=kind.Audio(sample_rate=rate, num_channels=1, length_frames=frames,
                                        encoded_audio_string=data, content_type="audio/wav"))


def text(tag: str, value: str) -> Any:
    """Return a text in Markdown."""
    message = proto("tensor", "TensorProto", dtype="DT_STRING", string_val=[value.encode()], tensor_shape=_shape(1))
    content = proto("plugin_text", "TextPluginData", version=0).SerializeToString()
    return _value(f"{tag}/text_summary", tensor=message, metadata=_metadata("text", content))


def precision_recall(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any) -> Any:
    """Return a precision-recall curve over thresholds from 0 to 1."""
    right, given = numpy_of(labels).reshape(-1).astype(np.float64), numpy_of(predictions).reshape(-1)
    weight = np.ones_like(right) if weights is None else numpy_of(weights).reshape(-1).astype(np.float64)
    places = np.floor(given * (thresholds - 1)).astype(int)
    hits = np.histogram(places, bins=thresholds, range=(0, thresholds - 1), weights=right * weight)[0][::-1].cumsum()
    misses = np.histogram(places, bins=thresholds, range=(0, thresholds - 1),
                          weights=(1 - right) * weight)[0][::-1].cumsum()
    tp, fp = hits[::-1], misses[::-1]
    tn, fn = fp[0] - fp, tp[0] - tp
    tiny = 1e-7
    return precision_recall_raw(tag, np.stack([tp, fp, tn, fn, tp / np.maximum(tiny, tp + fp),
                                               tp / np.maximum(tiny, tp + fn)]), thresholds)


def precision_recall_raw(tag: str, curves: Any, thresholds: int) -> Any:
    """Return a curve whose counts are known, [6, thresholds]."""
    content = proto("plugin_pr_curve", "PrCurvePluginData", version=0, num_thresholds=thresholds).SerializeToString()
    message = proto("tensor", "TensorProto", dtype="DT_FLOAT", tensor_shape=_shape(_CURVES, curves.shape[1]),
                    float_val=numpy_of(curves).reshape(-1).tolist())
    return _value(tag, tensor=message, metadata=_metadata("pr_curves", content))


# -------------------------------------------------------------------------------------------------- hyperparameters


def _field(value: Any) -> Any:
    struct = importlib.import_module("google.protobuf.struct_pb2")
    if isinstance(value, bool):
        return struct.Value(bool_value=value), "DATA_TYPE_BOOL"
    if isinstance(value, str):
        return struct.Value(string_value=value), "DATA_TYPE_STRING"
    return struct.Value(number_value=number(value)), "DATA_TYPE_FLOAT64"


def hyperparameters(settings: dict[str, Any], metrics: Iterable[str],
                    domains: dict[str, Sequence[Any]] | None) -> tuple[Any, Any, Any]:
    """Return three summaries: the experiment, the start of a session with its settings, and its end.

    Raises:
        ArgumentTypeError: Settings are not a dict.
    """
    if not isinstance(settings, dict):
        raise ArgumentTypeError("add_hparams", f"settings of type {type(settings).__name__}",
                                "hyperparameters are a dict", "pass a dict of names and values")
    api, plugin = "plugin_hparams", "hparams"
    session = proto(api, "SessionStartInfo")
    infos = []
    for name, value in settings.items():
        field, kind = _field(value)
        session.hparams[name].CopyFrom(field)
        info = proto("api", "HParamInfo", name=name, type=kind)
        for choice in (domains or {}).get(name, ()):
            info.domain_discrete.values.append(_field(choice)[0])
        infos.append(info)
    metric_infos = [proto("api", "MetricInfo", name=proto("api", "MetricName", tag=tag)) for tag in metrics]
    experiment = proto("api", "Experiment", hparam_infos=infos, metric_infos=metric_infos)
    end = proto(api, "SessionEndInfo", status="STATUS_SUCCESS")

    def wrapped(tag: str, **content: Any) -> Any:
        data = proto(api, "HParamsPluginData", version=0, **content).SerializeToString()
        return _value(tag, metadata=_metadata(plugin, data))

    return (wrapped("_hparams_/experiment", experiment=experiment),
            wrapped("_hparams_/session_start_info", session_start_info=session),
            wrapped("_hparams_/session_end_info", session_end_info=end))


def layout(charts: dict[str, dict[str, Any]]) -> Any:
    """Return charts of several scalars: category to title to (``Multiline`` or ``Margin``, tags)."""
    kind = "layout"
    categories = []
    for name, contents in charts.items():
        made = []
        for title, (style, tags) in contents.items():
            if style == "Margin":
                series = proto(kind, "MarginChartContent").Series(value=tags[0], lower=tags[1], upper=tags[2])
                made.append(proto(kind, "Chart", title=title, margin=proto(kind, "MarginChartContent",
                                                                           series=[series])))
            else:
                made.append(proto(kind, "Chart", title=title, multiline=proto(kind, "MultilineChartContent", tag=tags)))
        categories.append(proto(kind, "Category", title=name, chart=made))
    message = proto("tensor", "TensorProto", dtype="DT_STRING", tensor_shape=_shape(),
                    string_val=[proto(kind, "Layout", category=categories).SerializeToString()])
    return _value("custom_scalars__config__", tensor=message, metadata=_metadata("custom_scalars"))


