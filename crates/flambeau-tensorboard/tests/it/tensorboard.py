# Writes with PyTorch's SummaryWriter what tests/tensorboard.rs wrote, reads both by TensorBoard, and compares.
import glob, io, os, sys
import numpy as np
import torch
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto import event_pb2, graph_pb2
from tensorboard.compat.proto import types_pb2
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard import SummaryWriter

root = sys.argv[1]


def wave(*sizes):
    n = int(np.prod(sizes))
    return torch.tensor([(i * 37 % 101) / 128 for i in range(n)], dtype=torch.float32).reshape(sizes)


def octets(*sizes):
    return (wave(*sizes) * 255).to(torch.uint8)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(4, 3)
        self.fc2 = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.fc2(self.fc1(x).relu())


w = SummaryWriter(os.path.join(root, "theirs"))
w.add_scalar("scalar", 0.25, 3)
w.add_scalar("scalar", torch.tensor(1.5), 4)
w.add_scalar("new", 0.1, 1, new_style=True)
w.add_scalar("double", 0.1, 1, new_style=True, double_precision=True)
w.add_scalars("group/two", {"sin": 0.5, "cos": 0.75}, 2)
for d in (torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.complex64):
    w.add_tensor(f"tensor {d}", wave(2, 3).to(d), 0)
values = wave(500) - 0.3
w.add_histogram("histogram", values, 1)
for name in ("auto", "fd", "scott", "rice", "sturges", "doane", "sqrt"):
    w.add_histogram(f"bins {name}", values, 1, bins=name)
w.add_histogram("bins 10", values, 1, bins=10)
w.add_histogram("edges", values, 1, bins=np.array([-1.0, 0.0, 0.1, 0.5, 0.7]))
w.add_histogram("joined", values, 1, max_bins=100)
w.add_histogram("same", torch.ones(7), 1)
w.add_histogram_raw("raw", 0, 2, 3, 4, 5, [1, 2], [1, 2], 1)
w.add_image("image", wave(3, 5, 7), 1)
w.add_image("bytes", octets(1, 5, 7), 1)
w.add_image("hw", wave(5, 7) * 2 - 0.5, 1, dataformats="HW")
w.add_image("hwc", wave(5, 7, 4), 1, dataformats="HWC")
w.add_images("images", wave(11, 3, 4, 6), 1)
w.add_images("grey", octets(3, 1, 4, 6), 1)
w.add_image_with_boxes("boxes", wave(3, 24, 32), torch.tensor([[3.0, 4, 20, 15], [10, 2, 40, 12]]), 1)
none = torch.zeros(0, 4)
w.add_image_with_boxes("smaller", wave(3, 24, 32), none, 1, rescale=0.5)
w.add_image_with_boxes("larger", wave(3, 24, 32), none, 1, rescale=2)
w.add_audio("audio", wave(1, 400) - 0.4, 1, 8000)
w.add_text("text", "some *text*, ünicode", 5)
labels = (wave(60) * 10).to(torch.int64) % 2
w.add_pr_curve("pr", labels, wave(60), 1)
w.add_pr_curve("pr weighted", labels, wave(60), 1, num_thresholds=5, weights=wave(60).numpy())
w.add_pr_curve_raw("pr raw", [75, 64], [150, 105], [0, 45], [0, 11], [0.33, 0.37], [1.0, 0.85], 1, 2)
w.add_custom_scalars({"Taiwan": {"twse": ["Multiline", ["x", "y"]]}, "USA": {"dow": ["Margin", ["a", "b", "c"]]}})
w.add_custom_scalars_multilinechart(["m", "n"])
w.add_mesh("mesh", wave(1, 4, 3), octets(1, 4, 3).to(torch.int64), torch.tensor([[[0, 2, 3], [0, 3, 1]]]),
           {"lights": []}, 1)
w.add_embedding(wave(3, 2), ["a", "b", "c"], wave(3, 3, 4, 6), 2, "emb/one")
w.add_embedding(wave(2, 2), [["1", "x"], ["2", "y"]], metadata_header=["n", "t"])
w.add_hparams({"lr": 0.1, "bsize": 4, "opt": "sgd", "amsgrad": True}, {"hparam/accuracy": 0.9, "hparam/loss": 0.2},
              {"lr": [0.1, 0.01]}, "hp", 9)
w.add_graph(Net(), wave(2, 4))
w.close()


def events(folder):
    found = []
    for file in sorted(glob.glob(os.path.join(folder, "events.out.tfevents.*"))):
        found += [event_pb2.Event.FromString(raw) for raw in RawEventFileLoader(file).Load()]
    return found


def folders(side):
    return sorted(os.path.relpath(d, os.path.join(root, side)) for d, _, _ in os.walk(os.path.join(root, side)))


