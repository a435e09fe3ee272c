"""How many instructions of Python an action takes: the same on every machine, whatever else runs there."""

import sys
from collections.abc import Callable


def opcodes(action: Callable[[], object]) -> int:
    """Return the number of instructions; what built-in functions do inside counts as one."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count
