"""The PyTorch script that char_gpt.rs mirrors."""

import gpt
import torch
import twin


def main(argv=None):
    args = twin.arguments(argv, steps=600)
    sonnets = twin.text("sonnets.txt")
    text, characters = twin.characters(sonnets, sonnets)
    torch.manual_seed(0)
    model = gpt.Gpt(len(characters))
    losses = gpt.train(model, text, args.steps)
    losses.append(gpt.loss(model, text))
    print(f"loss on all sonnets {losses[-1]:.4f}")
    twin.save_losses(args, losses)


if __name__ == "__main__":
    main()
