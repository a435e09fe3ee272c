"""`python -m conformance [--count N] [--seed S]` compares ours with upstream, live.

Each difference is printed to stdout as one line of JSON, the answer of upstream in it; everything else goes to stderr.
The exit code is 1 if there is a difference that docs/differences.md does not explain. `python -m conformance replay
FILE` and `python -m conformance cel FILE` read such lines, and compare what is decided with the answer in them.
"""

import importlib
import sys

COMMANDS = {"replay": "conformance.replay", "cel": "conformance.cel"}
"""Those that ask nobody. They are timed, and import nothing that is not theirs."""

if __name__ == "__main__":
    if (name := " ".join(sys.argv[1:2])) in COMMANDS:
        importlib.import_module(COMMANDS[name]).app(sys.argv[2:], prog_name=f"conformance {name}")
    sys.exit(importlib.import_module("conformance.live").main())
