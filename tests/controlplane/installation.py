"""An operator in a namespace of a control plane, which may be killed and started again."""

from pathlib import Path

from controlplane.operator_process import OperatorProcess, start_operator
from controlplane.plane import ControlPlane
from controlplane.scene import Scene


class Installation:
    """A namespace, and the operators that were started one after the other, with the `flags` of the class."""

    flags: tuple[str, ...] = ()

    def __init__(self, plane: ControlPlane, namespace: str, folder: Path) -> None:
        self.plane, self.client = plane, plane.client
        self.scene = Scene(plane, namespace)
        self._folder = folder
        self.operators: list[OperatorProcess] = []

    def start(self) -> None:
        """Start an operator, and wait until it is ready; the one before is killed."""
        for each in self.operators[-1:]:
            each.kill()
        log = self._folder / f"operator-{len(self.operators)}.log"
        self.operators.append(start_operator(self.plane, log, *self.flags))
        self.operators[-1].wait_ready()
