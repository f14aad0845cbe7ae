"""Layers with inputs, for ``modules.py``, which builds each with either library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

RNG: Final = np.random.default_rng(0)
Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """A layer: its constructor over ``nn`` and a function that makes tensors, and its inputs.

    A list among the inputs stands for a tuple of tensors, a dict for keyword arguments. With ``packed``, the first
    input is packed with these lengths.
    """

    make: Callable[[Any, Callable[[Any], Any]], Any]
    arguments: tuple[Any, ...]
    training: bool = True
    packed: tuple[int, ...] = ()


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def positive(*shape: int) -> Array:
    return (RNG.random(size=shape) + 0.05).astype(np.float32)


def probabilities(*shape: int) -> Array:
    return RNG.uniform(0.05, 0.95, size=shape).astype(np.float32)


def distribution(*shape: int) -> Array:
    values = positive(*shape)
    return values / values.sum(1, keepdims=True)


def classes(high: int, *shape: int) -> Array:
    return RNG.integers(0, high, size=shape)


def signs(*shape: int) -> Array:
    return RNG.choice([-1.0, 1.0], size=shape).astype(np.float32)


def distinct(*shape: int) -> Array:
    """Return values without ties, for maxima."""
    return (RNG.permutation(int(np.prod(shape))).reshape(shape) / 7).astype(np.float32)


SIGNAL, IMAGE, VOLUME = normal(2, 4, 9), normal(2, 4, 7, 8), normal(2, 4, 5, 6, 7)
SPACES: Final = {1: SIGNAL, 2: IMAGE, 3: VOLUME}
MAXIMA: Final = {1: distinct(2, 4, 9), 2: distinct(2, 4, 7, 8), 3: distinct(2, 4, 5, 6, 7)}


def layers(name: str, *arguments: tuple[Any, ...], inputs: tuple[Any, ...], **fixed: Any) -> list[Case]:
    """Return cases of one layer with several sets of arguments; the last of each set is a dict of keyword arguments."""
    return [Case(lambda nn, t, given=given: getattr(nn, name)(*given[:-1], **given[-1]), inputs, **fixed)
            for given in arguments]


ELEMENTWISE: Final = [
    ("CELU", 1.5), ("ELU", 0.7), ("GELU",), ("GELU", "tanh"), ("GLU", 1), ("Hardshrink",), ("Hardsigmoid",),
    ("Hardswish",), ("Hardtanh", -0.5, 0.7), ("LeakyReLU", 0.2), ("LogSigmoid",), ("LogSoftmax", 1), ("Mish",),
    ("PReLU", 4), ("ReLU",), ("ReLU6",), ("SELU",), ("SiLU",), ("Sigmoid",), ("Softmax", 1), ("Softmax2d",),
    ("Softmin", 1), ("Softplus", 2.0), ("Softshrink",), ("Softsign",), ("Tanh",), ("Tanhshrink",),
    ("Threshold", 0.1, 0.3), ("Identity",), ("Flatten",), ("Unflatten", 1, (2, 2)), ("ChannelShuffle", 2),
    ("PixelShuffle", 2), ("Unfold", (2, 3), 1, 1, 2), ("GroupNorm", 2, 4), ("LayerNorm", (7, 8)), ("RMSNorm", (7, 8)),
    ("LocalResponseNorm", 3, 0.5), ("CrossMapLRN2d", 4, 0.5), ("Upsample", None, 2), ("UpsamplingNearest2d", 5),
    ("Upsample", None, (1.5, 2), "bilinear"), ("Upsample", (5, 6), None, "bicubic", True),
    ("UpsamplingBilinear2d", None, 2), ("LayerNorm", 8, 1e-3, True, False), ("RMSNorm", 8, 0.1, False),
    ("GroupNorm", 4, 4, 1e-2, False), ("BatchNorm2d", 4), ("BatchNorm2d", 4, 1e-3, None), ("BatchNorm2d", 4, 0.1, 0.3),
    ("BatchNorm2d", 4, 1e-5, 0.1, False, False), ("SyncBatchNorm", 4), ("InstanceNorm2d", 4),
    ("InstanceNorm2d", 4, 1e-5, 0.2, True, True), ("LazyBatchNorm2d",), ("LazyInstanceNorm2d",),
    ("LazyConv2d", 6, 3, 2), ("LazyConvTranspose2d", 6, 3, 2), ("LazyLinear", 5), ("AvgPool2d", 3, 2, 1, True, False),
    ("AvgPool2d", (2, 3), None, 0, False, True, 5),
    ("Conv2d", 4, 6, (3, 2), (2, 1), (1, 0), 1, 2, False), ("Conv2d", 4, 6, 3, 1, "same", 2),
    ("Conv2d", 4, 6, 3, 1, "valid"), *(("Conv2d", 4, 6, 3, 1, 2, 1, 1, True, m) for m in
                                       ("zeros", "reflect", "replicate", "circular")),
    ("Conv2d", 4, 6, 4, 1, "same", 1, 1, True, "reflect"), ("ConvTranspose2d", 4, 6, 3, 2, 1, 1, 2, True, 2),
]
EVALUATED: Final = ["Dropout", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU"]
PAIRS: Final[list[tuple[str, tuple[Any, ...], dict[str, Any]]]] = [
    *((name, (normal(5, 3), normal(5, 3)), {"reduction": r}) for name in
      ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss") for r in ("mean", "sum", "none")),
    ("SmoothL1Loss", (normal(5, 3), normal(5, 3)), {"beta": 0.3}), ("HuberLoss", (normal(5, 3), normal(5, 3)),
                                                                    {"delta": 0.3}),
    ("BCELoss", (probabilities(5, 3), probabilities(5, 3)), {}),
    ("BCEWithLogitsLoss", (normal(5, 3), probabilities(5, 3)), {}),
    ("KLDivLoss", (normal(5, 3), distribution(5, 3)), {"reduction": "batchmean"}),
    ("KLDivLoss", (normal(5, 3), normal(5, 3)), {"reduction": "sum", "log_target": True}),
    ("PoissonNLLLoss", (normal(5, 3), positive(5, 3) * 5), {"full": True}),
    ("PoissonNLLLoss", (positive(5, 3), positive(5, 3)), {"log_input": False}),
    ("GaussianNLLLoss", (normal(5, 3), normal(5, 3), positive(5, 3)), {"full": True}),
    ("HingeEmbeddingLoss", (normal(5, 3), signs(5, 3)), {"margin": 0.4}),
    ("SoftMarginLoss", (normal(5, 3), signs(5, 3).astype(np.int64)), {}),
    ("MultiLabelMarginLoss", (normal(2, 4), np.array([[3, 0, -1, 1], [1, -1, 2, 0]])), {}),
    ("MultiLabelSoftMarginLoss", (normal(5, 3), classes(2, 5, 3).astype(np.float32)), {}),
    ("MultiMarginLoss", (normal(5, 3), classes(3, 5)), {"p": 2, "margin": 0.7}),
    ("CosineEmbeddingLoss", (normal(5, 3), normal(5, 3), signs(5)), {"margin": 0.2}),
    ("MarginRankingLoss", (normal(5), normal(5), signs(5)), {"margin": 0.2}),
    ("TripletMarginLoss", (normal(5, 3), normal(5, 3), normal(5, 3)), {"swap": True, "p": 3}),
    ("TripletMarginWithDistanceLoss", (normal(5, 3), normal(5, 3), normal(5, 3)), {"margin": 0.5}),
    ("NLLLoss", (normal(5, 3, 2), classes(3, 5, 2)), {"ignore_index": 1}), ("NLLLoss2d", (normal(2, 3, 4, 5),
                                                                            classes(3, 2, 4, 5)), {}),
    ("CrossEntropyLoss", (normal(5, 3), classes(3, 5)), {"label_smoothing": 0.1}),
    ("CrossEntropyLoss", (normal(5, 3), distribution(5, 3)), {"reduction": "sum"}),
    ("CosineSimilarity", (normal(5, 3), normal(5, 3)), {}), ("PairwiseDistance", (normal(5, 3), normal(5, 3)),
                                                             {"p": 1.5, "keepdim": True}),
    ("CTCLoss", (-positive(12, 3, 6), classes(5, 3, 4) + 1, np.array([12, 10, 8]), np.array([4, 3, 2])), {}),
]


def _spaces() -> list[Case]:
    cases = []
    for n, x in SPACES.items():
        top = MAXIMA[n]
        cases += layers(f"Conv{n}d", (4, 6, 3, {}), inputs=(x,)) + layers(f"Conv{n}d", (4, 6, 3, {}), inputs=(x[0],))
        cases += layers(f"LazyConv{n}d", (6, 3, {"groups": 2}), inputs=(x,))
        cases += layers(f"ConvTranspose{n}d", (4, 6, 3, 2, {}), inputs=(x,))
        cases += layers(f"LazyConvTranspose{n}d", (6, 2, {"bias": False}), inputs=(x,))
        cases += layers(f"ConvTranspose{n}d", (4, 6, 3, 2, {}),
                        inputs=(x, {"output_size": [2 * size + 2 for size in x.shape[2:]]}))
        cases += layers(f"BatchNorm{n}d", (4, {}), (4, {"bias": False}), inputs=(x,))
        cases += layers(f"BatchNorm{n}d", (4, {}), inputs=(x,), training=False)
        cases += layers(f"LazyBatchNorm{n}d", ({},), inputs=(x,))
        cases += layers(f"InstanceNorm{n}d", (4, {"affine": True}), inputs=(x,))
        cases += layers(f"InstanceNorm{n}d", (4, {"track_running_stats": True}), inputs=(x[0],))
        cases += layers(f"LazyInstanceNorm{n}d", ({},), inputs=(x,))
        cases += layers(f"MaxPool{n}d", (2, {}), (3, 2, 1, {"dilation": 1, "ceil_mode": True, "return_indices": True}),
                        inputs=(top,))
        cases += layers(f"AvgPool{n}d", (3, 2, 1, {}), inputs=(x,))
        cases += layers(f"LPPool{n}d", (2.0, 3, {"ceil_mode": True}), inputs=(np.abs(x),))
        cases += layers(f"AdaptiveAvgPool{n}d", (3, {}), inputs=(x,))
        cases += layers(f"AdaptiveMaxPool{n}d", (3, {"return_indices": True}), inputs=(top,))
        for kind in ("Reflection", "Replication", "Circular", "Zero"):
            cases += layers(f"{kind}Pad{n}d", (2, {}), (tuple(range(1, 2 * n + 1))[:2 * n] if n < 2 else (1, 2) * n,
                                                        {}), inputs=(x,))
        cases += layers(f"ConstantPad{n}d", (2, 0.5, {}), inputs=(x,))
        places = tuple(size // 2 for size in x.shape[2:])
        grid = np.stack([RNG.permutation(int(np.prod(x.shape[2:])))[:int(np.prod(places))] for _ in range(8)])
        cases += layers(f"MaxUnpool{n}d", (2, {}), inputs=(
            normal(2, 4, *places), grid.reshape(2, 4, *places), {"output_size": list(x.shape[2:])}))
    for n in (2, 3):
        samples = RNG.random(size=(2, 4, n)).astype(np.float32)
        for options in ({"output_size": 3, "return_indices": True}, {"output_ratio": 0.6}):
            cases.append(Case(lambda nn, t, n=n, s=samples, o=options: getattr(nn, f"FractionalMaxPool{n}d")(
                2, _random_samples=t(s), **o), (MAXIMA[n],)))
    return cases


def _indices() -> list[Case]:
    index, flat, offsets = classes(7, 3, 4), classes(7, 12), np.array([0, 5, 5])
    cases = layers("Embedding", (7, 5, {}), (7, 5, {"padding_idx": 2}), (7, 5, {"max_norm": 1.0, "norm_type": 1.0}),
                   (7, 5, {"scale_grad_by_freq": True}), inputs=(index,))
    cases += layers("EmbeddingBag", (7, 5, {}), (7, 5, {"mode": "sum"}), (7, 5, {"mode": "max"}),
                    (7, 5, {"padding_idx": 2, "max_norm": 1.0}), inputs=(index,))
    cases += layers("EmbeddingBag", (7, 5, {}), inputs=(flat, offsets))
    cases += layers("EmbeddingBag", (7, 5, {"mode": "sum", "include_last_offset": True}),
                    inputs=(flat, np.array([0, 5, 12]), normal(12)))
    cases += layers("AdaptiveLogSoftmaxWithLoss", (8, 20, [5, 10], {"div_value": 2.0, "head_bias": True}),
                    (8, 20, [5], {}), inputs=(normal(6, 8), np.array([0, 4, 5, 9, 19, 12])))
    cases += layers("LinearCrossEntropyLoss", (8, 5, {}), (8, 5, {"bias": True, "reduction": "sum"}),
                    inputs=(normal(6, 8), classes(5, 6)))
    cases += layers("LinearCrossEntropyLoss", (8, 5, {"out_features": (2,)}), inputs=(normal(6, 8), classes(5, 6, 2)))
    return cases


def _recurrent() -> list[Case]:
    steps, cases = normal(5, 3, 4), []
    options: list[dict[str, Any]] = [
        {}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True},
        {"num_layers": 3, "dropout": 0.5}]
    for name in ("RNN", "LSTM", "GRU"):
        cells = 2 if name == "LSTM" else 1
        extra: list[dict[str, Any]] = [{"proj_size": 3, "bidirectional": True, "num_layers": 2}] if cells == 2 else []
        extra += [{"nonlinearity": "relu"}] if name == "RNN" else []
        for given in options + extra:
            evaluated = {"training": not given.get("dropout")}
            cases += layers(name, (4, 6, given), inputs=(steps,), **evaluated)
            cases += layers(name, (4, 6, given), inputs=(steps,), packed=(3, 5, 1) if not given.get("batch_first") else
                            (3, 1, 3, 2, 3), **evaluated)
        cases += layers(name, (4, 6, {}), inputs=(steps[:, 0],))
        first = [normal(2, 3, 6) for _ in range(cells)]
        cases += layers(name, (4, 6, {"num_layers": 2}), inputs=(steps, first if cells == 2 else first[0]))
        cases += layers(name, (4, 6, {"num_layers": 2}), inputs=(steps, first if cells == 2 else first[0]),
                        packed=(3, 5, 1))
        cell = [normal(3, 6) for _ in range(cells)]
        cases += layers(f"{name}Cell", (4, 6, {}), (4, 6, {"bias": False}), inputs=(steps[0],))
        cases += layers(f"{name}Cell", (4, 6, {}), inputs=(steps[0], cell if cells == 2 else cell[0]))
        cases += layers(f"{name}Cell", (4, 6, {}), inputs=(steps[0, 0],))
    cases += layers("RNNCell", (4, 6, True, "relu", {}), inputs=(steps[0],))
    return cases


def _attention() -> list[Case]:
    query, memory = normal(5, 3, 8), normal(6, 3, 8)
    causal = np.triu(np.ones((5, 5), bool), 1)
    padding = np.zeros((3, 6), bool)
    padding[1, 4:] = True
    cases = layers("MultiheadAttention", (8, 2, {}), (8, 4, {"bias": False, "add_zero_attn": True}),
                   (8, 2, {"add_bias_kv": True}), inputs=(query, memory, memory))
    cases += layers("MultiheadAttention", (8, 2, {}), inputs=(query, memory, memory, padding, False))
    cases += layers("MultiheadAttention", (8, 2, {}), inputs=(query, memory, memory, padding, True, {
        "average_attn_weights": False}))
    cases += layers("MultiheadAttention", (8, 2, {}), inputs=(query, query, query, {"attn_mask": causal}))
    cases += layers("MultiheadAttention", (8, 2, {}), inputs=(query[:, 0], memory[:, 0], memory[:, 0]))
    cases += layers("MultiheadAttention", (8, 2, {"kdim": 4, "vdim": 6, "batch_first": True}),
                    inputs=(query.swapaxes(0, 1).copy(), normal(3, 6, 4), normal(3, 6, 6)))
    small: dict[str, Any] = {"dropout": 0.0, "dim_feedforward": 12}
    styles = [small, {**small, "norm_first": True, "activation": "gelu"}, {**small, "bias": False}]
    cases += layers("TransformerEncoderLayer", *((8, 2, style) for style in styles), inputs=(query, causal))
    cases += layers("TransformerEncoderLayer", (8, 2, small), inputs=(memory, {"src_key_padding_mask": padding}))
    cases += layers("TransformerDecoderLayer", *((8, 2, style) for style in styles),
                    inputs=(query, memory, {"tgt_mask": causal, "memory_key_padding_mask": padding}))
    for depth, name, inputs in ((2, "Encoder", (query, causal)), (2, "Decoder", (query, memory, causal))):
        cases.append(Case(lambda nn, t, d=depth, n=name: getattr(nn, f"Transformer{n}")(
            getattr(nn, f"Transformer{n}Layer")(8, 2, **small), d, nn.LayerNorm(8)), inputs))
    both = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    cases += layers("Transformer", (8, 2, {**small, **both}), inputs=(memory, query, {"tgt_mask": causal}))
    cases += layers("Transformer", (8, 2, {**small, **both, "batch_first": True}),
                    inputs=(memory.swapaxes(0, 1).copy(), query.swapaxes(0, 1).copy()))
    return cases


def _rest() -> list[Case]:
    weight = positive(3)
    cases = [case for name, *given in ELEMENTWISE for case in layers(name, (*given, {}), inputs=(IMAGE,))]
    cases += [case for name in EVALUATED for case in layers(name, ({},), inputs=(IMAGE,), training=False)]
    cases += [case for name, inputs, options in PAIRS for case in layers(name, (options,), inputs=inputs)]
    cases += layers("BatchNorm1d", (4, {}), inputs=(normal(6, 4),))
    cases += layers("Dropout1d", (0.3, {}), inputs=(SIGNAL,), training=False)
    cases += layers("SyncBatchNorm", (4, {}), inputs=(normal(6, 4),), training=False)
    cases += layers("PixelUnshuffle", (2, {}), inputs=(normal(2, 3, 6, 4),))
    cases += layers("Fold", ((5, 6), 2, {"stride": 1}), inputs=(normal(2, 12, 20),))
    cases += layers("Linear", (5, 3, {}), (5, 3, {"bias": False}), inputs=(normal(2, 4, 5),))
    cases += layers("Bilinear", (5, 3, 4, {}), (5, 3, 4, {"bias": False}), inputs=(normal(2, 5), normal(2, 3)))
    for name, target in (("NLLLoss", classes(3, 5)), ("CrossEntropyLoss", classes(3, 5)),
                         ("MultiMarginLoss", classes(3, 5)), ("BCELoss", probabilities(5, 3)),
                         ("BCEWithLogitsLoss", probabilities(5, 3)),
                         ("MultiLabelSoftMarginLoss", classes(2, 5, 3).astype(np.float32))):
        cases.append(Case(lambda nn, t, n=name: getattr(nn, n)(weight=t(weight)), (probabilities(5, 3), target)))
    cases.append(Case(lambda nn, t: nn.BCEWithLogitsLoss(pos_weight=t(weight)), (normal(5, 3), probabilities(5, 3))))
    for name in ("Sequential", "ModuleList"):
        cases.append(Case(lambda nn, t, n=name: nn.Sequential(
            nn.Sequential(nn.Linear(5, 3), nn.Tanh()) if n == "Sequential" else nn.ModuleList([nn.Tanh()])[0]),
            (normal(2, 5),)))
    cases.append(Case(lambda nn, t: nn.ModuleDict({"a": nn.Linear(5, 3)})["a"], (normal(2, 5),)))
    return cases


CASES: Final = [*_spaces(), *_indices(), *_recurrent(), *_attention(), *_rest()]
#: Classes that compute nothing, and those that work on several devices.
NO_CASE: Final = frozenset((
    "Buffer", "Container", "DataParallel", "LinearCrossEntropyOptions", "Module", "ModuleDict", "ModuleList",
    "Parameter", "ParameterDict", "ParameterList", "RNNBase", "RNNCellBase", "UninitializedBuffer",
    "UninitializedParameter",
))
#: Classes whose gradients in PyTorch are not the derivatives of their results: ``torch.autograd.gradcheck`` fails.
OWN_GRADIENT: Final = frozenset(("CrossMapLRN2d",))
