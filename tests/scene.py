"""A small cluster that a test fills with plain dicts, decides in, and asks why a claim waits."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any

import pytest

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Decision, Explanation
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.api.convert import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.explain import Explainer
from dra_operator.inventory import Features, Inventory
from dra_operator.ledger import Ledger

DRIVER = "gpu.example.com"


class Scene:
    """A cluster: objects go in by their shortest form, decisions come out as names."""

    def __init__(self, features: Features, limits: Limits, clock: Callable[[], float]) -> None:
        ids = count()
        self.inventory = Inventory()
        self.ledger = Ledger()
        self.allocator = Allocator(
            self.inventory,
            self.ledger,
            features=features,
            limits=limits,
            clock=clock,
            share_ids=lambda: f"share-{next(ids)}",
        )
        self.explainer = Explainer(self.allocator)

    def put(self, kind: str, name: str, *, labels: dict[str, str] | None = None, **fields: Any) -> None:
        """Put an object of the inventory."""
        body = {"metadata": {"name": name, "labels": labels or {}}, **fields}
        self.inventory.put(apply_defaults(read_object(body, kind)))

    def nodes(self, *names: str) -> None:
        """Put nodes."""
        for name in names:
            self.put("Node", name)

    def slice(self, name: str, *devices: Any, **spec: Any) -> None:
        """Put a slice of the pool that is named like its node (or `pool=`); devices are names or objects."""
        node = spec.get("nodeName")
        pool = {
            "name": spec.pop("pool", node or "pool"),
            "generation": spec.pop("generation", 1),
            "resourceSliceCount": spec.pop("count", 1),
        }
        listed = [{"name": item} if isinstance(item, str) else item for item in devices]
        where = (
            spec
            if node or spec.keys() & {"allNodes", "nodeSelector", "perDeviceNodeSelection"}
            else {**spec, "allNodes": True}
        )
        self.put("ResourceSlice", name, spec={"driver": DRIVER, "pool": pool, "devices": listed, **where})

    def device_class(self, name: str = "gpu", *expressions: str, **spec: Any) -> None:
        """Put a class with these selectors."""
        selectors = [{"cel": {"expression": item}} for item in expressions]
        self.put("DeviceClass", name, spec={"selectors": selectors, **spec})

    def claim(
        self, *requests: dict[str, Any], name: str = "claim", namespace: str = "team", **devices: Any
    ) -> Any:
        """Return a claim with these requests; more fields go beside them."""
        spec = {"devices": {"requests": list(requests), **devices}}
        body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        return apply_defaults(read_object(body, "ResourceClaim"))

    def decide(self, *claims: Any, nodes: list[str] | None = None) -> Decision:
        """Decide for some claims together."""
        return self.allocator.allocate(claims, nodes)

    def search(self, searching: SearchMode) -> None:
        """Have other searches asked, as if no node had said no yet."""
        self.allocator.searching = searching
        self.allocator._nodes._memory.forget()

    def picks(self, *claims: Any, nodes: list[str] | None = None) -> list[str] | None:
        """Return the devices that claims get, as `request=device`, or None if they get none."""
        decision = self.decide(*claims, nodes=nodes)
        if not isinstance(decision, Allocated):
            return None
        return [
            f"{item.request}={item.device}" for result in decision.results for item in result.devices.results
        ]

    def use(self, name: str, *claims_requests: dict[str, Any]) -> list[str]:
        """Allocate a claim for good and return its devices."""
        claim = self.claim(*claims_requests, name=name)
        decision = self.decide(claim)
        assert isinstance(decision, Allocated), decision
        self.ledger.assume("team", name, decision.results[0])
        return [item.device for item in decision.results[0].devices.results]

    def share(self, name: str, device: str, consumed: dict[str, str], pool: str = "pool") -> None:
        """Put a claim that has a share of a device."""
        self.hold(name, device, pool, {"shareID": name, "consumedCapacity": consumed})

    def hold(
        self, name: str, device: str, pool: str, share: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Put a claim that has a device, or a share of it."""
        result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device, **share}
        body = {
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"devices": {"requests": [request()]}},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        self.ledger.put(apply_defaults(read_object(body, "ResourceClaim")))

    def explain(self, *claims: Any) -> Explanation:
        """Decide, and return why the first claim is not allocated."""
        return self.explainer.explain(claims, self.decide(*claims))[0]


def request(name: str = "r", count: int = 1, *expressions: str, **fields: Any) -> dict[str, Any]:
    """Return a request for some devices of class `gpu`."""
    exactly = {"deviceClassName": "gpu", "count": count, **fields}
    if fields.get("allocationMode") == "All":
        del exactly["count"]
    if expressions:
        exactly["selectors"] = [{"cel": {"expression": item}} for item in expressions]
    return {"name": name, "exactly": exactly}


@pytest.fixture
def ask() -> Callable[..., dict[str, Any]]:
    """Write a request: `ask("r", 2, "selector", tolerations=[...])`."""
    return request


@pytest.fixture
def scene() -> Scene:
    """An empty cluster with class `gpu`, which every device belongs to."""
    empty = Scene(Features.all_on(), Limits(), lambda: 0.0)
    empty.device_class()
    return empty


@pytest.fixture
def ticking() -> Callable[[Limits], Scene]:
    """Make a cluster whose clock moves by a second each time it is looked at."""

    def build(limits: Limits) -> Scene:
        seconds: Iterator[int] = count()
        made = Scene(Features.all_on(), limits, lambda: float(next(seconds)))
        made.device_class()
        return made

    return build


@pytest.fixture
def scene_with() -> Callable[..., Scene]:
    """Make a cluster with features switched off: `scene_with(device_taints=False)`."""

    def build(**switches: bool) -> Scene:
        made = Scene(Features(**switches), Limits(), lambda: 0.0)
        made.device_class()
        return made

    return build
