import sys, torch
from torch import nn

def conv3(i, o, stride=1):
    return nn.Conv2d(i, o, 3, stride, 1, bias=False)

class BasicBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        down = None
        if i != o:
            down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
        self.conv1, self.bn1, self.relu = conv3(i, o, stride), nn.BatchNorm2d(o), nn.ReLU()
        self.conv2, self.bn2, self.downsample = conv3(o, o), nn.BatchNorm2d(o), down

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))

class ResNet18(nn.Module):
    def __init__(self, classes, w):
        super().__init__()
        layer = lambda i, o, s: nn.Sequential(BasicBlock(i, o, s), BasicBlock(o, o, 1))
        self.conv1 = nn.Conv2d(3, w, 7, 2, 3, bias=False)
        self.bn1, self.relu, self.maxpool = nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2 = layer(w, w, 1), layer(w, 2 * w, 2)
        self.layer3, self.layer4 = layer(2 * w, 4 * w, 2), layer(4 * w, 8 * w, 2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(8 * w, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.fc(self.avgpool(x).flatten(1))

folder = sys.argv[1]
ours = torch.load(folder + "/ours.pt")

def drawn(width):
    torch.manual_seed(7)
    return ResNet18(10, width), torch.randn(4, 3, 32, 32), torch.randint(10, (4,))

# as wide as it is: the same values for the seed, the same logits
net, x, y = drawn(64)
for (k, v), (n, w) in zip(net.state_dict().items(), ours["start"].items(), strict=True):
    assert k == n and torch.equal(v, w), (k, n)
net(x)
net.eval()
state = {k: v.clone() for k, v in net.state_dict().items()}
logits = net(x).detach()
assert str(net.load_state_dict(ours["state"])) == "<All keys matched successfully>"
assert torch.allclose(net(x), ours["logits"], rtol=1e-5, atol=1e-5), (net(x), ours["logits"])

# narrow and in doubles: normalising four numbers per channel makes any two runs in floats part within twenty steps
net, x, y = drawn(16)
net, x = net.double(), x.double()
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
losses = []
for _ in range(20):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    losses.append(loss.item())
    loss.backward()
    opt.step()
trained = net.state_dict()
torch.save({"losses": torch.tensor(losses, dtype=torch.float64), "state": state, "logits": logits, "trained": trained}, folder + "/theirs.pt")
