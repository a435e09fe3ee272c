"""`kubectl dra`: questions about devices, claims and pods, asked from the terminal. Reads only.

Built with click alone, so that `--help` and completion start in 0.3 s; a verb imports the engine while the cluster is
read.

- `commands` is the table of verbs; `verbs` has a module for each, which declares it by `answering.verb`: what it reads,
  its options, its question, its columns.
- Reading: `requests` has kubectl ask the API server, `reading` lists kinds, `source` is the cluster, snapshot, files or
  record that a verb asks.
- Answers: `answering` runs a verb and prints, `tables` for people, `sarif` for code scanning. `options` are those that
  verbs share, and completion; `subjects` are objects that are named on the command line.
"""

import gc
import os
import signal
import sys

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""
COMPLETE = "__complete"
"""What stands before the words to complete, where the plugin is one file."""


def main() -> None:
    """Run the verb that the arguments name."""
    if sys.argv[1:2] == [COMPLETE]:
        del sys.argv[1]
        complete()
        return
    from dra_operator.cli.kubectl.commands import app

    # The process ends before collections would pay, as all that is read is kept.
    gc.disable()
    # Threads may still wait for a server, and Python for them.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))

    try:
        app(prog_name="kubectl dra")
    except BrokenPipeError:
        # Whoever reads has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - 1, with which Python ends, is an answer
        import traceback

        # What the error says may be a secret.
        place = "".join(
            f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(error.__traceback__)[-1:]
        )
        sys.stderr.write(
            f"error: a defect of kubectl dra, please report it: {type(error).__name__} at {place}\n"
        )
        sys.exit(2)


def complete() -> None:
    """Print what can follow the arguments, as kubectl asks for it."""
    from dra_operator.cli.kubectl.options import print_completions

    print_completions(sys.argv[1:])
