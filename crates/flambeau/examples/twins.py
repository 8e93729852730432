"""Runs twins one after another in one process: each line of the input is a program's name and its flags, with tabs between."""

import contextlib
import importlib
import sys
import traceback

for line in sys.stdin:
    name, *argv = line.rstrip("\n").split("\t")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            importlib.import_module(name).main(argv)
        print("done", flush=True)
    except BaseException:
        traceback.print_exc()
        print("failed", flush=True)
