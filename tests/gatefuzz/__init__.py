"""Gated pods under random interleavings: writes that are late or lost, watches that lag, operators that are killed.

`server` stores objects and checks after each change what must never be; `operator` is the scheduling cycle without
network, whose writes take their patches one by one; `run` draws the steps and says what is wrong at the end. `python -m
gatefuzz` runs as many cases as one likes, `tests/controller/test_gated_crashes.py` a few.
"""

from gatefuzz.run import run_case

__all__ = ["run_case"]