def pixels(image):
    return np.asarray(Image.open(io.BytesIO(image.encoded_image_string))).astype(int)


def near(a, b, what):
    assert len(a) == len(b) and np.allclose(a, b, rtol=1e-6, atol=1e-12), f"{what}: {list(a)[:5]} {list(b)[:5]}"


def compare(ours, theirs, what):
    kind = theirs.WhichOneof("value")
    assert kind == ours.WhichOneof("value") and ours.tag == theirs.tag, what
    a, b = ours.metadata.plugin_data, theirs.metadata.plugin_data
    # the order of a map's entries is free
    read = HParamsPluginData.FromString if b.plugin_name == "hparams" else bytes
    assert a.plugin_name == b.plugin_name and read(a.content) == read(b.content), f"{what}: {a} {b}"
    if kind == "histo":
        a, b = ours.histo, theirs.histo
        near([a.min, a.max, a.num, a.sum, a.sum_squares], [b.min, b.max, b.num, b.sum, b.sum_squares], what)
        near(a.bucket_limit, b.bucket_limit, what)
        near(a.bucket, b.bucket, what)
    elif kind == "image":
        a, b = ours.image, theirs.image
        assert (a.height, a.width) == (b.height, b.width), what
        a, b = pixels(a), pixels(b)
        # PIL resizes in whole numbers
        assert a.shape == b.shape and abs(a - b).max() <= (1 if ours.tag in ("smaller", "larger") else 0), \
            f"{what}: {a.shape} {b.shape} {abs(a - b).max()}"
        assert ours.image.colorspace == theirs.image.colorspace, what
    elif kind == "tensor" and theirs.tensor.dtype == types_pb2.DT_FLOAT:
        near(ours.tensor.float_val, theirs.tensor.float_val, what)
        assert ours.tensor.tensor_shape == theirs.tensor.tensor_shape, what
    elif kind is not None:
        assert getattr(ours, kind) == getattr(theirs, kind), f"{what}: {ours} {theirs}"


assert folders("ours") == folders("theirs"), (folders("ours"), folders("theirs"))
for folder in folders("theirs"):
    a, b = (events(os.path.join(root, side, folder)) for side in ("ours", "theirs"))
    videos = [e for e in a if e.summary.value and e.summary.value[0].tag == "video"]
    a = [e for e in a if e not in videos]
    if folder == ".":
        gif = Image.open(io.BytesIO(videos[0].summary.value[0].image.encoded_image_string))
        assert gif.n_frames == 4 and gif.size == (32, 8) and gif.info["duration"] == 250, (gif.size, gif.info)
    assert len(a) == len(b), (folder, len(a), len(b))
    for ours, theirs in zip(a, b):
        assert ours.WhichOneof("what") == theirs.WhichOneof("what") and ours.step == theirs.step
        if theirs.WhichOneof("what") == "file_version":
            assert ours.file_version == theirs.file_version
        assert len(ours.summary.value) == len(theirs.summary.value)
        for x, y in zip(ours.summary.value, theirs.summary.value):
            compare(x, y, y.tag)
    for name in os.listdir(os.path.join(root, "theirs", folder)):
        path = [os.path.join(root, side, folder, name) for side in ("ours", "theirs")]
        if name.endswith((".tsv", ".pbtxt")):
            x, y = (open(p).read() for p in path)
            order = sorted if name.endswith(".pbtxt") else list
            assert order(x.split("\n")) == order(y.split("\n")), f"{name}:\n{x}\n{y}"
        elif name.endswith(".png"):
            x, y = (np.asarray(Image.open(p)) for p in path)
            assert (x == y).all(), name

accumulated = EventAccumulator(os.path.join(root, "ours"))
accumulated.Reload()
assert [s.value for s in accumulated.Scalars("scalar")] == [0.25, 1.5]
graph = {n.name: n for n in accumulated.Graph().node}
wanted = {
    "input/x": [],
    "Net/Linear[fc1]/linear": ["input/x", "Net/Linear[fc1]/weight", "Net/Linear[fc1]/bias"],
    "Net/relu": ["Net/Linear[fc1]/linear"],
    "Net/Linear[fc2]/linear": ["Net/relu", "Net/Linear[fc2]/weight", "Net/Linear[fc2]/bias"],
    "output/output.1": ["Net/Linear[fc2]/linear"],
}
for name, inputs in wanted.items():
    assert name in graph and list(graph[name].input) == inputs, (name, sorted(graph), graph.get(name))
shape = graph["Net/Linear[fc2]/linear"].attr["_output_shapes"].list.shape[0]
assert [d.size for d in shape.dim] == [2, 2]
print("all equal")
