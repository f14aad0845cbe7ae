"""A language model of two LSTM layers."""

import torch
from torch import nn


class RNNModel(nn.Module):
    def __init__(self, words=30, width=12, hidden=16, layers=2):
        super().__init__()
        self.words, self.hidden, self.layers = words, hidden, layers
        self.drop = nn.Dropout(0.5)
        self.encoder = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, hidden, layers)
        self.decoder = nn.Linear(hidden, words)
        self.init_weights()

    def init_weights(self):
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def init_hidden(self, batch):
        weight = next(self.parameters())
        return (weight.new_zeros(self.layers, batch, self.hidden), weight.new_zeros(self.layers, batch, self.hidden))

    def forward(self, x):
        output, (h, c) = self.rnn(self.drop(self.encoder(x)), self.init_hidden(x.size(1)))
        decoded = self.decoder(self.drop(output)).view(-1, self.words)
        return torch.log_softmax(decoded, dim=1), h, c


def build():
    return RNNModel()


def inputs():
    return ((torch.arange(21) * 11 % 30).view(7, 3),)
