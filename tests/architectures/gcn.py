"""A graph convolutional network on a sparse adjacency matrix."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parameter import Parameter


class GraphConvolution(nn.Module):
    def __init__(self, features, width):
        super().__init__()
        self.weight = Parameter(torch.FloatTensor(features, width))
        self.bias = Parameter(torch.FloatTensor(width))
        bound = 1.0 / math.sqrt(width)
        self.weight.data.uniform_(-bound, bound)
        self.bias.data.uniform_(-bound, bound)

    def forward(self, x, adjacency):
        return torch.spmm(adjacency, torch.mm(x, self.weight)) + self.bias


class GCN(nn.Module):
    def __init__(self, features=6, hidden=8, classes=3):
        super().__init__()
        self.gc1 = GraphConvolution(features, hidden)
        self.gc2 = GraphConvolution(hidden, classes)
        self.drop = nn.Dropout(0.5)

    def forward(self, x, adjacency):
        x = self.drop(F.relu(self.gc1(x, adjacency)))
        return F.log_softmax(self.gc2(x, adjacency), dim=1)


def build():
    return GCN()


def inputs():
    edges = torch.tensor([[0, 0, 1, 1, 2, 3, 3, 4], [0, 1, 1, 2, 2, 3, 4, 4]])
    adjacency = torch.sparse_coo_tensor(edges, torch.full((8,), 0.5), (5, 5))
    return torch.sin(torch.arange(30.0, dtype=torch.float64)).float().reshape(5, 6), adjacency
