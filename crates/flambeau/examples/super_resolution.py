"""The PyTorch script that super_resolution.rs mirrors."""

import torch
import twin
from torch import nn, optim
from torch.nn import functional as F

FACTOR, BATCH = 2, 32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 64, 5, padding=2)
        self.conv2 = nn.Conv2d(64, 64, 3, padding=1)
        self.conv3 = nn.Conv2d(64, 32, 3, padding=1)
        self.conv4 = nn.Conv2d(32, FACTOR * FACTOR, 3, padding=1)
        self.pixel_shuffle = nn.PixelShuffle(FACTOR)
        for conv in [self.conv1, self.conv2, self.conv3]:
            nn.init.orthogonal_(conv.weight, nn.init.calculate_gain("relu"))
        nn.init.orthogonal_(self.conv4.weight)

    def forward(self, x):
        x = self.conv1(x).relu()
        x = self.conv2(x).relu()
        x = self.conv3(x).relu()
        return self.pixel_shuffle(self.conv4(x))


def psnr(a, b):
    return -10 * F.mse_loss(a.clamp(0, 1), b).log10().item()


def main(argv=None):
    args = twin.arguments(argv, steps=1500)
    torch.manual_seed(0)
    (images, _), (unseen, _) = twin.digits_apart()
    model = Net()
    criterion = nn.MSELoss()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(args.steps):
        target = images[torch.randint(len(images), (BATCH,))]
        optimizer.zero_grad()
        loss = criterion(model(F.avg_pool2d(target, FACTOR)), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    small = F.avg_pool2d(unseen, FACTOR)
    with torch.no_grad():
        ours = psnr(model(small), unseen)
    plain = psnr(F.interpolate(small, scale_factor=FACTOR, mode="bicubic"), unseen)
    print(f"unseen digits: {ours:.2f} dB, bicubic interpolation {plain:.2f} dB")
    twin.save_losses(args, losses + [ours, plain])


if __name__ == "__main__":
    main()
