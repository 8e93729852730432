"""Both services under the same load: `python serve/measure.py [--seconds 10] [--clients 8]` after `cargo build --release -p serve`.

Each is alone on the machine while it is asked.
"""

import argparse
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
PROGRAMS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release"


def wait_for(port):
    for _ in range(600):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit(f"nothing answers at port {port}")


def processor_time(pid):
    """Of all threads, in seconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(name, command, port, args):
    service = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL)
    try:
        wait_for(port)
        load = [PROGRAMS / "load", f"127.0.0.1:{port}", "--clients", str(args.clients), "--seconds"]
        subprocess.run([*load, "1"], check=True, stdout=subprocess.DEVNULL)
        before = processor_time(service.pid)
        printed = subprocess.run([*load, str(args.seconds)], check=True, capture_output=True, text=True).stdout
        used = processor_time(service.pid) - before
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait()
    rate = float(re.search(r"requests per second: (\S+)", printed)[1])
    half, late = (float(v) for v in re.search(r"milliseconds: (\S+) .*, (\S+) ", printed).groups())
    each = used / (rate * args.seconds) * 1e3
    print(f"{name:20} {rate:10.0f} {half:10.2f} {late:10.2f} {each:12.3f}")
    return rate, late, each


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=10)
    args = parser.parse_args()
    print(f"{'':20} {'requests/s':>10} {'ms, half':>10} {'ms, 99 %':>10} {'cpu ms each':>12}")
    ours = measure("serve", [PROGRAMS / "serve"], 8765, args)
    theirs = measure("FastAPI, PyTorch", [sys.executable, HERE / "main.py"], 8766, args)
    print(
        f"serve answers {ours[0] / theirs[0]:.1f} times the requests, the slowest hundredth in {ours[1] / theirs[1]:.2f} of the "
        f"time, with {ours[2] / theirs[2]:.2f} of the processor time for each"
    )


if __name__ == "__main__":
    main()
