"""What the Python twins of the gallery share: the same flags and data as common/mod.rs and common/data.rs."""

import argparse
import gzip
import pathlib

import torch

DATA = pathlib.Path(__file__).parent / "data"
TEST = 360


def arguments(argv, **own):
    """The flags of `own` with their defaults; `--losses` and `--dtype` as every program of the gallery has them."""
    parser = argparse.ArgumentParser()
    for name, default in own.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--losses")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    args = parser.parse_args(argv)
    torch.set_default_dtype(getattr(torch, args.dtype))
    return args


def save_losses(args, losses):
    if args.losses:
        torch.save(torch.tensor(losses, dtype=torch.float64), args.losses)


def late(losses):
    """The mean of the last tenth."""
    last = losses[len(losses) - -(-len(losses) // 10):]
    return sum(last) / max(len(last), 1)


def digits():
    """Images (N, 1, 8, 8) from 0 to 1 in the default dtype, and labels (N)."""
    rows = [[int(v) for v in line.split(",")] for line in gzip.open(DATA / "digits.csv.gz", "rt")]
    table = torch.tensor(rows)
    return table[:, :64].reshape(-1, 1, 8, 8) / 16, table[:, 64]


def digits_apart():
    """Images and labels to learn from, and images and labels of unseen digits."""
    images, labels = digits()
    order = torch.randperm(len(images))
    return (images[order[TEST:]], labels[order[TEST:]]), (images[order[:TEST]], labels[order[:TEST]])


def text(name):
    return (DATA / name).read_text(encoding="utf-8")


def characters(text, alphabet):
    """The text as numbers of those of its characters that the alphabet has, and the alphabet in order."""
    characters = sorted(set(alphabet))
    at = {c: i for i, c in enumerate(characters)}
    return torch.tensor([at[c] for c in text if c in at]), characters
