"""The cart and its pole, as in common/cart_pole.rs."""

import math

import torch


class Cart:
    def __init__(self):
        self.state = (torch.rand(4) * 0.1 - 0.05).tolist()
        self.steps = 0

    def step(self, action):
        x, speed, angle, turn = self.state
        force = 10.0 if action == 1 else -10.0
        pushed = (force + 0.05 * turn * turn * math.sin(angle)) / 1.1
        turning = (9.8 * math.sin(angle) - math.cos(angle) * pushed) / (
            0.5 * (4.0 / 3.0 - 0.1 * math.cos(angle) * math.cos(angle) / 1.1)
        )
        moving = pushed - 0.05 * turning * math.cos(angle) / 1.1
        dt = 0.02
        self.state = [x + dt * speed, speed + dt * moving, angle + dt * turn, turn + dt * turning]
        self.steps += 1
        return abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095 or self.steps == 500


def returns(steps):
    r, values = 0.0, []
    for _ in range(steps):
        r = 1.0 + 0.99 * r
        values.insert(0, r)
    values = torch.tensor(values)
    return (values - values.mean()) / (values.std() + torch.finfo(torch.float32).eps)


def train(episodes, one):
    """Losses and lengths of the episodes."""
    losses, lengths, average = [], [], 10.0
    for _ in range(episodes):
        loss, steps = one()
        losses.append(loss)
        lengths.append(steps)
        average = 0.05 * steps + 0.95 * average
    print(f"the pole stands {average:.1f} steps, on average of the late episodes")
    return losses, lengths
