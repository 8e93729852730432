"""The PyTorch script that reinforce.rs mirrors."""

import cart_pole
import torch
import twin
from torch import nn, optim
from torch.distributions import Categorical
from torch.nn import functional as F


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 128)
        self.dropout = nn.Dropout(0.6)
        self.affine2 = nn.Linear(128, 2)

    def forward(self, x):
        x = self.dropout(self.affine1(x)).relu()
        return F.softmax(self.affine2(x), dim=1)


def main(argv=None):
    args = twin.arguments(argv, episodes=300)
    torch.manual_seed(543)
    policy = Policy()
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)

    def episode():
        cart, log_probs, fallen = cart_pole.Cart(), [], False
        while not fallen:
            m = Categorical(policy(torch.tensor(cart.state).unsqueeze(0)))
            action = m.sample()
            log_probs.append(m.log_prob(action))
            fallen = cart.step(action.item())
        loss = (-torch.cat(log_probs) * cart_pole.returns(cart.steps)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item(), cart.steps

    losses, lengths = cart_pole.train(args.episodes, episode)
    twin.save_losses(args, losses + lengths)


if __name__ == "__main__":
    main()
