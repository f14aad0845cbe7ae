"""A variational autoencoder; its noise is an input."""

import torch
import torch.nn.functional as F
from torch import nn


class VAE(nn.Module):
    def __init__(self, size=64, hidden=32, latent=6):
        super().__init__()
        self.fc1 = nn.Linear(size, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, size)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, noise):
        std = torch.exp(0.5 * logvar)
        return mu + noise * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, noise):
        mu, logvar = self.encode(x.view(x.size(0), -1))
        recon = self.decode(self.reparameterize(mu, logvar, noise))
        bce = F.binary_cross_entropy(recon, x.view(x.size(0), -1), reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return recon, mu, logvar, bce + kld


def build():
    return VAE()


def inputs():
    x = torch.sin(torch.arange(192.0, dtype=torch.float64)).float().reshape(3, 1, 8, 8).abs()
    return x, torch.cos(torch.arange(18.0, dtype=torch.float64)).float().reshape(3, 6)
