"""The PyTorch script that translation.rs mirrors."""

import math

import torch
import twin
from positions import PositionalEncoding
from torch import nn, optim
from torch.nn.utils.rnn import pad_sequence

WIDTH, PAD, BEGIN, END = 64, 0, 1, 2
UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
VOCABULARY = [*UNITS, *TENS, "hundred", "thousand"]


def words(n):
    if n < 20:
        return [UNITS[n]]
    if n < 100:
        return [TENS[n // 10 - 2]] + ([UNITS[n % 10]] if n % 10 else [])
    unit, name = (100, "hundred") if n < 1000 else (1000, "thousand")
    return [UNITS[n // unit], name] + (words(n % unit) if n % unit else [])


def source(n):
    return torch.tensor([int(d) + 3 for d in str(n)])


def target(n):
    return torch.tensor([BEGIN, *(VOCABULARY.index(w) + 3 for w in words(n)), END])


class Translator(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.digits = nn.Embedding(13, WIDTH)
        self.words = nn.Embedding(words, WIDTH)
        self.position = PositionalEncoding(WIDTH, 16, 0.0)
        self.transformer = nn.Transformer(WIDTH, 4, 2, 2, 128, 0.0)
        self.generator = nn.Linear(WIDTH, words)

    def forward(self, src, tgt):
        hidden = (src == PAD).t()
        padding = (tgt == PAD).t()
        mask = nn.Transformer.generate_square_subsequent_mask(len(tgt))
        src, tgt = self.digits(src) * math.sqrt(WIDTH), self.words(tgt) * math.sqrt(WIDTH)
        return self.generator(
            self.transformer(
                self.position(src),
                self.position(tgt),
                tgt_mask=mask,
                src_key_padding_mask=hidden,
                tgt_key_padding_mask=torch.zeros(padding.shape).masked_fill(padding, -math.inf),
                memory_key_padding_mask=hidden,
            )
        )

    @torch.no_grad()
    def translate(self, n):
        memory = self.transformer.encoder(self.position(self.digits(source(n).unsqueeze(1)) * math.sqrt(WIDTH)))
        ys, said = torch.full((1, 1), BEGIN), []
        for _ in range(10):
            mask = nn.Transformer.generate_square_subsequent_mask(len(ys))
            out = self.transformer.decoder(self.position(self.words(ys) * math.sqrt(WIDTH)), memory, mask)
            word = self.generator(out[-1]).argmax(-1)
            if word.item() in (PAD, BEGIN, END):
                break
            said.append(VOCABULARY[word.item() - 3])
            ys = torch.cat([ys, word.unsqueeze(0)])
        return said


def main(argv=None):
    args = twin.arguments(argv, steps=400)
    torch.manual_seed(0)
    model = Translator(len(VOCABULARY) + 3)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    losses = []
    for _ in range(args.steps):
        numbers = [n for n in torch.randint(10_000, (64,)).tolist() if n % 7]
        src, tgt = pad_sequence([source(n) for n in numbers]), pad_sequence([target(n) for n in numbers])
        logits = model(src, tgt[:-1])
        optimizer.zero_grad()
        loss = criterion(logits.flatten(0, 1), tgt[1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    right = sum(model.translate(i * 98) == words(i * 98) for i in range(100))
    print(f"loss {twin.late(losses):.4f}; {right} of 100 numbers that it was never shown are right")
    twin.save_losses(args, losses + [right])


if __name__ == "__main__":
    main()
