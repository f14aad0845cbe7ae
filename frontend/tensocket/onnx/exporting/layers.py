"""Our functions for layers; in opset 18."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from .functions import Call, fixed, own, pair
from .matching import NoMatch


def _batched(c: Call, dims: int) -> tuple[Any, bool]:
    """Return an image with a batch, and whether it was added."""
    alone = len(c.source.shape) == dims + 1
    return (c.op.Unsqueeze(c.input, c.recorder.constant([0], ir.DataType.INT64)) if alone else c.input), alone


def _unbatched(c: Call, value: Any, alone: bool) -> Any:
    return c.op.Squeeze(value, c.recorder.constant([0], ir.DataType.INT64)) if alone else value


@own("conv1d", "conv2d", "conv3d")
def conv(c: Call) -> Any:
    """Translate a convolution."""
    weight = c.given["weight"].meta["val"].shape
    dims = len(weight) - 2
    x, alone = _batched(c, dims)
    options: dict[str, Any] = {"strides": pair(c.values["stride"], dims), "group": int(c.values["groups"]),
                               "dilations": pair(c.values["dilation"], dims), "kernel_shape": list(weight[2:])}
    padding = c.values["padding"]
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(options["dilations"], weight[2:], strict=True)]
        options["pads"] = [t // 2 for t in totals] + [t - t // 2 for t in totals]
    elif padding != "valid":
        options["pads"] = pair(padding, dims) * 2
    return _unbatched(c, c.op.Conv(x, c.values["weight"], c.values.get("bias"), **options), alone)


@own("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(c: Call) -> Any:
    """Translate a transposed convolution."""
    weight = c.given["weight"].meta["val"].shape
    dims = len(weight) - 2
    x, alone = _batched(c, dims)
    found = c.op.ConvTranspose(
        x, c.values["weight"], c.values.get("bias"), strides=pair(c.values["stride"], dims),
        pads=pair(c.values["padding"], dims) * 2, output_padding=pair(c.values["output_padding"], dims),
        dilations=pair(c.values["dilation"], dims), group=int(c.values["groups"]),
        kernel_shape=[fixed(n) for n in weight[2:]])
    return _unbatched(c, found, alone)


def _window(c: Call, dims: int) -> dict[str, Any]:
    kernel = pair(c.values["kernel_size"], dims)
    stride = c.values.get("stride")
    steps = kernel if stride is None or stride == [] else pair(stride, dims)
    return {"kernel_shape": kernel, "strides": steps, "pads": pair(c.values.get("padding", 0), dims) * 2,
            "ceil_mode": int(bool(c.values.get("ceil_mode", False)))}


def _dims(c: Call) -> int:
    return next(int(letter) for letter in str(c.node.target.name) if letter.isdigit())


@own("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(c: Call) -> Any:
    """Translate the largest elements of windows."""
    dims = _dims(c)
    x, alone = _batched(c, dims)
    found = c.op.MaxPool(x, dilations=pair(c.values.get("dilation", 1), dims), **_window(c, dims))[0]
    if isinstance(c.form, (list, tuple)):
        raise NoMatch("the places of largest elements")
    return _unbatched(c, found, alone)


@own("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(c: Call) -> Any:
    """Translate the means of windows."""
    dims = _dims(c)
    if c.values.get("divisor_override"):
        raise NoMatch("divisor_override")
    x, alone = _batched(c, dims)
    found = c.op.AveragePool(x, count_include_pad=int(bool(c.values.get("count_include_pad", True))),
                             **_window(c, dims))
    return _unbatched(c, found, alone)


@own("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
     "adaptive_max_pool3d")
def adaptive_pool(c: Call) -> Any:
    """Translate pooling to a size that divides that of the image."""
    dims = _dims(c)
    kind = "Average" if "avg" in str(c.node.target.name) else "Max"
    sizes = list(c.source.shape[-dims:])
    wanted = c.values["output_size"]
    wanted = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted] * dims
    wanted = [s if w is None else w for s, w in zip(sizes, wanted, strict=True)]
    x, alone = _batched(c, dims)
    if kind == "Average" and all(w == 1 for w in wanted):
        return _unbatched(c, c.op.GlobalAveragePool(x), alone)
    if any(hasattr(s, "name") for s in sizes):
        raise NoMatch("adaptive pooling of sizes that change")
    if kind == "Average":
        return _unbatched(c, _averaged(c, x, sizes, wanted), alone)
    if any(s % w for s, w in zip(sizes, wanted, strict=True)):
        raise NoMatch(f"adaptive pooling from {sizes} to {wanted}, which are not multiples")
    kernel = [s // w for s, w in zip(sizes, wanted, strict=True)]
    best, places = c.op.MaxPool(x, kernel_shape=kernel, strides=kernel)
    places = c.op.Mod(places, c.recorder.constant(math.prod(sizes), ir.DataType.INT64))
    return [_unbatched(c, best, alone), _unbatched(c, places, alone)]


def _averaged(c: Call, x: Any, sizes: list[int], wanted: list[int]) -> Any:
    """Return the means of parts that cover the image: windows, or products with matrices for parts of unequal sizes."""
    if not any(s % w for s, w in zip(sizes, wanted, strict=True)):
        kernel = [s // w for s, w in zip(sizes, wanted, strict=True)]
        return c.op.AveragePool(x, kernel_shape=kernel, strides=kernel)
    rank = 2 + len(sizes)
    for k, (size, count) in enumerate(zip(sizes, wanted, strict=True)):
        matrix = [[0.0] * count for _ in range(size)]
        for j in range(count):
            first, last = j * size // count, -(-(j + 1) * size // count)
            for i in range(first, last):
                matrix[i][j] = 1 / (last - first)
        order = [d for d in range(rank) if d != 2 + k] + [2 + k]
        back = [order.index(d) for d in range(rank)]
        product = c.op.MatMul(c.op.Transpose(x, perm=order), c.recorder.constant(matrix, c.input.dtype))
        x = c.op.Transpose(product, perm=back)
    return x


@own("lp_pool1d", "lp_pool2d", "lp_pool3d")
def lp_pool(c: Call) -> Any:
    """Translate the p-norms of windows."""
    p = c.values["norm_type"]
    if p != int(p) or int(p) % 2 or int(p) < 1:
        raise NoMatch(f"lp_pool of order {p}: odd powers have signs")
    dims = _dims(c)
    x, alone = _batched(c, dims)
    window = _window(c, dims)
    return _unbatched(c, c.op.LpPool(x, p=int(p), **window), alone)


@own("view_dtype", "embedding_bag")
def unknown(c: Call) -> Any:
    """Refuse operators that no opset from 18 to 23 expresses, or whose arguments differ from torch_lib's."""
    raise NoMatch(str(c.node.target.name))


