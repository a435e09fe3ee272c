"""`python timed.py RUNS COMMAND...` runs a command some times, and prints what each run took, as JSON.

A process of its own, and a small one: what the kernel says of a child's memory is at least that of who started it.
"""

import json
import os
import subprocess
import sys
import time


def main() -> None:
    """Run the command of the arguments; print wall and processor seconds, peak MiB and exit code of each run."""
    runs, *command = sys.argv[1:]
    print(json.dumps([_run(command) for _ in range(int(runs))]))


def _run(command: list[str]) -> list[float]:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    return [wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)]


if __name__ == "__main__":
    main()
