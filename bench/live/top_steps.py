"""`python top_steps.py KUBECONFIG` does what `kubectl dra top` does, step by step, and prints what each step took.

The plugin imports while the server answers; here nothing does.
"""

import gc
import json
import sys
import time

STARTED = time.process_time()
"""What the interpreter has used until here."""


class Steps:
    """Wall and processor seconds of each step, in order."""

    def __init__(self) -> None:
        self.found = {"interpreter": (STARTED, STARTED)}
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def end(self, name: str) -> None:
        """End a step; the next one begins."""
        wall, processor = time.perf_counter(), time.process_time()
        self.found[name] = wall - self._wall, processor - self._processor
        self._wall, self._processor = wall, processor


def main() -> None:
    """Do the steps and print them as JSON."""
    gc.disable()
    steps = Steps()
    # Each import is a step of what is measured.
    from dra_operator.cli.kubectl.options import Options  # noqa: PLC0415
    from dra_operator.cli.kubectl.reading import read_live  # noqa: PLC0415
    from dra_operator.cli.kubectl.requests import connect  # noqa: PLC0415
    from dra_operator.cli.kubectl.verbs.top import DEMAND  # noqa: PLC0415

    steps.end("import of the verb")
    from dra_operator.questions.contents import gather_stored  # noqa: PLC0415
    from dra_operator.questions.state import ClusterState  # noqa: PLC0415
    from dra_operator.questions.usage import find_usage  # noqa: PLC0415

    steps.end("import of the engine")
    client = connect(Options(kubeconfig=sys.argv[1]))
    live = read_live(client, DEMAND, "default")
    steps.end("reading")
    contents = gather_stored(live.bodies)
    steps.end("making objects")
    state = ClusterState(contents, unread=live.unread)
    steps.end("state")
    find_usage(state)
    steps.end("answering")
    print(json.dumps(steps.found))


if __name__ == "__main__":
    main()
