"""The same service in Python, without batches: `python main.py [digits.pt] [--port 8001]` (fastapi, uvicorn)."""

import argparse

import torch
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from torch import nn


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
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu()
        x = self.pool(self.bn2(self.conv2(x)).relu())
        x = self.dropout(x.flatten(1))
        return self.fc2(self.fc1(x).relu()).softmax(-1)


class Request(BaseModel):
    pixels: list[float]


app = FastAPI()
net = Net().eval()


@app.post("/predict")
def predict(request: Request):
    if len(request.pixels) != 64 or not all(0 <= p <= 16 for p in request.pixels):
        raise HTTPException(400, "64 pixels of 0 to 16")
    with torch.no_grad():
        p = net(torch.tensor(request.pixels).view(1, 1, 8, 8) / 16)[0]
    return {"digit": int(p.argmax()), "probabilities": p.tolist()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("weights", nargs="?")
    parser.add_argument("--port", type=int, default=8001)
    args = parser.parse_args()
    if args.weights:
        net.load_state_dict(torch.load(args.weights))
    uvicorn.run(app, port=args.port, log_level="warning")
