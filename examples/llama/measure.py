"""This program and transformers on the same folder of 100 million random weights, float32, one text: `python llama/measure.py
[--tokens 100]` after `cargo build --release -p llama`."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
PROGRAM = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release" / "llama"
PROMPT = ",".join(str(i * 37 % 24000) for i in range(1, 17))


def run(command):
    """What it generated; seconds of loading, milliseconds for a token."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = float(re.search(r"loaded in (\S+) s", done.stderr)[1])
    return done.stdout.split(), loaded, float(re.search(r"(\S+) ms each", done.stderr)[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script = [sys.executable, HERE / "main.py"]
        # 12 layers of 5.3 million, and 36.9 million for words
        shape = ["--hidden", "768", "--layers", "12", "--vocabulary", "24000"]
        subprocess.run([*script, "--make", folder, *shape], check=True)
        asked = [folder, PROMPT, "--ids", "--tokens", str(args.tokens)]
        best = []
        for name, command in [("llama", [PROGRAM]), ("transformers", script)]:
            runs = [run([*command, *asked]) for _ in range(args.rounds)]
            best.append((runs[0][0], min(r[1] for r in runs), min(r[2] for r in runs)))
            print(f"{name:14} loaded in {best[-1][1]:6.2f} s, {best[-1][2]:7.2f} ms for a token")
        (ours, theirs) = best
        same = sum(a == b for a, b in zip(ours[0], theirs[0]))
        print(f"{same} of {len(theirs[0])} tokens are the same")
        print(f"llama takes {ours[1] / theirs[1]:.2f} of the time to load, {ours[2] / theirs[2]:.2f} for a token")


if __name__ == "__main__":
    main()
