"""The PyTorch script that siamese.rs mirrors."""

import torch
import twin
from torch import nn, optim
from torch.nn import functional as F

BATCH, MARGIN = 128, 1.0


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 2 * 2, 64),
        nn.ReLU(),
        nn.Linear(64, 2),
    )


class ByClass:
    def __init__(self, labels):
        self.order = labels.argsort(stable=True)
        self.counts = labels.bincount()
        self.starts = self.counts.cumsum(0) - self.counts

    def draw(self, classes):
        nth = (torch.rand(classes.shape) * self.counts[classes]).floor().long()
        return self.order[self.starts[classes] + nth]


def another(classes):
    return (classes + torch.randint(1, 10, classes.shape)) % 10


def contrastive(a, b, alike):
    distance = F.pairwise_distance(a, b)
    return torch.where(alike, distance.square(), (MARGIN - distance).relu().square()).mean()


def main(argv=None):
    args = twin.arguments(argv, loss="contrastive", steps=1500)
    torch.manual_seed(0)
    (images, labels), (unseen, truth) = twin.digits_apart()
    by_class = ByClass(labels)
    model = network()
    triplet = nn.TripletMarginLoss(margin=MARGIN)
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(args.steps):
        anchors = torch.randint(len(labels), (BATCH,))
        classes = labels[anchors]
        optimizer.zero_grad()
        if args.loss == "triplet":
            like, unlike = by_class.draw(classes), by_class.draw(another(classes))
            loss = triplet(model(images[anchors]), model(images[like]), model(images[unlike]))
        else:
            alike = torch.rand(BATCH) < 0.5
            partners = by_class.draw(torch.where(alike, classes, another(classes)))
            loss = contrastive(model(images[anchors]), model(images[partners]), alike)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        nearest = torch.cdist(model(unseen), model(images)).argmin(1)
    right = (labels[nearest] == truth).double().mean().item()
    print(f"loss {twin.late(losses):.4f}; unseen digits whose nearest neighbour is of their class: {100 * right:.2f} %")
    twin.save_losses(args, losses + [right])


if __name__ == "__main__":
    main()
