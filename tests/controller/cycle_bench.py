"""A scheduling cycle for tests: the allocator is scripted, and what goes in and comes out is seen."""

from datetime import UTC, datetime

from cluster import node
from dra_operator.allocator.decision import Allocated, Explanation, Failed, Unsatisfied
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import NodeSelector
from dra_operator.api.read import read_object
from dra_operator.api.types import AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Write
from dra_operator.controller.claims import ClaimScope
from dra_operator.controller.cycle import SchedulingCycle
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.metrics import Metrics
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger


def fits(device, node_selector=NodeSelector()):  # noqa: B008 - it is frozen
    """Return the decision that gives a claim a device, which some nodes can use, or with None all."""
    result = DeviceRequestAllocationResult(request="gpu", driver="d", pool="p", device=device)
    devices = DeviceAllocationResult(results=(result,))
    return Allocated("node-1", (AllocationResult(devices, node_selector),))


FITS = fits("gpu-0")
KEY = ("default", "claim")


class Clock:
    """Seconds that pass when a test says so."""

    now = 1000.0

    def __call__(self):
        """Return the time."""
        return self.now


class Allocator:
    """Answers as a test says, and notes in which order it was asked."""

    def __init__(self):
        self.asked, self.answers, self.takes = [], {}, None
        self.failing, self.looked_at = {}, []
        self.allocator = self

    def allocate(self, claims, **_options):
        """Return the scripted decision, or raise it."""
        name = claims[0].metadata.name
        self.asked.append(name)
        if self.takes is not None:
            self.takes()
        answer = self.answers.get(name, Unsatisfied())
        if isinstance(answer, Exception):
            raise answer
        return answer

    def forget(self, _key):
        """Keep nothing anyway."""

    def refresh(self):
        """Follow nothing."""

    def find_failing(self, claim):
        """Return the scripted sentences about selectors, and note that they were asked for."""
        name = claim.metadata.name
        self.looked_at.append(name)
        found = self.failing.get(name, [])
        if isinstance(found, Exception):
            raise found
        return found

    def explain(self, _claims, decision, *, is_preempted):  # noqa: ARG002
        """Return a reason that fits the decision."""
        reason = decision.reason if isinstance(decision, Failed) else Reason.DEVICE_IN_USE
        return (Explanation(reason, f"request gpu: {reason}", "gpu"),)


class Bench:
    """A pass on the bench: what goes in, and what comes out. It `may_break` where a test is about a defect."""

    may_break = False

    def __init__(self, clock, settlement=None, scope=ClaimScope.STANDALONE):
        self.clock = clock
        self.allocator, self.ledger = Allocator(), Ledger()
        inventory = Inventory(settlement=settlement)
        self.allocator.inventory = inventory
        # The one that allocations of tests are bound to.
        inventory.put(read_object(node(), "Node"))
        self.metrics, self.wall = Metrics(), lambda: datetime.now(UTC)
        self.cycle = SchedulingCycle(
            inventory,
            self.ledger,
            self.allocator,
            explainer=self.allocator,
            metrics=self.metrics,
            event_refresh=1200,
            clock=clock,
            scope=scope,
            wall=lambda: self.wall(),  # noqa: PLW0108 - tests set it
            hears=lambda kind: kind in self.heard,
        )
        self.versions, self.heard = 0, {"ResourceClaim", "ResourceSlice", "Node"}

    def run(self, *items, stopping=lambda: False):
        """Run a pass and return what it wants done."""
        out = []
        self.wake_at = self.cycle.run(items, out.extend, stopping)
        return out

    def delta(self, body, **status):
        """Return the difference that brings a claim, each time in a newer version."""
        self.versions += 1
        metadata = {"uid": f"uid-{body['metadata']['name']}", **body["metadata"]}
        metadata["resourceVersion"] = str(self.versions)
        found = {**body, "metadata": metadata, "status": status}
        return Delta("ResourceClaim", metadata["namespace"], metadata["name"], found)

    def metric(self, name, **labels):
        """Return what a metric says, None if it says nothing."""
        return self.metrics.registry.get_sample_value(f"dra_operator_{name}", labels)


def writes(effects, kind="allocate"):
    """Return the writes of a kind among effects."""
    return [effect for effect in effects if isinstance(effect, Write) and effect.kind == kind]


def said_by(write):
    """Return the text of the annotation that a write sets; None if it takes one off."""
    (text,) = write.annotations.values()
    return text


def event_reasons(effects):
    """Return the reasons of the Events among effects."""
    return [effect.reason for effect in effects if isinstance(effect, EventRequest)]
