"""The PyTorch side of optim_interop.rs: writes cases with what PyTorch computes, and goes on from our checkpoints."""
import sys, warnings
import torch
from torch.optim import lr_scheduler as L

warnings.simplefilter("ignore")
SHAPES = [(3, 4), (5,), (), (2, 3, 2)]
WD, MAX = {"weight_decay": 0.1}, {"maximize": True}
GRID = {
    "SGD": [{}, {"lr": 0.1}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.5, **WD}, {"momentum": 0.9, "nesterov": True, **WD, **MAX}, {"lr": torch.tensor(0.05)}, {"lr": torch.tensor([0.05], dtype=torch.float64), "momentum": 0.5}, {"fused": True, **WD}, {"foreach": True}],
    "Adam": [{}, {"lr": 0.1, "betas": (0.7, 0.8)}, WD, {"amsgrad": True, **WD}, {**MAX, "eps": 1e-3}, {"decoupled_weight_decay": True, **WD}, {"lr": torch.tensor(0.05)}, {"betas": (torch.tensor(0.8, dtype=torch.float64), torch.tensor(0.9, dtype=torch.float64))}, {"fused": True, "amsgrad": True}, {"betas": (0.2, 0.4)}],
    "AdamW": [{}, {"lr": 0.1, "amsgrad": True}, {"weight_decay": 0.3, **MAX}, {"lr": torch.tensor(0.05)}],
    "Adamax": [{}, {"lr": 0.1, "betas": (0.3, 0.8), "eps": 1e-3}, {**WD, **MAX}],
    "NAdam": [{}, {"lr": 0.1, "momentum_decay": 0.1}, WD, {"decoupled_weight_decay": True, **WD, **MAX}],
    "RAdam": [{}, {"lr": 0.1, "betas": (0.5, 0.6)}, {**WD, "eps": 1e-2}, {"decoupled_weight_decay": True, **WD, **MAX}],
    "Adagrad": [{}, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}, {**WD, **MAX, "eps": 1e-3}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.3, "eps": 1e-2}, {**WD, **MAX}],
    "ASGD": [{}, {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 3, **WD}, MAX],
    "RMSprop": [{}, {"lr": 0.1, "alpha": 0.5, "centered": True}, {"momentum": 0.9, **WD, **MAX}, {"momentum": 0.5, "centered": True, "eps": 1e-2}],
    "Rprop": [{}, {"lr": 0.1, "etas": (0.4, 1.3), "step_sizes": (1e-3, 0.2)}, MAX],
    "Adafactor": [{}, {"lr": 0.1, "eps": (1e-10, 1e-2), "weight_decay": 0.1}, {"d": 1.5, "beta2_decay": -1.0, **MAX}],
    "Muon": [{}, {"lr": 0.1, "momentum": 0.5, "nesterov": False}, {"adjust_lr_fn": "match_rms_adamw"}],
    "LBFGS": [{}, {"lr": 0.1, "max_iter": 3, "history_size": 2}, {"line_search_fn": "strong_wolfe", "max_iter": 4}],
}
SECOND = {"lr": 0.02}
TOL = {torch.float32: 5e-5, torch.float64: 1e-9, torch.complex64: 5e-5, torch.bfloat16: 0.06, torch.float16: 0.02}


def dtypes(name):
    real = [torch.float32, torch.float64]
    if name in ("LBFGS",):
        return [torch.float64]
    if name in ("Muon",):
        return real
    if name in ("Adafactor",):
        return real
    return real + [torch.complex64, torch.bfloat16, torch.float16]


