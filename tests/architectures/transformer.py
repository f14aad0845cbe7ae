"""The encoder-decoder transformer for translation, over the layers of the library."""

import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, width, length=64):
        super().__init__()
        position = torch.arange(length).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(1, length, width)
        table[0, :, 0::2] = torch.sin(position * frequency)
        table[0, :, 1::2] = torch.cos(position * frequency)
        self.register_buffer("pe", table)

    def forward(self, x):
        return x + self.pe[:, :x.size(1)]


class Translator(nn.Module):
    def __init__(self, words=20, width=16):
        super().__init__()
        self.width = width
        self.source = nn.Embedding(words, width, padding_idx=0)
        self.target = nn.Embedding(words, width)
        self.positions = PositionalEncoding(width)
        self.transformer = nn.Transformer(
            d_model=width, nhead=4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=32, dropout=0.0,
            batch_first=True)
        self.generator = nn.Linear(width, words)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1), device=target.device)
        padding = source == 0
        x = self.positions(self.source(source) * math.sqrt(self.width))
        y = self.positions(self.target(target) * math.sqrt(self.width))
        z = self.transformer(x, y, tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding)
        return self.generator(z)


def build():
    return Translator()


def inputs():
    source = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 1, 0, 0]])
    return source, torch.tensor([[1, 11, 12, 13], [1, 14, 15, 2]])