@own("batch_norm")
def batch_norm(c: Call) -> Any:
    """Translate batch normalization by running statistics, or by those of the batch."""
    mean, var = c.values.get("running_mean"), c.values.get("running_var")
    training = c.values["training"] or mean is None
    dims = [0, *range(2, len(c.source.shape))]
    shape = c.recorder.constant([-1] + [1] * (len(c.source.shape) - 2), ir.DataType.INT64)

    def wide(value: Any) -> Any:
        return c.op.Reshape(value, shape)

    if not training and c.values.get("weight") is not None and c.values.get("bias") is not None:
        return c.op.BatchNormalization(c.input, c.values["weight"], c.values["bias"], mean, var,
                                       epsilon=float(c.values["eps"]))
    if training:
        axes = c.recorder.constant(dims, ir.DataType.INT64)
        mean = c.op.ReduceMean(c.input, axes, keepdims=1)
        centred = c.op.Sub(c.input, mean)
        var = c.op.ReduceMean(c.op.Mul(centred, centred), axes, keepdims=1)
    else:
        centred, var = c.op.Sub(c.input, wide(mean)), wide(var)
    found = c.op.Div(centred, c.op.Sqrt(c.op.Add(var, c.recorder.constant(float(c.values["eps"]), c.input.dtype))))
    found = found if c.values.get("weight") is None else c.op.Mul(found, wide(c.values["weight"]))
    return found if c.values.get("bias") is None else c.op.Add(found, wide(c.values["bias"]))


