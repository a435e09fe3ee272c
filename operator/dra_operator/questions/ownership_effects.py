"""What owning devices does to others: requests that nobody serves then, devices that stay out, monitors that go blind.

Judged by what is published now; devices that are on no single node count as being on each of them.
Source: docs/operator.md, "Devices that are ours".
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from itertools import chain

from dra_operator.api import types
from dra_operator.api.names import OWNED_KEY
from dra_operator.api.text import listed
from dra_operator.cel import CelError, compile_selector, prepare_device
from dra_operator.cel import Selector as CompiledSelector
from dra_operator.inventory.ownership import tolerates_owned
from dra_operator.questions.raw_devices import ClusterDevices, DeviceKey, PublishedDevice, held_devices

_MOST_LINES = 10
"""Lines of one sort; more of them nobody reads at a terminal."""


@dataclass(frozen=True, slots=True)
class PlacedRequest:
    """A request, and where it stands: in a claim that waits, or in a template. A class stands for any request of it."""

    place: str
    selectors: tuple[str, ...]
    is_all: bool
    is_admin: bool
    tolerations: tuple[types.DeviceToleration, ...] = ()


def find_divided_counters(
    cluster: ClusterDevices, ours: AbstractSet[DeviceKey], chosen: AbstractSet[DeviceKey], verb: str = "own"
) -> list[str]:
    """Return a line for each counter set of which some devices would be ours and some not.

    Only sets with a device of `chosen` are looked at: what is wrong elsewhere is no reason against these.
    """
    return [
        f'{driver}/{pool}: devices {_names(inside)} draw on counter set "{counter_set}" together with '
        f"{_names(outside)}, which would stay out: {verb} all of these devices, or none"
        for (driver, pool, counter_set), keys in _drawing(cluster).items()
        if not chosen.isdisjoint(keys)
        and (inside := [key for key in keys if key in ours])
        and (outside := [key for key in keys if key not in ours])
    ]


def in_whole_counter_sets(
    cluster: ClusterDevices, ours: AbstractSet[DeviceKey], chosen: AbstractSet[DeviceKey]
) -> set[DeviceKey]:
    """Return those of `chosen` that draw on counters with devices of ours alone."""
    return {key for keys in _drawing(cluster).values() if ours >= set(keys) for key in keys if key in chosen}


def _drawing(cluster: ClusterDevices) -> Mapping[tuple[str, str, str], list[DeviceKey]]:
    """Return the devices that draw on each counter set, by driver, pool and set."""
    drawn = defaultdict[tuple[str, str, str], list[DeviceKey]](list)
    for key, device in cluster.devices.items():
        for counter_set in sorted(device.counter_sets):
            drawn[key.driver, key.pool, counter_set].append(key)
    return drawn


def find_holders(claims: Iterable[types.ResourceClaim], devices: AbstractSet[DeviceKey]) -> list[str]:
    """Return a line for each claim that holds some of these devices: which, and for whom they are reserved."""
    lines = []
    for claim in claims:
        held = sorted({key for key in held_devices(claim) if key in devices})
        if not held:
            continue
        metadata = claim.metadata
        users = [f"{each.resource.removesuffix('s')} {each.name}" for each in claim.status.reserved_for]
        lines.append(
            holder_line(
                f"{metadata.namespace}/{metadata.name}",
                [str(key) for key in held],
                users,
                is_being_deleted=metadata.deletion_timestamp is not None,
            )
        )
    return first_lines(sorted(lines), "claims")


def holder_line(name: str, devices: Sequence[str], users: Sequence[str], *, is_being_deleted: bool) -> str:
    """Return the line about a claim that holds devices, and for whom it is reserved."""
    reserved = f"reserved for {listed(users)}" if users else "reserved for nobody"
    leaving = ", is being deleted" if is_being_deleted else ""
    return f"claim {name} holds {listed(devices)}, {reserved}{leaving}"


def find_divided_nodes(
    cluster: ClusterDevices, ours: AbstractSet[DeviceKey], chosen: AbstractSet[DeviceKey]
) -> list[str]:
    """Return a line for each class and each request for All that selects devices of ours and others on one node.

    Only nodes with a device of `chosen` are looked at.
    """
    nodes = _divided(cluster, ours, chosen)
    if not nodes:
        return []
    lines = []
    candidates = {device.key: device for device in chain.from_iterable(nodes.values())}
    for consumer in chain(_classes(cluster), (each for each in consumers(cluster) if each.is_all)):
        matching = set(_matching(consumer, candidates.values()))
        divided = [
            (node, here, [key for key in here if key in ours])
            for node, devices in nodes.items()
            if (here := [device.key for device in devices if device.key in matching])
        ]
        divided = [each for each in divided if 0 < len(each[2]) < len(each[1])]
        if divided:
            node, here, inside = divided[0]
            more = f" (and on {len(divided) - 1} more)" if len(divided) > 1 else ""
            lines.append(
                f"{consumer.place}: of the {len(here)} devices {_on(node)}{more}, {len(inside)} would be ours, so "
                f"requests for All are served there by nobody"
            )
    return first_lines(lines, "classes, templates and claims")


def find_blind_monitors(cluster: ClusterDevices, chosen: AbstractSet[DeviceKey]) -> list[str]:
    """Return a line for each request with admin access that selects such a device and does not tolerate the taint.

    kube-scheduler tests taints there too, and pods of a template are its business.
    """
    devices = [cluster.devices[key] for key in sorted(chosen)]
    lines = [
        f"{consumer.place}: has admin access and does not tolerate the taint {OWNED_KEY}, so its pods no longer get "
        f'devices that are ours: add the toleration {{"key": "{OWNED_KEY}", "operator": "Exists"}}'
        for consumer in consumers(cluster)
        if consumer.is_admin
        and not tolerates_owned(consumer.tolerations)
        and next(_matching(consumer, devices), None) is not None
    ]
    return first_lines(lines, "requests")


def consumers(cluster: ClusterDevices) -> Iterator[PlacedRequest]:
    """Yield the requests of templates, and those of claims that have no allocation."""
    for template in cluster.templates:
        yield from _requests(cluster, _place(template), template.spec.spec)
    for claim in cluster.claims:
        if claim.status.allocation is None:
            yield from _requests(cluster, _place(claim), claim.spec)


def _place(item: types.ResourceClaimTemplate | types.ResourceClaim) -> str:
    return f"{type(item).__name__} {item.metadata.namespace}/{item.metadata.name}"


def _requests(cluster: ClusterDevices, place: str, spec: types.ResourceClaimSpec) -> Iterator[PlacedRequest]:
    for request in spec.devices.requests:
        for name, each in (
            (request.name, request.exactly),
            *((f"{request.name}/{each.name}", each) for each in request.first_available),
        ):
            found = cluster.classes.get(each.device_class_name) if each else None
            if each is None or found is None:
                continue
            yield PlacedRequest(
                f'{place}, request "{name}"',
                _expressions((*found.spec.selectors, *each.selectors)),
                is_all=each.allocation_mode == "All",
                is_admin=bool(getattr(each, "admin_access", None)),
                tolerations=each.tolerations,
            )


def _classes(cluster: ClusterDevices) -> Iterator[PlacedRequest]:
    for name, found in sorted(cluster.classes.items()):
        yield PlacedRequest(
            f"DeviceClass {name}", _expressions(found.spec.selectors), is_all=True, is_admin=False
        )


def _expressions(those: Iterable[types.DeviceSelector]) -> tuple[str, ...]:
    return tuple(each.cel.expression for each in those if each.cel is not None)


def _divided(
    cluster: ClusterDevices, ours: AbstractSet[DeviceKey], chosen: AbstractSet[DeviceKey]
) -> Mapping[str | None, list[PublishedDevice]]:
    """Return the devices of each node that has some of `chosen` and some that are not ours."""
    nodes = defaultdict[str | None, list[PublishedDevice]](list)
    for device in cluster.devices.values():
        nodes[device.node].append(device)
    anywhere = nodes.pop(None, [])
    seen: dict[str | None, list[PublishedDevice]] = {
        node: [*here, *anywhere] for node, here in sorted(nodes.items(), key=lambda each: str(each[0]))
    }
    if anywhere and not seen:
        seen[None] = anywhere
    return {
        node: devices
        for node, devices in seen.items()
        if any(device.key in chosen for device in devices)
        and any(device.key not in ours for device in devices)
    }


def _matching(consumer: PlacedRequest, devices: Iterable[PublishedDevice]) -> Iterator[DeviceKey]:
    """Yield the devices that a request selects. A selector that fails selects nothing, and is told of elsewhere."""
    programs = [_compiled(expression) for expression in consumer.selectors]
    if None in programs:
        return
    for device in devices:
        prepared = prepare_device(device.key.driver, device.device)
        try:
            if all(program is not None and program.match(prepared) for program in programs):
                yield device.key
        except CelError:
            continue


@cache
def _compiled(expression: str) -> CompiledSelector | None:
    try:
        return compile_selector(expression)
    except CelError:
        return None


def _names(keys: Iterable[DeviceKey]) -> str:
    return listed([key.name for key in keys])


def _on(node: str | None) -> str:
    return f"on node {node}" if node else "that are on no single node"


def first_lines(lines: list[str], what: str) -> list[str]:
    """Return the first of some lines, and how many more there are."""
    more = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], f"and {more} more {what}"] if more > 0 else lines
