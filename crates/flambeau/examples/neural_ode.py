"""The PyTorch script that neural_ode.rs mirrors."""

import torch
import twin
from torch import nn, optim

POINTS, DURATION, BATCH, LENGTH = 200, 10.0, 20, 10


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(2, 50)
        self.out = nn.Linear(50, 2)
        for layer in [self.hidden, self.out]:
            nn.init.normal_(layer.weight, 0.0, 0.1)
            nn.init.zeros_(layer.bias)

    def forward(self, y):
        return self.out(self.hidden(y**3).tanh())


def step(f, y, h):
    def moved(k, h):
        return [y + k * h for y, k in zip(y, k)]

    k1 = f(y)
    k2 = f(moved(k1, h / 2))
    k3 = f(moved(k2, h / 2))
    k4 = f(moved(k3, h))
    return [y + (a + 2 * (b + c) + d) * (h / 6) for y, a, b, c, d in zip(y, k1, k2, k3, k4)]


def solve(f, y0, points, h):
    ys = [y0]
    for _ in range(points - 1):
        ys += step(lambda y: [f(y[0])], [ys[-1]], h)
    return torch.stack(ys)


class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, field, points, h, y0, *parameters):
        ys = solve(field, y0, points, h)
        ctx.save_for_backward(ys)
        ctx.field, ctx.points, ctx.h = field, points, h
        return ys

    @staticmethod
    def backward(ctx, grad):
        (ys,) = ctx.saved_tensors
        parameters = list(ctx.field.parameters())

        def motion(state):
            y = state[0].detach().requires_grad_()
            with torch.enable_grad():
                f = ctx.field(y)
            return [f.detach(), *torch.autograd.grad(f, [y, *parameters], -state[1])]

        adjoint, totals = grad[-1], [torch.zeros_like(p) for p in parameters]
        for i in range(ctx.points - 1, 0, -1):
            _, adjoint, *totals = step(motion, [ys[i], adjoint, *totals], -ctx.h)
            adjoint = adjoint + grad[i - 1]
        return None, None, None, adjoint, *totals


def odeint(field, y0, points, h):
    return Adjoint.apply(field, points, h, y0, *field.parameters())


def apart(field, y0, h):
    parameters = list(field.parameters())
    adjoint = torch.autograd.grad(odeint(field, y0, LENGTH, h).square().mean(), parameters)
    through = torch.autograd.grad(solve(field, y0, LENGTH, h).square().mean(), parameters)
    return max((a - b).abs().max().item() for a, b in zip(adjoint, through))


def main(argv=None):
    args = twin.arguments(argv, steps=1500)
    torch.manual_seed(0)
    h = DURATION / (POINTS - 1)
    rule = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    start = torch.tensor([[2.0, 0.0]])
    spiral = solve(lambda y: y**3 @ rule, start, POINTS, h)
    field = Field()
    print(f"gradients by the adjoint and through the solver differ by {apart(field, start, h):.1e}")
    optimizer = optim.Adam(field.parameters(), lr=5e-3)
    losses = []
    for _ in range(args.steps):
        begins = torch.randint(POINTS - LENGTH, (BATCH,))
        seen = spiral.squeeze(1)[torch.arange(LENGTH).unsqueeze(1) + begins]
        optimizer.zero_grad()
        loss = (odeint(field, seen[0], LENGTH, h) - seen).abs().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        error = (odeint(field, start, POINTS, h) - spiral).abs().mean().item()
    print(f"loss {twin.late(losses):.5f}; the whole path is {error:.4f} off on average")
    twin.save_losses(args, losses + [error])


if __name__ == "__main__":
    main()
