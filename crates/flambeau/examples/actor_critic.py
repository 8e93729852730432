"""The PyTorch script that actor_critic.rs mirrors."""

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
        self.action_head = nn.Linear(128, 2)
        self.value_head = nn.Linear(128, 1)

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


def main(argv=None):
    args = twin.arguments(argv, episodes=400)
    torch.manual_seed(543)
    model = Policy()
    optimizer = optim.Adam(model.parameters(), lr=3e-3)

    def episode():
        cart, taken, fallen = cart_pole.Cart(), [], False
        while not fallen:
            probs, value = model(torch.tensor(cart.state))
            m = Categorical(probs)
            action = m.sample()
            taken.append((m.log_prob(action), value))
            fallen = cart.step(action.item())
        policy_losses, value_losses = [], []
        for (log_prob, value), r in zip(taken, cart_pole.returns(cart.steps)):
            advantage = r.item() - value.item()
            policy_losses.append(-log_prob * advantage)
            value_losses.append(F.smooth_l1_loss(value, r.unsqueeze(0)))
        optimizer.zero_grad()
        loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
        loss.backward()
        optimizer.step()
        return loss.item(), cart.steps

    losses, lengths = cart_pole.train(args.episodes, episode)
    twin.save_losses(args, losses + lengths)


if __name__ == "__main__":
    main()
