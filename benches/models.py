"""The networks of the benchmark, from torch.nn alone. The Rust side has the same in src/models/: modules are made in the same
order, so that one seed gives the same weights."""
import torch
from torch import nn
from torch.nn import functional as F


# ---------------------------------------------------------------- building blocks
def conv(inputs, outputs, kernel, stride=1, groups=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)


def he(model):
    """Weights of convolutions by He et al., so that signals keep their size however deep the network is."""
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
    return model


def mlp(*widths):
    """Linear layers with ReLU between them."""
    layers = [nn.Linear(i, o) for i, o in zip(widths, widths[1:])]
    return nn.Sequential(*[m for l in layers for m in (l, nn.ReLU())][:-1])


# ---------------------------------------------------------------- images
class Residual(nn.Module):
    def __init__(self, inputs, width, outputs, stride, bottleneck):
        super().__init__()
        relu, norm = lambda: nn.ReLU(inplace=True), nn.BatchNorm2d
        if bottleneck:
            self.body = nn.Sequential(
                conv(inputs, width, 1), norm(width), relu(),
                conv(width, width, 3, stride), norm(width), relu(),
                conv(width, outputs, 1), norm(outputs))
        else:
            self.body = nn.Sequential(
                conv(inputs, width, 3, stride), norm(width), relu(),
                conv(width, outputs, 3), norm(outputs))
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(conv(inputs, outputs, 1, stride), norm(outputs))
        self.relu = relu()

    def forward(self, x):
        y = self.body(x)
        y += self.shortcut(x) if self.shortcut else x
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self, counts, bottleneck):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        self.blocks, inputs = nn.ModuleList(), 64
        for stage, count in enumerate(counts):
            width = 64 << stage
            outputs = width * 4 if bottleneck else width
            for i in range(count):
                self.blocks.append(Residual(inputs, width, outputs, 2 if stage > 0 and i == 0 else 1, bottleneck))
                inputs = outputs
        self.fc = nn.Linear(inputs, 1000)
        he(self)

    def forward(self, x):
        x = self.stem(x)
        for b in self.blocks:
            x = b(x)
        return self.fc(x.mean((2, 3)))


resnet18 = lambda: ResNet([2, 2, 2, 2], False)
resnet50 = lambda: ResNet([3, 4, 6, 3], True)


class SqueezeExcitation(nn.Module):
    def __init__(self, width, squeezed):
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(width, squeezed, 1), nn.Conv2d(squeezed, width, 1)
        self.relu, self.scale = nn.ReLU(), nn.Hardsigmoid()

    def forward(self, x):
        return self.scale(self.fc2(self.relu(self.fc1(self.pool(x))))) * x


def mobile_norm(width):
    return nn.BatchNorm2d(width, eps=0.001, momentum=0.01)


class InvertedResidual(nn.Module):
    def __init__(self, inputs, kernel, width, outputs, squeezed, hard, stride):
        super().__init__()
        act = lambda: nn.Hardswish(inplace=True) if hard else nn.ReLU(inplace=True)
        self.body = nn.Sequential()
        if width != inputs:
            self.body.extend([conv(inputs, width, 1), mobile_norm(width), act()])
        self.body.extend([conv(width, width, kernel, stride, width), mobile_norm(width), act()])
        if squeezed:
            self.body.append(SqueezeExcitation(width, squeezed))
        self.body.extend([conv(width, outputs, 1), mobile_norm(outputs)])
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        y = self.body(x)
        if self.residual:
            y += x
        return y


# inputs, kernel, width, outputs, squeezed, hardswish, stride
MOBILE = [
    (16, 3, 16, 16, 8, False, 2),
    (16, 3, 72, 24, 0, False, 2),
    (24, 3, 88, 24, 0, False, 1),
    (24, 5, 96, 40, 24, True, 2),
    (40, 5, 240, 40, 64, True, 1),
    (40, 5, 240, 40, 64, True, 1),
    (40, 5, 120, 48, 32, True, 1),
    (48, 5, 144, 48, 40, True, 1),
    (48, 5, 288, 96, 72, True, 2),
    (96, 5, 576, 96, 144, True, 1),
    (96, 5, 576, 96, 144, True, 1),
]


