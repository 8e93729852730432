"""The PyTorch script that lora.rs mirrors."""

import math

import gpt
import torch
import twin
from torch import nn
from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations

RANK, ALPHA = 4, 8.0


class Lora(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.a = nn.Parameter(torch.empty(RANK, layer.in_features))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))
        self.b = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, weight):
        return weight + self.b @ self.a * (ALPHA / RANK)


def main(argv=None):
    args = twin.arguments(argv, steps=600, adapted=400)
    sonnets, alphabet = twin.characters(twin.text("sonnets.txt"), twin.text("sonnets.txt"))
    songs, _ = twin.characters(twin.text("songs.txt"), alphabet)
    torch.manual_seed(0)
    model = gpt.Gpt(len(alphabet))
    losses = gpt.train(model, sonnets, args.steps)
    before = [gpt.loss(model, sonnets), gpt.loss(model, songs)]
    model.requires_grad_(False)
    layers = [layer for block in model.blocks for layer in [block.qkv, block.out]]
    for layer in layers:
        register_parametrization(layer, "weight", Lora(layer))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"{trained} of {sum(p.numel() for p in model.parameters())} weights learn")
    losses += gpt.train(model, songs, args.adapted)
    adapted = [gpt.loss(model, sonnets), gpt.loss(model, songs)]
    for layer in layers:
        remove_parametrizations(layer, "weight", leave_parametrized=False)
    again = gpt.loss(model, sonnets)
    for name, row in [("before", before), ("adapted", adapted), ("taken away", [again])]:
        print(f"{name:12}", *(f"{v:7.4f}" for v in row))
    twin.save_losses(args, losses + before + adapted + [again])


if __name__ == "__main__":
    main()