@own("layer_norm")
def layer_norm(c: Call) -> Any:
    """Translate layer normalization."""
    shape = [int(n) for n in c.values["normalized_shape"]]
    weight = c.values.get("weight")
    weight = c.op.Expand(c.recorder.constant(1.0, c.input.dtype), c.sizes(shape)) if weight is None else weight
    return c.op.LayerNormalization(c.input, weight, c.values.get("bias"), axis=-len(shape),
                                   epsilon=float(c.values["eps"]))[0]


@own("rms_norm")
def rms_norm(c: Call) -> Any:
    """Translate x over the root of the mean of its squares."""
    axes = c.recorder.constant(list(range(-len(c.values["normalized_shape"]), 0)), ir.DataType.INT64)
    eps = c.values.get("eps")
    mean = c.op.ReduceMean(c.op.Mul(c.input, c.input), axes, keepdims=1)
    root = c.op.Sqrt(c.op.Add(mean, c.recorder.constant(1.1920928955078125e-07 if eps is None else float(eps),
                                                        c.input.dtype)))
    found = c.op.Div(c.input, root)
    return found if c.values.get("weight") is None else c.op.Mul(found, c.values["weight"])


@own("embedding")
def embedding(c: Call) -> Any:
    """Translate rows of a table."""
    return c.op.Gather(c.values["weight"], c.values["indices"])


@own("linear")
def linear(c: Call) -> Any:
    """Translate x @ weight^T + bias."""
    weight, bias = c.values["weight"], c.values.get("bias")
    if len(c.source.shape) == 2 and bias is not None:
        return c.op.Gemm(c.input, weight, bias, transB=1)
    product = c.op.MatMul(c.input, c.op.Transpose(weight, perm=[1, 0]))
    return product if bias is None else c.op.Add(product, bias)


@own("interpolate")
def interpolate(c: Call) -> Any:
    """Translate resizing of images."""
    mode, align = c.values.get("mode", "nearest"), bool(c.values.get("align_corners"))
    kind = {"nearest": "nearest", "nearest-exact": "nearest", "linear": "linear", "bilinear": "linear",
            "trilinear": "linear", "bicubic": "cubic"}.get(mode)
    if mode == "area" and not any(hasattr(n, "name") for n in (*c.source.shape[2:], *c.form.shape[2:])):
        return _averaged(c, c.input, [int(n) for n in c.source.shape[2:]], [int(n) for n in c.form.shape[2:]])
    if kind is None:
        raise NoMatch(f"interpolation with mode={mode!r} of sizes that change")
    dims = len(c.source.shape) - 2
    coordinates = "align_corners" if align else "asymmetric" if mode == "nearest" else (
        "half_pixel" if mode == "nearest-exact" else "pytorch_half_pixel")
    options = {"mode": kind, "coordinate_transformation_mode": coordinates, "cubic_coeff_a": -0.75,
               "antialias": int(bool(c.values.get("antialias")))}
    if kind == "nearest":
        options["nearest_mode"] = "floor" if mode == "nearest" else "round_prefer_ceil"
    factor, size = c.values.get("scale_factor"), c.values.get("size")
    if size is None and not c.values.get("recompute_scale_factor"):
        factors = factor if isinstance(factor, (list, tuple)) else [factor] * dims
        scales = c.recorder.constant([1.0, 1.0, *map(float, factors)], ir.DataType.FLOAT)
        return c.op.Resize(c.input, None, scales, **options)
    spatial = [fixed(n) for n in c.form.shape[2:]] if size is None else (
        list(size) if isinstance(size, (list, tuple)) else [size] * dims)
    sizes = c.op.Concat(c.op.Shape(c.input, start=0, end=2), c.sizes(spatial), axis=0)
    return c.op.Resize(c.input, None, None, sizes, **options)