def build(case, params):
    cls = getattr(torch.optim, case["class"].split(".")[-1])
    groups = params
    if case["second"]:
        n = len(params)
        groups = [{"params": params[: n // 2]}, {"params": params[n // 2 :], **case["second"]}]
    kwargs = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in case["kwargs"].items()}
    return cls(groups, **kwargs)


def step(case, o, params, steps):
    for s in steps:
        if case["class"].endswith("LBFGS"):

            def closure():
                loss = torch.zeros((), dtype=params[0].dtype)
                for p in params:
                    p.grad = None
                    x = p.reshape(-1)
                    loss = loss + (x * x * (torch.arange(p.numel()).to(p.dtype) + 1.0)).sum() + (x**4).sum() * 0.5
                loss.backward()
                return loss

            o.step(closure)
            continue
        for p, g in zip(params, case["grads"][s]):
            p.grad = None if g is None else g.clone()
        o.step()


def leaves(tensors):
    return [t.clone().requires_grad_() for t in tensors]


def detached(params):
    return [p.detach().clone() for p in params]


def copied(state):
    if isinstance(state, torch.Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {k: copied(v) for k, v in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(copied(v) for v in state)
    return state


def write_optimizers(folder):
    torch.manual_seed(0)
    cases = []
    for name, grid in GRID.items():
        for kwargs in grid:
            for dtype in dtypes(name):
                if dtype.is_complex and kwargs.get("fused"):
                    continue
                # the usual eps is 0 in float16, and PyTorch divides by it there
                if dtype == torch.float16 and name not in ("SGD", "ASGD", "Rprop") and kwargs.get("eps", 0) < 1e-3:
                    continue
                for second in [{}, SECOND] if dtype == torch.float64 and name != "LBFGS" else [{}]:
                    shapes = [(4, 3), (3, 5)] if name == "Muon" else SHAPES
                    make = lambda: [torch.randn(s, dtype=torch.float64 if not dtype.is_complex else torch.complex128).to(dtype) for s in shapes]
                    grads = [[None if (s + i) % 7 == 3 else g for i, g in enumerate(make())] for s in range(15)]
                    case = {"name": f"{name} {kwargs} {dtype} {second}", "class": f"torch.optim.{name}", "kwargs": kwargs, "second": second, "grads": grads}
                    case["tol"] = 0.05 if name == "Muon" else 1e-6 if name == "LBFGS" else TOL[dtype]
                    params = leaves(make())
                    case["params0"] = detached(params)
                    o = build(case, params)
                    for at in (5, 10, 15):
                        step(case, o, params, range(at - 5, at))
                        case[f"params{at}"] = detached(params)
                        if at == 5:
                            case["state5"] = copied(o.state_dict())
                    case["text"] = repr(o)
                    case["keys"] = [list(g) for g in o.state_dict()["param_groups"]]
                    case["state_keys"] = {k: list(v) for k, v in o.state_dict()["state"].items()}
                    cases.append(case)
    torch.save(cases, f"{folder}/cases.pt")


def close(a, b, tol):
    a, b = (torch.view_as_real(x) if x.is_complex() else x for x in (a, b))
    a, b = a.double(), b.double()
    return bool(((a - b).abs() <= tol * b.abs().clamp(min=0.1)).logical_or(a.isnan() & b.isnan()).all())


def read_optimizers(folder):
    cases, ours = torch.load(f"{folder}/cases.pt"), torch.load(f"{folder}/ours.pt")
    bad = []
    for case, got in zip(cases, ours, strict=True):
        params = leaves(got["params"])
        o = build(case, params)
        keys = [list(g) for g in got["state"]["param_groups"]]
        if keys != case["keys"]:
            bad.append((case["name"], "group keys", keys, case["keys"]))
        state_keys = {k: list(v) for k, v in got["state"]["state"].items()}
        if state_keys != case["state_keys"]:
            bad.append((case["name"], "state keys", state_keys, case["state_keys"]))
        if got["text"] != case["text"]:
            bad.append((case["name"], "text", got["text"], case["text"]))
        o.load_state_dict(got["state"])
        step(case, o, params, range(10, 15))
        for i, (a, b) in enumerate(zip(params, case["params15"])):
            if not close(a.detach(), b, case["tol"]):
                bad.append((case["name"], f"parameter {i}", a, b))
    print(bad[:20] if bad else "ok")


def lam(n):
    return {"lambda": n}


def sched(name, **kwargs):
    module = "swa_utils" if name == "SWALR" else "lr_scheduler"
    return {"class": f"torch.optim.{module}.{name}", "kwargs": kwargs}


SCHEDULES = [
    sched("LambdaLR", lr_lambda=lam(0)),
    sched("LambdaLR", lr_lambda=[lam(0), lam(1)]),
    sched("MultiplicativeLR", lr_lambda=lam(1)),
    sched("StepLR", step_size=7, gamma=0.5),
    sched("MultiStepLR", milestones=[3, 3, 10, 22, 40], gamma=0.7),
    sched("ConstantLR", factor=0.25, total_iters=24),
    sched("LinearLR", start_factor=0.1, end_factor=0.8, total_iters=30),
    sched("ExponentialLR", gamma=0.95),
    sched("PolynomialLR", total_iters=45, power=2.0),
    sched("CosineAnnealingLR", T_max=9, eta_min=0.01),
    sched("CosineAnnealingLR", T_max=50),
    sched("CosineAnnealingWarmRestarts", T_0=5),
    sched("CosineAnnealingWarmRestarts", T_0=3, T_mult=2, eta_min=0.01),
    sched("CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=4),
    sched("CyclicLR", base_lr=[0.01, 0.02], max_lr=0.2, step_size_up=4, step_size_down=7, mode="triangular2", base_momentum=[0.6, 0.7]),
    sched("CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=4, mode="exp_range", gamma=0.9, cycle_momentum=False),
    sched("CyclicLR", base_lr=0.01, max_lr=0.2, step_size_up=6, scale_fn=lam(1), scale_mode="iterations"),
    sched("OneCycleLR", max_lr=0.5, total_steps=50),
    sched("OneCycleLR", max_lr=[0.5, 0.1], epochs=10, steps_per_epoch=6, anneal_strategy="linear", pct_start=0.4, three_phase=True),
    sched("OneCycleLR", max_lr=0.5, total_steps=60, cycle_momentum=False, div_factor=10.0, final_div_factor=100.0),
    sched("ReduceLROnPlateau", patience=2, factor=0.5),
    sched("ReduceLROnPlateau", mode="max", patience=1, factor=0.2, threshold=0.05, threshold_mode="abs", cooldown=2, min_lr=[0.001, 0.01]),
    sched("SWALR", swa_lr=0.02, anneal_epochs=25),
    sched("SWALR", swa_lr=[0.02, 0.3], anneal_epochs=30, anneal_strategy="linear"),
    sched("ChainedScheduler", schedulers=[sched("ConstantLR", factor=0.1, total_iters=22), sched("ExponentialLR", gamma=0.9)]),
    sched("SequentialLR", schedulers=[sched("LinearLR", start_factor=0.1, total_iters=5), sched("CosineAnnealingLR", T_max=10), sched("StepLR", step_size=3)], milestones=[6, 25]),
    sched("SequentialLR", schedulers=[sched("ConstantLR", factor=0.1, total_iters=3), sched("CosineAnnealingWarmRestarts", T_0=4)], milestones=[4]),
    sched("SequentialLR", schedulers=[sched("ChainedScheduler", schedulers=[sched("LinearLR", total_iters=4), sched("ExponentialLR", gamma=0.99)]), sched("PolynomialLR", total_iters=20)], milestones=[22]),
    sched("SequentialLR", schedulers=[sched("SequentialLR", schedulers=[sched("LinearLR", total_iters=4), sched("ExponentialLR", gamma=0.99)], milestones=[5]), sched("ExponentialLR", gamma=0.9)], milestones=[30]),
]
OPTIMIZERS = [("SGD", {"momentum": 0.9}), ("Adam", {})]


def make_sched(o, s):
    def arg(v):
        if isinstance(v, dict) and "lambda" in v:
            return (lambda x: 0.95**x) if v["lambda"] == 0 else (lambda x: 1 / (1 + x))
        if isinstance(v, dict):
            return make_sched(o, v)
        if isinstance(v, list):
            return [arg(x) for x in v]
        return v

    cls = getattr(torch.optim.swa_utils if "swa" in s["class"] else L, s["class"].split(".")[-1])
    kwargs = {k: arg(v) for k, v in s["kwargs"].items()}
    return cls(**kwargs) if cls is L.ChainedScheduler else cls(o, **kwargs)


def make_opt(name, kwargs):
    groups = [{"params": [torch.zeros(1, requires_grad=True)], "lr": lr} for lr in (0.1, 0.5)]
    return getattr(torch.optim, name)(groups, **kwargs)


def values(o):
    return [[float(g["lr"]), float(g["betas"][0] if "betas" in g else g["momentum"])] for g in o.param_groups]


def follow(o, s, metrics, i):
    o.step()
    s.step(metrics[i]) if metrics else s.step()
    return values(o)


def write_schedules(folder):
    cases = []
    for name, kwargs in OPTIMIZERS:
        for sc in SCHEDULES:
            o = make_opt(name, kwargs)
            s = make_sched(o, sc)
            metrics = [1.0 / (1 + i // 5) for i in range(50)] if "Plateau" in sc["class"] else []
            case = {"name": f"{name} {sc}", "optimizer": f"torch.optim.{name}", "optimizer_kwargs": kwargs, "schedule": sc, "metrics": metrics}
            case["steps"] = [values(o)]
            for i in range(50):
                case["steps"].append(follow(o, s, metrics, i))
                if i == 19:
                    case["state20"], case["optimizer20"] = copied(s.state_dict()), copied(o.state_dict())
                if i == 34:
                    case["keys"] = list(s.state_dict())
                    case["group_keys"] = list(o.state_dict()["param_groups"][0])
            cases.append(case)
    torch.save(cases, f"{folder}/schedules.pt")


def read_schedules(folder):
    cases = torch.load(f"{folder}/schedules.pt", weights_only=False)
    ours = torch.load(f"{folder}/ours.pt")
    bad = []
    for case, (optimizer, schedule) in zip(cases, ours, strict=True):
        o = make_opt(case["optimizer"].split(".")[-1], case["optimizer_kwargs"])
        s = make_sched(o, case["schedule"])
        if set(schedule) != set(case["keys"]) or list(schedule) != case["keys"]:
            bad.append((case["name"], "keys", list(schedule), case["keys"]))
        got = list(optimizer["param_groups"][0])
        if set(got) != set(case["group_keys"]):
            bad.append((case["name"], "group keys", got, case["group_keys"]))
        s.load_state_dict(schedule)
        o.load_state_dict(optimizer)
        for i in range(35, 50):
            a, b = torch.tensor(follow(o, s, case["metrics"], i)), torch.tensor(case["steps"][i + 1])
            if not torch.allclose(a, b, rtol=1e-9, atol=1e-12):
                bad.append((case["name"], i, a.tolist(), b.tolist()))
                break
    print(bad[:20] if bad else "ok")
