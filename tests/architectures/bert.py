"""A masked language model in the manner of BERT; the output layer shares its weight with the embedding."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Embeddings(nn.Module):
    def __init__(self, words, width, length):
        super().__init__()
        self.word_embeddings = nn.Embedding(words, width, padding_idx=0)
        self.position_embeddings = nn.Embedding(length, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("position_ids", torch.arange(length).expand((1, -1)))

    def forward(self, ids, types):
        positions = self.position_ids[:, :ids.size(1)]
        x = self.word_embeddings(ids) + self.position_embeddings(positions) + self.token_type_embeddings(types)
        return self.dropout(self.LayerNorm(x))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.dense = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.intermediate = nn.Linear(width, 2 * width)
        self.output = nn.Linear(2 * width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1)) + mask
        context = torch.matmul(F.softmax(scores, dim=-1), v).permute(0, 2, 1, 3).contiguous()
        x = self.norm1(x + self.dense(context.view(*x.shape)))
        return self.norm2(x + self.output(F.gelu(self.intermediate(x))))


class MaskedLanguageModel(nn.Module):
    def __init__(self, words=30, width=16, length=12):
        super().__init__()
        self.embeddings = Embeddings(words, width, length)
        self.layer = nn.ModuleList(Layer(width, 2) for _ in range(2))
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.decoder = nn.Linear(width, words)
        self.decoder.weight = self.embeddings.word_embeddings.weight
        self.pooler = nn.Linear(width, 2)

    def forward(self, ids, types, attention):
        mask = (1.0 - attention[:, None, None, :]) * -10000.0
        x = self.embeddings(ids, types)
        for layer in self.layer:
            x = layer(x, mask)
        return self.decoder(self.transform(x)), self.pooler(torch.tanh(x[:, 0]))


def build():
    return MaskedLanguageModel()


def inputs():
    ids = torch.tensor([[1, 5, 9, 13, 2, 0], [1, 7, 8, 9, 10, 2]])
    return ids, (torch.arange(6) > 2).long().expand(2, 6), (ids != 0).float()
