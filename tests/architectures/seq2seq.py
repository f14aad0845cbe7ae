"""Translation with recurrent networks: a bidirectional GRU reads, a GRU with attention writes."""

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, words, width, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, hidden, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, hidden)

    def forward(self, source, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(source), lengths.cpu(), batch_first=True)
        outputs, hidden = self.rnn(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
        return outputs, torch.tanh(self.fc(torch.cat((hidden[-2], hidden[-1]), dim=1)))


class Decoder(nn.Module):
    def __init__(self, words, width, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.attention = nn.Linear(3 * hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.rnn = nn.GRUCell(2 * hidden + width, hidden)
        self.out = nn.Linear(hidden, words)

    def forward(self, word, state, outputs, mask):
        repeated = state.unsqueeze(1).repeat(1, outputs.size(1), 1)
        energy = torch.tanh(self.attention(torch.cat((repeated, outputs), dim=2)))
        weights = F.softmax(self.score(energy).squeeze(2).masked_fill(mask, -1e10), dim=1)
        context = torch.bmm(weights.unsqueeze(1), outputs).squeeze(1)
        state = self.rnn(torch.cat((self.embedding(word), context), dim=1), state)
        return self.out(state), state


class Seq2Seq(nn.Module):
    def __init__(self, words=20, width=8, hidden=12):
        super().__init__()
        self.encoder = Encoder(words, width, hidden)
        self.decoder = Decoder(words, width, hidden)

    def forward(self, source, lengths, target):
        outputs, state = self.encoder(source, lengths)
        mask = torch.arange(source.size(1), device=source.device)[None, :] >= lengths.to(source.device)[:, None]
        scores = []
        for k in range(target.size(1)):
            score, state = self.decoder(target[:, k], state, outputs, mask)
            scores.append(score)
        return torch.stack(scores, dim=1)


def build():
    return Seq2Seq()


def inputs():
    source = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0]])
    return source, torch.tensor([5, 3]), torch.tensor([[1, 11, 12], [1, 13, 2]])
