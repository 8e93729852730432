"""Makes the files beside it. Run with a Python that has torch and numpy."""
import collections, io, os, pickle, zipfile
import numpy as np
import torch

here = os.path.dirname(os.path.abspath(__file__))
at = lambda name: os.path.join(here, name)

def dump(name, obj):
    buffer = io.BytesIO()
    pickle.Pickler(buffer, protocol=2).dump(obj)
    open(at(name), "wb").write(buffer.getvalue())

od = collections.OrderedDict([("x", 1), ("y", [1.5, None, True])])
dump("plain.pkl", {
    "ints": [0, 255, 256, 65535, 65536, -1, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**70, -(2**70)],
    "floats": (0.0, -1.5, float("inf")), "one": (1,), "four": (1, 2, 3, 4), "empty": (), "none": None,
    "bools": [True, False], "od": od, "nested": {"ints": {"k": "v"}}, "long": list(range(1001)),
    "thousand": {i: i for i in range(1000)}, "od2500": collections.OrderedDict((i, None) for i in range(2501)),
    "set": {7}, "bytes": b"\x00\xffab", "bytes2": b"q", "nobytes": b"", "ba": bytearray(b"xy"), "c": 1 + 2j,
    "text": "h\u00e9\u4e16",
})
proto = {"a": [1, 2.5, "s", b"b", (1, 2), None, True, 2**70, {3}, frozenset([4])], "n": {"b": bytearray(b"z")}}
for p in range(6):
    open(at(f"proto{p}.pkl"), "wb").write(pickle.dumps(proto, protocol=p))

torch.manual_seed(0)
def checkpoint():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.arange(p.numel(), dtype=torch.float32).view(p.shape))
    base = torch.arange(6.0).view(2, 3)
    return {
        "model": model.state_dict(),
        "epoch": 3,
        "param": torch.nn.Parameter(base),
        "views": [base, base.t(), base[1]],
        "size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cuda", 1),
        "conj": torch.tensor([1 + 2j]).conj(),
    }
torch.save(checkpoint(), at("checkpoint.pth"))
torch.save(checkpoint(), at("legacy.pth"), _use_new_zipfile_serialization=False)
names = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
         "complex128", "bool", "bfloat16", "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"]
torch.save({n: torch.tensor([0, 1, 2]).to(torch.float32).to(getattr(torch, n)) for n in names}, at("dtypes.pth"))
np.savez_compressed(at("arrays.npz"), a=np.arange(6, dtype=np.float32).reshape(2, 3),
                    f=np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)), s=np.float64(2.5))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(2, 3)
        self.register_buffer("b", torch.ones(2))
        self.k = [1, 2]
    def forward(self, x):
        return self.l(x + self.b)
torch.jit.script(Net()).save(at("script.jit"))
torch.export.save(torch.export.export(Net(), (torch.ones(1, 2),)), at("program.pt2"))

x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
whole = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
scales, floats = torch.tensor([0.1, 0.2]).double(), torch.tensor([0.1, 0.2])
torch.save({
    "tensor": whole, "row": whole[0],
    "wide": torch.quantize_per_tensor(x, 0.1, 3, torch.qint32),
    "channels": torch.quantize_per_channel(x, scales, torch.tensor([0, 1]), 0, torch.qint8),
    "floats": torch.quantize_per_channel(x, floats, torch.tensor([0.0, 1.0]), 0, torch.quint8),
    "packed": torch.quantize_per_channel(x, floats, torch.tensor([0.0, 1.0]), 0, torch.quint4x2),
}, at("quantized.pth"))
