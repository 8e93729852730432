"""The PyTorch script that graph_convolution.rs mirrors."""

import torch
import twin
from torch import nn, optim
from torch.nn import functional as F

TOLD = [0, 33]


def club():
    sides, *lines = twin.text("karate.txt").splitlines()
    pairs = [(int(one), int(other)) for one, *others in map(str.split, lines) for other in others]
    return pairs, torch.tensor([int(c == "O") for c in sides])


def normalized(pairs, nodes):
    edges = sorted([(i, i) for i in range(nodes)] + pairs + [(b, a) for a, b in pairs])
    rows, columns = torch.tensor(edges).T
    scale = rows.bincount().to(torch.get_default_dtype()).rsqrt()
    values = scale[rows] * scale[columns]
    return torch.sparse_coo_tensor(torch.stack([rows, columns]), values, (nodes, nodes)).coalesce()


class GraphConvolution(nn.Module):
    def __init__(self, start, to):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(start, to))
        nn.init.xavier_uniform_(self.weight)
        self.bias = nn.Parameter(torch.zeros(to))

    def forward(self, x, graph):
        return torch.sparse.mm(graph, x @ self.weight) + self.bias


class Net(nn.Module):
    def __init__(self, nodes):
        super().__init__()
        self.conv1 = GraphConvolution(nodes, 16)
        self.conv2 = GraphConvolution(16, 2)

    def forward(self, x, graph):
        x = self.conv1(x, graph).tanh()
        return self.conv2(x, graph)


def main(argv=None):
    args = twin.arguments(argv, steps=300)
    torch.manual_seed(0)
    pairs, sides = club()
    graph = normalized(pairs, len(sides))
    features = torch.eye(len(sides))
    told = torch.tensor(TOLD)
    model = Net(len(sides))
    optimizer = optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    losses = []
    for _ in range(args.steps):
        optimizer.zero_grad()
        logits = model(features, graph)
        loss = F.cross_entropy(logits[told], sides[told])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        right = (model(features, graph).argmax(1) == sides).sum().item()
    print(f"loss {twin.late(losses):.4f}; {right} of {len(sides)} members are on the side that the network says")
    twin.save_losses(args, losses + [right])


if __name__ == "__main__":
    main()
