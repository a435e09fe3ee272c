"""A fuzzer for CEL: expressions and devices at random, and what must hold for every one of them.

Whatever is written, and whatever a device holds, the outcome is an answer or a `CelError`, in at most two seconds (a
tenth for all but evaluations), and plain evaluation answers as the metered one does. `bench/fuzz_cel.py` looks for
exceptions from that for as long as one likes; `tests/cel/test_fuzz.py` for a moment, and goes through what was found
before (`findings.jsonl`).
"""

from celfuzz.devices import random_device, random_driver
from celfuzz.expressions import Expressions
from celfuzz.judge import Case, Finding, Hang, judge

__all__ = ["Case", "Expressions", "Finding", "Hang", "judge", "random_device", "random_driver"]
