"""The PyTorch script that adversarial.rs mirrors."""

import torch
import twin
from torch import nn, optim
from torch.nn import functional as F

BATCH = 64
EPSILONS = [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def attack(model, images, labels, epsilon):
    x = images.detach().requires_grad_()
    F.cross_entropy(model(x), labels).backward()
    with torch.no_grad():
        return (x + x.grad.sign() * epsilon).clamp(0, 1)


def main(argv=None):
    args = twin.arguments(argv, steps=500)
    torch.manual_seed(0)
    (images, labels), (unseen, truth) = twin.digits_apart()
    model = network()
    optimizer = optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(args.steps):
        at = torch.randint(len(labels), (BATCH,))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[at]), labels[at])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {twin.late(losses):.4f}")
    model.eval()
    accuracies = []
    for epsilon in EPSILONS:
        changed = attack(model, unseen, truth, epsilon)
        with torch.no_grad():
            accuracies.append((model(changed).argmax(1) == truth).double().mean().item())
        print(f"changed by {epsilon:.2f}: {100 * accuracies[-1]:6.2f} % of unseen digits are read right")
    twin.save_losses(args, losses + accuracies)


if __name__ == "__main__":
    main()
