"""The PyTorch script that language_model.rs mirrors."""

import math
import re

import torch
import twin
from positions import PositionalEncoding
from torch import nn, optim
from torch.nn import functional as F

WIDTH, LAYERS, DROPOUT, BATCH, LENGTH = 96, 2, 0.3, 8, 24


class Recurrent(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.drop = nn.Dropout(DROPOUT)
        self.encoder = nn.Embedding(words, WIDTH)
        self.rnn = nn.LSTM(WIDTH, WIDTH, LAYERS, dropout=DROPOUT)
        self.decoder = nn.Linear(WIDTH, words)

    def forward(self, x, state):
        output, (h, c) = self.rnn(self.drop(self.encoder(x)), state)
        return self.decoder(self.drop(output)), (h.detach(), c.detach())


class Transformer(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embedding = nn.Embedding(words, WIDTH)
        self.position = PositionalEncoding(WIDTH, LENGTH, DROPOUT)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, DROPOUT)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.decoder = nn.Linear(WIDTH, words)

    def forward(self, x, state):
        mask = nn.Transformer.generate_square_subsequent_mask(len(x))
        x = self.position(self.embedding(x) * math.sqrt(WIDTH))
        return self.decoder(self.encoder(x, mask)), None


def columns(words):
    rows = len(words) // BATCH
    return words[: rows * BATCH].view(BATCH, rows).t().contiguous()


def windows(columns):
    for i in range(0, len(columns) - 1, LENGTH):
        length = min(LENGTH, len(columns) - 1 - i)
        yield columns[i : i + length], columns[i + 1 : i + 1 + length].reshape(-1)


@torch.no_grad()
def average(model, columns):
    model.eval()
    total, state = 0.0, None
    for x, target in windows(columns):
        logits, state = model(x, state)
        total += F.cross_entropy(logits.flatten(0, 1), target).item() * len(x)
    return total / (len(columns) - 1)


def main(argv=None):
    args = twin.arguments(argv, model="lstm", epochs=20)
    words = re.findall(r"[a-z'-]+|[.,:;?!\n]", twin.text("sonnets.txt").lower())
    vocabulary = {w: i for i, w in enumerate(sorted(set(words)))}
    numbers = torch.tensor([vocabulary[w] for w in words])
    known = len(numbers) * 9 // 10
    train, test = columns(numbers[:known]), columns(numbers[known:])
    torch.manual_seed(0)
    model = {"lstm": Recurrent, "transformer": Transformer}[args.model](len(vocabulary))
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    losses, unseen = [], []
    for _ in range(args.epochs):
        model.train()
        state = None
        for x, target in windows(train):
            optimizer.zero_grad()
            logits, state = model(x, state)
            loss = F.cross_entropy(logits.flatten(0, 1), target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
        unseen.append(math.exp(average(model, test)))
    steps = len(losses) // max(args.epochs, 1)
    if unseen:
        print(f"perplexity {math.exp(sum(losses[-steps:]) / steps):.2f}, of unseen words {unseen[-1]:.2f}")
    twin.save_losses(args, losses + unseen)


if __name__ == "__main__":
    main()
