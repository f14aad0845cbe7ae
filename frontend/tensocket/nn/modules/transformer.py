"""Encoders and decoders of attention layers (Vaswani et al., 2017)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

from tensocket.amp.autocast_mode import is_autocast_enabled
from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn import functional as F
from tensocket.nn import init
from tensocket_operators import Tensor, full, is_grad_enabled
from tensocket_plugins.contract.value_observers import is_exporting

from .activation import GELU, ReLU
from .container import ModuleList
from .dropout import Dropout
from .layers.attention import MultiheadAttention
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

Activation = Callable[[Tensor], Tensor]
#: Whether encoders may skip padding; ``backends.mha`` sets it.
FAST_PATH: Final = [True]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    """Return (sz, sz): minus infinity above the diagonal, where keys come after their query, and zeros elsewhere."""
    mask: Tensor = full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
    return mask


def _get_clones(module: Module, N: int) -> ModuleList:
    """Return copies of a module, with the same initial values."""
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_activation_fn(activation: str) -> Activation:
    """Return the activation function of a name.

    Raises:
        ArgumentError: The name is unknown.
    """
    if activation not in ("relu", "gelu"):
        raise ArgumentError("Transformer", f"activation={activation!r}", "activation should be relu/gelu, or a "
                            "function", "pass one of the two names")
    return F.relu if activation == "relu" else F.gelu


def _get_seq_len(src: Tensor, batch_first: bool) -> int | None:
    """Return the number of steps."""
    return src.shape[1 if batch_first and src.dim() == 3 else 0] if src.dim() in (2, 3) else None


def _detect_is_causal_mask(mask: Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Whether a mask is the causal one; if ``is_causal`` is given, trust it. Exported programs read no elements."""
    if is_causal is not None or mask is None or is_exporting():
        return bool(is_causal)
    causal = _generate_square_subsequent_mask(mask.shape[-2] if size is None else size, mask.device)
    return tuple(mask.shape) == tuple(causal.shape) and bool((_scores(mask) == causal).all())


def _scores(mask: Tensor) -> Tensor:
    """Return the mask as a tensor that is added to scores."""
    if mask.is_floating_point():
        return mask
    added: Tensor = full(tuple(mask.shape), 0.0, device=mask.device).masked_fill(mask, -math.inf)
    return added


