"""The PyTorch script that time_series.rs mirrors."""

import torch
import twin
from torch import nn, optim
from torch.nn import functional as F

WAVES, TEST, HIDDEN, PERIOD = 100, 3, 51, 20.0


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, HIDDEN)
        self.lstm2 = nn.LSTMCell(HIDDEN, HIDDEN)
        self.linear = nn.Linear(HIDDEN, 1)

    def forward(self, waves, future=0):
        h1, c1, h2, c2 = (torch.zeros(len(waves), HIDDEN, dtype=waves.dtype) for _ in range(4))
        outputs = []
        for t in range(waves.shape[1] + future):
            x = waves[:, t : t + 1] if t < waves.shape[1] else outputs[-1]
            h1, c1 = self.lstm1(x, (h1, c1))
            h2, c2 = self.lstm2(h1, (h2, c2))
            outputs.append(self.linear(h2))
        return torch.cat(outputs, 1)


def waves(points):
    t = torch.arange(points).double()
    phase = (torch.randint(160, (WAVES, 1)) - 80).double()
    return ((t + phase) / PERIOD).sin()


def main(argv=None):
    args = twin.arguments(argv, steps=10, points=300)
    torch.manual_seed(0)
    data = waves(args.points)
    input, target = data[TEST:, :-1], data[TEST:, 1:]
    model = Sequence().double()
    optimizer = optim.LBFGS(model.parameters(), lr=0.8)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(input), target)
        loss.backward()
        return loss

    for _ in range(args.steps):
        losses.append(optimizer.step(closure).item())
    with torch.no_grad():
        predicted = model(data[:TEST, :-1], args.points)
    error = F.mse_loss(predicted[:, : args.points - 1], data[:TEST, 1:]).item()
    print(f"test loss: {error:.6f}")
    twin.save_losses(args, losses + [error])


if __name__ == "__main__":
    main()
