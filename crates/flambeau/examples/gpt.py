"""The small GPT of common/gpt.rs, for char_gpt.py and lora.py."""

import torch
from torch import nn, optim
from torch.nn import functional as F

LENGTH, BATCH, WIDTH, HEADS, BLOCKS, DROPOUT = 64, 16, 96, 4, 3, 0.1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        n, l, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, l, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(n, l, WIDTH)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Gpt(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(BLOCKS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)

    def forward(self, x):
        x = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_at(model, text, starts):
    at = starts + torch.arange(LENGTH)
    return F.cross_entropy(model(text[at]).flatten(0, 1), text[at + 1].flatten(0, 1))


def train(model, text, steps):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = optim.AdamW(parameters, lr=2e-3, weight_decay=0.01)
    model.train()
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(text) - LENGTH, (BATCH, 1))
        optimizer.zero_grad()
        loss = loss_at(model, text, starts)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def loss(model, text):
    model.eval()
    return loss_at(model, text, torch.arange(0, len(text) - LENGTH, LENGTH).unsqueeze(1)).item()
