"""Where a word stands, as a vector that is added to it: common/positions.rs."""

import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, width, longest, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(longest).unsqueeze(1)
        frequencies = (torch.arange(0, width, 2) * (-math.log(10000.0) / width)).exp()
        pe = torch.zeros(longest, 1, width)
        pe[:, 0, 0::2] = (position * frequencies).sin()
        pe[:, 0, 1::2] = (position * frequencies).cos()
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0)])
