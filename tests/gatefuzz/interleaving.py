"""An operator beside a small cluster, whose cycles, writes and watches are interleaved with what others do."""

import random

from gatefuzz.operator import Operator
from gatefuzz.server import BrokenError, ConflictError, Server
from pod_world import device_class, node, resource_slice


class Clock:
    """Seconds that pass when a step says so."""

    now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Interleaving:
    """Two nodes of two devices, and random steps, made again by their seed.

    Whoever is one has an `operator`, says what a `step` is, how all comes to rest (`settle`), and what holds then.
    """

    operator: Operator

    def __init__(self, seed: object, server: Server, cpu: str = "4") -> None:
        self.random = random.Random(str(seed))  # noqa: S311 - it is made again by its seed
        self.clock, self.server = Clock(), server
        self.trace: list[str] = []
        """The names of the steps."""
        self.server.put(device_class())
        for name in ("n1", "n2"):
            self.server.put(node(name, cpu=cpu))
            self.server.put(resource_slice(name, "gpu-0", "gpu-1"))

    def step(self) -> None:
        """Do something."""
        raise NotImplementedError

    def settle(self) -> None:
        """Let everything come to rest."""
        raise NotImplementedError

    def check_end(self) -> None:
        """Raise BrokenError if something is wrong at the end."""
        raise NotImplementedError

    def run(self, name: str, count: int) -> None:
        """Run so many steps. Raises BrokenError with the steps that led there."""
        try:
            for _ in range(count):
                self.step()
            self.settle()
            self.check_end()
        except (BrokenError, ConflictError) as error:
            raise BrokenError(f"{name}: {error}; after {' '.join(self.trace)}") from error

    # --- the operator

    def run_cycle(self) -> None:
        """Run a cycle of the operator."""
        self.operator.run()

    def send(self) -> None:
        """Let a patch of some write reach the API server."""
        self.operator.send_one(self.random)

    def tell(self) -> None:
        """Let the watches bring something."""
        self.operator.tell(self.random.randint(1, 6))

    def rest(self) -> None:
        """Tell, decide and write until nothing is left to do."""
        for _ in range(60):
            self.operator.tell(len(self.server.events))
            self.clock.now += 0.5
            self.operator.run()
            if not self.operator.pending and not self.operator.is_behind:
                return
            while self.operator.pending:
                self.send()
        raise BrokenError("it does not come to rest")
