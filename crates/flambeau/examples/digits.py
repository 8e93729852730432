"""The PyTorch script that digits.rs mirrors: same names, same seed, same initial weights, same shuffle."""

import argparse
import gzip
import pathlib

import torch
from torch import nn, optim

CLASSES, TEST, BATCH = 10, 360, 64


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(64 * 4 * 4, 128)
        self.fc2 = nn.Linear(128, CLASSES)

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu()
        x = self.pool(self.bn2(self.conv2(x)).relu())
        x = self.dropout(x.flatten(1))
        return self.fc2(self.fc1(x).relu())


def data():
    """Images (N, 1, 8, 8) from 0 to 1, and labels (N)."""
    file = pathlib.Path(__file__).parent / "data" / "digits.csv.gz"
    rows = [[int(v) for v in line.split(",")] for line in gzip.open(file, "rt")]
    table = torch.tensor(rows)
    return table[:, :64].reshape(-1, 1, 8, 8).float() / 16, table[:, 64]


def train(model, images, labels, epochs):
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(epochs):
        model.train()
        order = torch.randperm(len(images))
        for batch in order.split(BATCH):
            optimizer.zero_grad()
            loss = criterion(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@torch.no_grad()
def predict(model, images):
    model.eval()
    return model(images)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--resume", help="go on from this checkpoint")
    args.add_argument("--predict", help="only predict, with this checkpoint")
    args.add_argument("--out", default="digits.pt")
    args.add_argument("--epochs", type=int, default=12)
    args.add_argument("--logits", help="save the test logits here")
    args.add_argument("--losses", help="save the loss of each step here")
    args = args.parse_args()
    torch.manual_seed(0)
    images, labels = data()
    order = torch.randperm(len(images))
    test, rest = order[:TEST], order[TEST:]
    model = Net()
    if args.resume or args.predict:
        model.load_state_dict(torch.load(args.resume or args.predict, weights_only=True))
    if not args.predict:
        losses = train(model, images[rest], labels[rest], args.epochs)
        torch.save(model.state_dict(), args.out)
        if args.losses:
            torch.save(torch.tensor(losses), args.losses)
    logits = predict(model, images[test])
    if args.logits:
        torch.save(logits, args.logits)
    correct = (logits.argmax(1) == labels[test]).sum().item()
    print(f"test accuracy: {100 * correct / TEST:.2f} %")


if __name__ == "__main__":
    main()
