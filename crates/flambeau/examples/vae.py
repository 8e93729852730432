"""The PyTorch script that vae.rs mirrors."""

import torch
import twin
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

PIXELS, HIDDEN, LATENT, BATCH = 64, 256, 10, 64


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, HIDDEN)
        self.mean = nn.Linear(HIDDEN, LATENT)
        self.log_var = nn.Linear(HIDDEN, LATENT)
        self.fc3 = nn.Linear(LATENT, HIDDEN)
        self.fc4 = nn.Linear(HIDDEN, PIXELS)

    def encode(self, x):
        hidden = self.fc1(x).relu()
        return self.mean(hidden), self.log_var(hidden)

    def decode(self, z):
        return self.fc4(self.fc3(z).relu())

    def loss(self, x):
        mean, log_var = self.encode(x)
        z = mean + (log_var * 0.5).exp() * torch.randn_like(mean)
        lost = F.binary_cross_entropy_with_logits(self.decode(z), x, reduction="sum")
        return lost + (mean.square() + log_var.exp() - log_var - 1).sum() * 0.5


@torch.no_grad()
def average(model, loader):
    return sum(model.loss(x).item() for (x,) in loader) / len(loader.dataset)


def main(argv=None):
    args = twin.arguments(argv, epochs=60)
    torch.manual_seed(0)
    images, _ = twin.digits()
    seen, unseen = random_split(TensorDataset(images.reshape(-1, PIXELS)), [0.9, 0.1])
    test = DataLoader(unseen, batch_size=BATCH)
    model = Vae()
    print(f"loss before training: {average(model, test):.3f}")
    loader = DataLoader(seen, batch_size=BATCH, shuffle=True)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(args.epochs):
        for (x,) in loader:
            optimizer.zero_grad()
            loss = model.loss(x)
            loss.backward()
            optimizer.step()
        losses.append(average(model, test))
    print(f"loss on unseen digits: {losses[-1] if losses else 0:.3f}")
    twin.save_losses(args, losses)


if __name__ == "__main__":
    main()