class _Layer(Module):
    """Base class of the layers of encoders and decoders: self-attention and two linear layers."""

    activation: Any

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int, dropout: float, activation: str | Activation,
        layer_norm_eps: float, batch_first: bool, norm_first: bool, bias: bool, device: Any, dtype: Any,
        attentions: tuple[str, ...],
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        for name in attentions:
            self.add_module(name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first = norm_first
        count = len(attentions) + 1
        for number in range(1, count + 1):
            self.add_module(f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, **place))
        for number in range(1, count + 1):
            self.add_module(f"dropout{number}", Dropout(dropout))
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("activation", F.relu)

    def _residual(self, x: Tensor, norm: Module, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Add a block of ``x`` to ``x``, normalised before the block or after the sum."""
        if self.norm_first:
            return x + block(norm(x))
        result: Tensor = norm(x + block(x))
        return result

    def _sa_block(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                  is_causal: bool = False) -> Tensor:
        """Return self-attention."""
        x = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
                           is_causal=is_causal and attn_mask is not None)[0]
        result: Tensor = self.dropout1(x)
        return result

    def _linear(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return result


class TransformerEncoderLayer(_Layer):
    """Self-attention, then two linear layers; each result is added to its input and normalised.

    Args:
        d_model: Size of inputs and outputs.
        nhead: Number of heads.
        dim_feedforward: Size between the two linear layers.
        dropout: Probability of dropout.
        activation: ``relu``, ``gelu`` or a function, between the linear layers.
        layer_norm_eps: Added to variances.
        batch_first: Whether examples are the first dimension, instead of steps.
        norm_first: Whether normalisation comes before attention and linear layers instead of after the sums.
        bias: Whether layers have biases.
        device: Device of the parameters.
        dtype: Their dtype.

    Raises:
        ArgumentError: The activation is unknown.
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                         bias, device, dtype, ("self_attn",))

    def forward(self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool = False) -> Tensor:
        """Map (S, N, d_model), transposed with ``batch_first``, to the same shape.

        Args:
            src: The sequence.
            src_mask: (S, S) or (N * nhead, S, S), as ``attn_mask`` of ``MultiheadAttention``.
            src_key_padding_mask: (N, S).
            is_causal: Whether ``src_mask`` is the causal mask.
        """
        x = self._residual(src, self.norm1,
                           lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal))
        return self._residual(x, self.norm2, self._ff_block)

    def _ff_block(self, x: Tensor) -> Tensor:
        """Apply the two linear layers."""
        result: Tensor = self.dropout2(self._linear(x))
        return result


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's outputs, then two linear layers; each is added and normalised.

    Arguments are those of ``TransformerEncoderLayer``.
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                         bias, device, dtype, ("self_attn", "multihead_attn"))

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:
        """Map (T, N, d_model) and (S, N, d_model), transposed with ``batch_first``, to (T, N, d_model).

        Args:
            tgt: The sequence.
            memory: The encoder's outputs.
            tgt_mask: (T, T) or (N * nhead, T, T), as ``attn_mask`` of ``MultiheadAttention``.
            memory_mask: (T, S) or (N * nhead, T, S).
            tgt_key_padding_mask: (N, T).
            memory_key_padding_mask: (N, S).
            tgt_is_causal: Whether ``tgt_mask`` is the causal mask.
            memory_is_causal: Whether ``memory_mask`` is the causal mask.
        """
        x = self._residual(tgt, self.norm1,
                           lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self._residual(x, self.norm2, lambda x: self._mha_block(x, memory, memory_mask, memory_key_padding_mask,
                                                                    memory_is_causal))
        return self._residual(x, self.norm3, self._ff_block)

    def _mha_block(self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                   is_causal: bool = False) -> Tensor:
        """Return attention to the encoder's outputs."""
        x = self.multihead_attn(x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
                                need_weights=False, is_causal=is_causal and attn_mask is not None)[0]
        result: Tensor = self.dropout2(x)
        return result

    def _ff_block(self, x: Tensor) -> Tensor:
        """Apply the two linear layers."""
        result: Tensor = self.dropout3(self._linear(x))
        return result


class TransformerEncoder(Module):
    """A chain of copies of a layer, with an optional normalisation at the end.

    Args:
        encoder_layer: The layer.
        num_layers: Number of copies.
        norm: The normalisation.
        enable_nested_tensor: Whether padded steps are skipped if nothing is trained and no gradient is recorded: layers
            then take a nested tensor, and padded steps of the result are zeros.
        mask_check: Whether padding is skipped only if it follows the steps of each example.
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor and _takes_nested(encoder_layer)
        self.mask_check = mask_check

    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
                is_causal: bool | None = None) -> Tensor:
        """Run all layers; arguments are those of a layer. If ``is_causal`` is not given, the mask decides."""
        first: Any = self.layers[0]
        length = _get_seq_len(src, first.self_attn.batch_first) if hasattr(first, "self_attn") else None
        causal = _detect_is_causal_mask(mask, is_causal, length)
        padding = src_key_padding_mask
        output, padding = self._without_padding(src, mask, padding)
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if output.is_nested and not src.is_nested:
            output = output.to_padded_tensor(0.0, tuple(src.shape))
        result: Tensor = output if self.norm is None else self.norm(output)
        return result


    def _without_padding(self, src: Tensor, mask: Tensor | None,
                         padding: Tensor | None) -> tuple[Any, Tensor | None]:
        """Return ``src``, as a nested tensor if padding can be skipped, and the padding mask that remains."""
        first: Any = self.layers[0]
        if (padding is None or mask is not None or not getattr(self, "use_nested_tensor", False) or first.training
                or src.dim() != 3 or src.is_nested or is_autocast_enabled() or not FAST_PATH[0] or is_exporting()
                or (is_grad_enabled() and any(x.requires_grad for x in (src, *first.parameters())))):
            return src, padding
        conversion = import_module("tensocket.nested.conversion")
        kept = padding.logical_not()
        if getattr(self, "mask_check", True) and not conversion._nested_tensor_from_mask_left_aligned(src, kept):
            return src, padding
        return conversion._nested_tensor_from_mask(src, kept, False), None


def _takes_nested(layer: Module) -> bool:
    """Whether PyTorch passes nested tensors to copies of a layer."""
    if not isinstance(layer, TransformerEncoderLayer) or layer.norm_first:
        return False
    attention: Any = layer.self_attn
    known = layer.activation in (F.relu, F.gelu) or isinstance(layer.activation, (ReLU, GELU))
    return bool(known and attention.batch_first and attention._qkv_same_embed_dim
                and attention.in_proj_bias is not None and attention.num_heads % 2 == 0
                and layer.norm1.eps == layer.norm2.eps)


class TransformerDecoder(Module):
    """A chain of copies of a layer, with an optional normalisation at the end.

    Args:
        decoder_layer: The layer.
        num_layers: Number of copies.
        norm: The normalisation.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:
        """Run all layers; arguments are those of a layer. If ``tgt_is_causal`` is not given, the mask decides."""
        first: Any = self.layers[0]
        length = _get_seq_len(tgt, first.self_attn.batch_first) if hasattr(first, "self_attn") else None
        causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        output = tgt
        for layer in self.layers:
            output = layer(output, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                           tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                           tgt_is_causal=causal, memory_is_causal=memory_is_causal)
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder of attention layers.

    Args:
        d_model: Size of inputs and outputs.
        nhead: Number of heads.
        num_encoder_layers: Layers of the encoder.
        num_decoder_layers: Layers of the decoder.
        dim_feedforward: Size between the two linear layers of a layer.
        dropout: Probability of dropout.
        activation: ``relu``, ``gelu`` or a function, between the linear layers.
        custom_encoder: An encoder to use instead of one of layers.
        custom_decoder: A decoder, likewise.
        layer_norm_eps: Added to variances.
        batch_first: Whether examples are the first dimension, instead of steps.
        norm_first: Whether normalisation comes before attention and linear layers instead of after the sums.
        bias: Whether layers have biases.
        device: Device of the parameters.
        dtype: Their dtype.

    Raises:
        ArgumentError: The activation is unknown, or the heads do not divide ``d_model``.
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: str | Activation = F.relu,
        custom_encoder: Any = None, custom_decoder: Any = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:
        super().__init__()
        sizes: tuple[Any, ...] = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                                  norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*sizes), num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*sizes), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:
        """Map (S, N, d_model) and (T, N, d_model), transposed with ``batch_first``, to (T, N, d_model).

        Masks are those of ``TransformerDecoderLayer``; ``src_mask`` (S, S) and ``src_key_padding_mask`` (N, S) belong
        to the encoder.

        Raises:
            ShapeError: The sequences have different numbers of examples, or another size than ``d_model``.
        """
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise ShapeError("Transformer", f"src {list(src.shape)} and tgt {list(tgt.shape)}", "the batch number of "
                             "src and tgt must be equal", "check batch_first")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError("Transformer", f"src {list(src.shape)} and tgt {list(tgt.shape)} for d_model="
                             f"{self.d_model}", "the feature number of src and tgt must be equal to d_model",
                             "project them first")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        output: Tensor = self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal)
        return output

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the causal mask, (sz, sz): minus infinity where keys come after their query, and zeros elsewhere."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        """Draw new initial values for all matrices."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)


__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]
