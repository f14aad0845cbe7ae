"""A generative transformer: causal attention, normalisation first, weights of input and output tied."""

import torch
import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.heads = heads
        self.register_buffer("bias", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in self.c_attn(x).split(c, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
        scores = scores.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, length)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "act": nn.GELU(approximate="tanh"),
                                      "c_proj": nn.Linear(4 * width, width), "dropout": nn.Dropout(0.1)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        m = self.mlp
        return x + m.dropout(m.c_proj(m.act(m.c_fc(self.ln_2(x)))))


class GPT(nn.Module):
    def __init__(self, words=26, width=16, heads=4, depth=2, length=16):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(words, width), "wpe": nn.Embedding(length, width), "drop": nn.Dropout(0.1),
            "h": nn.ModuleList([Block(width, heads, length) for _ in range(depth)]), "ln_f": nn.LayerNorm(width)})
        self.lm_head = nn.Linear(width, words, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        position = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(position))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


def build():
    return GPT()


def inputs():
    idx = (torch.arange(24) * 7 % 26).view(2, 12)
    targets = (idx * 3 + 1) % 26
    targets[0, 0] = -1
    return idx, targets
