"""`PYTHONPATH=bench python -m workloads [NAME ...] [--folder FOLDER]` writes workloads to files, one scenario each."""

import argparse
import signal
import sys
from pathlib import Path

from workloads import names, write


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, prog="workloads")
    parser.add_argument("names", nargs="*", help="which ones to write; default: all that --list prints")
    parser.add_argument("--folder", type=Path, default=Path("workloads"), help="where to write")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random numbers")
    parser.add_argument("--list", action="store_true", help="print the names and write nothing")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(names()))
        return
    try:
        for name in arguments.names or names():
            print(write(name, arguments.folder, seed=arguments.seed))
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    # Who reads the names may stop before the end, as `head` does.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