@own("gru", "rnn_tanh", "rnn_relu")
def recurrent(c: Call) -> Any:
    """Translate layers of gated or simple recurrent units; gates are reset, update, new here, and z, r, h in ONNX."""
    kind, op = str(c.node.target.name), c.op
    gates = 3 if kind == "gru" else 1
    directions = 2 if c.values["bidirectional"] else 1
    each = 4 if c.values["has_biases"] else 2
    x = op.Transpose(c.input, perm=[1, 0, 2]) if c.values["batch_first"] else c.input
    if len(c.source.shape) != 3:
        raise NoMatch("sequences without a batch")
    last = []
    for layer in range(c.values["num_layers"]):
        columns: list[list[Any]] = [[], [], []]
        for d in range(directions):
            start = (layer * directions + d) * each
            parts = [_gates(c, p, gates) for p in c.values["params"][start:start + each]]
            columns[0].append(parts[0])
            columns[1].append(parts[1])
            if each == 4:
                columns[2].append(op.Concat(parts[2], parts[3], axis=0))
        line = c.recorder.constant([0], ir.DataType.INT64)
        w, r, b = (op.Concat(*[op.Unsqueeze(v, line) for v in column], axis=0) if column else None
                   for column in columns)
        first, after = layer * directions, (layer + 1) * directions
        state = op.Slice(c.values["hx"], c.sizes([first]), c.sizes([after]), c.sizes([0]))
        options: dict[str, Any] = {"direction": "bidirectional" if directions == 2 else "forward",
                                   "hidden_size": fixed(c.given["hx"].meta["val"].shape[-1])}
        if kind == "gru":
            y, h = op.GRU(x, w, r, b, None, state, linear_before_reset=1, **options)
        else:
            word = "Tanh" if kind == "rnn_tanh" else "Relu"
            y, h = op.RNN(x, w, r, b, None, state, activations=[word] * directions, **options)
        last.append(h)
        y = op.Transpose(y, perm=[0, 2, 1, 3])
        x = op.Reshape(y, c.sizes([0, 0, -1]))
    x = op.Transpose(x, perm=[1, 0, 2]) if c.values["batch_first"] else x
    return [x, op.Concat(*last, axis=0) if len(last) > 1 else last[0]]


def _gates(c: Call, value: Any, gates: int) -> Any:
    """Return weights or biases with the gates in ONNX's order."""
    if gates == 1:
        return value
    reset, update, new = c.op.Split(value, axis=0, num_outputs=3)
    return c.op.Concat(update, reset, new, axis=0)


@own("grid_sample")
def grid_sample(c: Call) -> Any:
    """Translate images, read at places from -1 to 1."""
    if len(c.source.shape) != 4:
        raise NoMatch("samples of volumes")
    return c.op.GridSample(c.input, c.values["grid"], mode=c.values["mode"], padding_mode=c.values["padding_mode"],
                           align_corners=int(bool(c.values.get("align_corners"))))


@own("col2im")
def fold(c: Call) -> Any:
    """Translate an image that is a sum of columns."""
    size, kernel, gaps, pads, steps = (pair(c.values[name], 2) for name in (
        "output_size", "kernel_size", "dilation", "padding", "stride"))
    return c.op.Col2Im(c.input, c.sizes(size), c.sizes(kernel), dilations=gaps, pads=pads * 2, strides=steps)


@own("channel_shuffle")
def channel_shuffle(c: Call) -> Any:
    """Translate channels of groups by turns."""
    groups, channels = int(c.values["groups"]), fixed(c.source.shape[1])
    rest = c.op.Shape(c.input, start=2)
    batch = c.op.Shape(c.input, start=0, end=1)
    parts = c.op.Reshape(c.input, c.op.Concat(batch, c.sizes([groups, channels // groups]), rest, axis=0))
    rank = len(c.source.shape) + 1
    return c.op.Reshape(c.op.Transpose(parts, perm=[0, 2, 1, *range(3, rank)]), c.op.Shape(c.input))
