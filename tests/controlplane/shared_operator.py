"""One operator for several tests: to start one takes seconds, and most tests only ask what becomes of objects."""

from pathlib import Path

from controlplane.operator_process import OperatorProcess, start_operator
from controlplane.plane import ControlPlane

_KNOWN = ("dra_operator_claims{", "dra_operator_objects{")
"""The metrics of what an operator knows of."""


class SharedOperator:
    """The operator of a control plane that tests use one after the other; it runs from when the first asks for it.

    Its log and its counters tell of all these tests. Whoever starts another one on the control plane stops it first.
    """

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane = plane
        self._folder = folder
        self._flags: tuple[str, ...] = ()
        self._process: OperatorProcess | None = None
        self._started = 0

    def run(self, *flags: str) -> OperatorProcess:
        """Return the operator with these flags, ready: a new one if the one that runs has others, or none runs."""
        if self._process is None or self._process.exit_code is not None or self._flags != flags:
            self.stop()
            log = self._folder / f"operator-{self._started}.log"
            self._started += 1
            self._flags = flags
            self._process = start_operator(self._plane, log, *flags)
        self._process.wait_ready()
        return self._process

    def stop(self) -> None:
        """Stop it if it runs."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def wait_until_empty(self) -> None:
        """Wait until it has seen that nothing is left of a test.

        Each kind has a watch of its own: the next test's claim may come before the end of this one's devices.
        """
        if self._process is None or self._process.exit_code is not None:
            return
        process = self._process
        try:
            process.wait_until(lambda: knows_nothing(process))
        except BaseException:
            self.stop()
            raise


def knows_nothing(operator: OperatorProcess) -> bool:
    """Tell whether an operator knows of no claim, slice, class, node and rule."""
    try:
        lines = operator.http("/metrics")[1].splitlines()
    except OSError:
        return False
    return not any(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(_KNOWN))
