"""The PyTorch script that dcgan.rs mirrors."""

import torch
import twin
from torch import nn, optim

LATENT, WIDTH, BATCH = 32, 32, 64


def generator():
    def up(start, to):
        return nn.ConvTranspose2d(start, to, 4, stride=2, padding=1, bias=False)

    return nn.Sequential(
        nn.ConvTranspose2d(LATENT, 4 * WIDTH, 2, bias=False),
        nn.BatchNorm2d(4 * WIDTH),
        nn.ReLU(),
        up(4 * WIDTH, 2 * WIDTH),
        nn.BatchNorm2d(2 * WIDTH),
        nn.ReLU(),
        up(2 * WIDTH, 1),
        nn.Sigmoid(),
    )


def discriminator():
    def down(start, to):
        return nn.Conv2d(start, to, 4, stride=2, padding=1, bias=False)

    return nn.Sequential(
        down(1, 2 * WIDTH),
        nn.LeakyReLU(0.2),
        down(2 * WIDTH, 4 * WIDTH),
        nn.BatchNorm2d(4 * WIDTH),
        nn.LeakyReLU(0.2),
        nn.Conv2d(4 * WIDTH, 1, 2, bias=False),
        nn.Flatten(),
    )


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def main(argv=None):
    args = twin.arguments(argv, steps=1500)
    torch.manual_seed(0)
    images, _ = twin.digits()
    make, tell = generator(), discriminator()
    make.apply(weights_init)
    tell.apply(weights_init)
    to_make = optim.Adam(make.parameters(), lr=1e-3, betas=(0.5, 0.999))
    to_tell = optim.Adam(tell.parameters(), lr=1e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    real, made = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
    torch.randn(96, LATENT, 1, 1)
    telling, making = [], []
    for _ in range(args.steps):
        digits = images[torch.randint(len(images), (BATCH,))]
        fakes = make(torch.randn(BATCH, LATENT, 1, 1))
        to_tell.zero_grad()
        loss = criterion(tell(digits), real) + criterion(tell(fakes.detach()), made)
        loss.backward()
        to_tell.step()
        telling.append(loss.item())

        to_make.zero_grad()
        loss = criterion(tell(fakes), real)
        loss.backward()
        to_make.step()
        making.append(loss.item())
    print(f"loss of telling {twin.late(telling):.4f}, of making {twin.late(making):.4f}")
    twin.save_losses(args, telling + making)


if __name__ == "__main__":
    main()