class MobileNetV3Small(nn.Module):
    """Without the dropout before the last layer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 3, 2), mobile_norm(16), nn.Hardswish(inplace=True))
        self.blocks = nn.ModuleList(InvertedResidual(*row) for row in MOBILE)
        self.last = nn.Sequential(conv(96, 576, 1), mobile_norm(576), nn.Hardswish(inplace=True))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(576, 1024), nn.Hardswish(inplace=True), nn.Linear(1024, 1000))
        he(self)

    def forward(self, x):
        x = self.stem(x)
        for b in self.blocks:
            x = b(x)
        return self.classifier(self.pool(self.last(x)).flatten(1))


def double_conv(inputs, outputs):
    parts = []
    for i in inputs, outputs:
        parts += [conv(i, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    """Four levels, 32 channels at the top, two classes for each pixel."""

    def __init__(self):
        super().__init__()
        widths = [32, 64, 128, 256]
        self.down = nn.ModuleList(double_conv(i, o) for i, o in zip([3, *widths], widths))
        self.pool = nn.MaxPool2d(2)
        self.up, self.join = nn.ModuleList(), nn.ModuleList()
        for w in 128, 64, 32:
            self.up.append(nn.ConvTranspose2d(2 * w, w, 2, stride=2))
            self.join.append(double_conv(2 * w, w))
        self.out = nn.Conv2d(32, 2, 1)
        he(self)

    def forward(self, x):
        levels = []
        for i, d in enumerate(self.down):
            x = d(self.pool(x) if i else x)
            levels.append(x)
        levels.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([levels.pop(), up(x)], 1))
        return self.out(x)


# ---------------------------------------------------------------- transformers
class VisionBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """ViT-S/16: 12 blocks of width 384 with 6 heads over 196 patches and a class token."""

    def __init__(self):
        super().__init__()
        width = 384
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(nn.init.normal_(torch.empty(1, 1, width), std=0.02))
        self.positions = nn.Parameter(nn.init.normal_(torch.empty(1, 197, width), std=0.02))
        self.blocks = nn.ModuleList(VisionBlock(width, 6) for _ in range(12))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x[:, 0]))


class Bert(nn.Module):
    """BERT-base, without dropout, and a layer for two classes over the first token."""

    def __init__(self):
        super().__init__()
        width = 768
        self.words, self.positions = nn.Embedding(30522, width), nn.Embedding(512, width)
        self.types, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        layer = nn.TransformerEncoderLayer(width, 12, 3072, dropout=0.0, activation="gelu", layer_norm_eps=1e-12,
                                           batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 12)
        self.pooler, self.classifier = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, tokens):
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1])) + self.types(torch.zeros_like(tokens))
        return self.encoder(self.norm(x))

    def classify(self, tokens):
        return self.classifier(self.pooler(self.forward(tokens)[:, 0]).tanh())


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache=None, position=0):
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
        if cache is not None:
            end = position + length
            keys, values = cache
            keys[:, :, position:end] = k
            values[:, :, position:end] = v
            k, v = keys[:, :, :end], values[:, :, :end]
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Blocks with normalisation first; the head is the table of tokens if `tied`."""

    def __init__(self, vocabulary=512, width=256, heads=8, length=128, blocks=4, tied=False):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = None if tied else nn.Linear(width, vocabulary, bias=False)

    def hidden(self, tokens, caches=None, position=0):
        x = self.tokens(tokens) + self.positions(torch.arange(position, position + tokens.shape[1]))
        for i, block in enumerate(self.blocks):
            x = block(x, caches and caches[i], position)
        return x

    def logits(self, x):
        x = self.norm(x)
        return self.head(x) if self.head else F.linear(x, self.tokens.weight)

    def forward(self, tokens, caches=None, position=0):
        return self.logits(self.hidden(tokens, caches, position))

    def next(self, tokens, caches, position):
        """Logits of what follows the last token."""
        return self.logits(self.hidden(tokens, caches, position)[:, -1:])


gpt2 = lambda: GPT(50257, 768, 12, 1024, 12, tied=True)


# ---------------------------------------------------------------- sequences and tables
class CharLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.fc = nn.Embedding(96, 64), nn.Linear(256, 96)
        self.lstm = nn.LSTM(64, 256, batch_first=True)

    def forward(self, x):
        return self.fc(self.lstm(self.embedding(x))[0])


class SpeechEncoder(nn.Module):
    """Three layers of 256 over frames of 40 features, and 32 classes for each frame."""

    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(40, 256, num_layers=3, batch_first=True), nn.Linear(256, 32)

    def forward(self, x):
        return self.fc(self.lstm(x)[0])


class DLRM(nn.Module):
    """26 tables of 10,000 rows, 13 numbers, products of all pairs of features."""

    TABLES = 26

    def __init__(self):
        super().__init__()
        bag = lambda: nn.EmbeddingBag(10_000, 32, mode="sum", sparse=True)
        self.tables = nn.ModuleList(bag() for _ in range(self.TABLES))
        self.bottom = mlp(13, 512, 256, 32)
        features = self.TABLES + 1
        self.top = mlp(32 + features * (features - 1) // 2, 512, 256, 1)

    def forward(self, numbers, indices, offsets):
        """Numbers (B, 13), indices (26, N), the starts of bags in them (B)."""
        bottom = self.bottom(numbers).relu()
        bags = [t(i, offsets) for t, i in zip(self.tables, indices.unbind(0))]
        all = torch.stack([bottom, *bags], 1)
        products = torch.bmm(all, all.transpose(1, 2))
        rows, columns = torch.tril_indices(all.shape[1], all.shape[1], -1).unbind(0)
        return self.top(torch.cat([bottom, products[:, rows, columns]], 1)).squeeze(1)
