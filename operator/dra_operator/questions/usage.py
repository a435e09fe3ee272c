"""Usage: how many devices are used and free, who holds them and since when, and which nodes lack some.

Each published device counts once in a row: `total` is the sum of the five states. Classes may overlap, so rows by class
do not add up. A claim holds the results of its allocation; admin access holds nothing and is listed on request. A
device that is published for one node belongs to that node; any other to the node that the allocation is pinned to.
Source: docs/audit.md.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import reduce
from typing import Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.core import Pod
from dra_operator.api.names import RESERVATION_KIND
from dra_operator.api.text import age_of, did_you_mean, listed, near_object, shown
from dra_operator.api.types import ResourceClaim
from dra_operator.inventory import Verdict
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.pods.claims import is_over
from dra_operator.questions.answers import (
    HOLDERS,
    MISSING,
    OF_CLASS,
    USAGE,
    Conclusion,
    LargestDevice,
    UnknownObjectError,
    conclude,
)
from dra_operator.questions.claims import (
    Consumer,
    Use,
    allocated_claims,
    node_of_claim,
    results_of,
)
from dra_operator.questions.device_table import (
    DeviceRow,
    DeviceState,
    DeviceTable,
    HolderQuery,
    PublishedDevices,
    find_most_left,
    node_of_device,
    values_of,
)
from dra_operator.questions.state import ClusterState

# --- how many


class Grouping(StrEnum):
    """What a row stands for."""

    NODE = "node"
    POOL = "pool"
    CLASS = "class"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One node (empty: devices that are on no single node), pool (`driver/pool`), class or namespace.

    `used` to `blocked` are numbers of devices by their `DeviceState`; of a namespace only `used` and `shared` are
    known. `idle` are devices whose holders all have no running consumer, `owned` those that the operator owns, whatever
    their state. No row counts devices that are not published.
    """

    name: str
    total: int | None
    used: int
    shared: int
    free: int | None
    tainted: int | None
    blocked: int | None
    idle: int | None
    claims: int
    owned: int = 0
    largest: LargestDevice | None = None
    condition: str = ""
    """What is wrong with the node or pool: `cordoned`, `incomplete`."""


@dataclass(frozen=True, slots=True)
class UsageSum:
    """How many rows there are, and what the numbers of all of them come to; None where one is not known."""

    rows: int
    total: int | None
    used: int | None
    shared: int | None
    free: int | None
    tainted: int | None
    blocked: int | None
    idle: int | None
    owned: int | None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Rows sorted by name. `is_at_most`: claims, taint rules or nodes were not all read, so that less may be free.

    `partial` has a line for each class that has no row, as its selectors take too long. `sum` is what the
    rows of nodes or pools come to; a device may be of several classes or namespaces.
    """

    grouping: Grouping
    rows: tuple[UsageRow, ...]
    is_at_most: bool = False
    unread: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    sum: UsageSum | None = None


def find_usage(state: ClusterState, grouping: Grouping | str = Grouping.NODE, *, by: str = "") -> UsageReport:
    """Return a row for each `node`, `pool` or `namespace` that has devices, and for each `class`.

    `by` is the capacity by which a device is the largest, with or without its domain; without it, it is the first
    capacity by name that any device of the row has. Raises QuestionError if slices, or classes, were not read.
    """
    missing, grouping = USAGE.find_missing(state.unread), Grouping(grouping)
    groups: dict[str, list[DeviceRow]] = {}
    if grouping is Grouping.CLASS:
        OF_CLASS.check(state.unread)
        # A class that selects no device has a row as well: that is what is wrong with it.
        groups = {name: [] for name in state.inventory.classes}
    table, classes = DeviceTable(state), [*groups]
    for row in table.rows:
        match grouping:
            case Grouping.NODE:
                names = [row.node]
            case Grouping.POOL:
                names = [row.pool.path]
            case Grouping.NAMESPACE:
                names = sorted({namespace for namespace, _ in row.holders})
            case Grouping.CLASS:
                names = [name for name in classes if table.is_in_class(name, row.slice_, row.index)]
        for name in names:
            groups.setdefault(name, []).append(row)
    consumers = state.consumers
    is_idle = {
        claim_key(claim): consumers.find_use(claim).is_idle for claim in allocated_claims(state.objects)
    }
    rows = [
        _build_row(table, grouping, name, groups[name], is_idle=is_idle, by=by)
        for name in sorted(groups.keys() - table.classes.unfinished)
    ]
    summed = sum_rows(grouping, rows)
    return UsageReport(
        grouping, tuple(rows), bool(missing), state.unread_lines, table.classes.partial, summed
    )


def sum_rows(grouping: Grouping, rows: Sequence[UsageRow]) -> UsageSum | None:
    """Return what rows come to; None if one device may be in several of them."""
    if grouping not in (Grouping.NODE, Grouping.POOL):
        return None
    names = [each.name for each in fields(UsageSum) if each.name != "rows"]
    numbers = {name: [getattr(row, name) for row in rows] for name in names}
    return UsageSum(
        len(rows), **{name: None if None in found else sum(found) for name, found in numbers.items()}
    )


def add_empty(state: ClusterState, rows: Iterable[UsageRow], names: Iterable[str]) -> list[UsageRow]:
    """Return rows with one, by name, for each node that has no devices."""
    found, conditions = {row.name: row for row in rows}, DeviceTable(state)
    for name in names:
        if name not in found:
            condition = conditions.find_node_condition(name)
            found[name] = UsageRow(name, 0, 0, 0, 0, 0, 0, 0, 0, condition=condition)
    return [found[name] for name in sorted(found)]


def _build_row(
    table: DeviceTable,
    grouping: Grouping,
    name: str,
    group: Sequence[DeviceRow],
    *,
    is_idle: Mapping[ClaimKey, bool | None],
    by: str,
) -> UsageRow:
    is_namespace, condition = grouping is Grouping.NAMESPACE, ""
    counts = Counter(row.state for row in group)
    holders = [
        {key for key in row.holders if key[0] == name} if is_namespace else row.holders
        for row in group
        if row.holders
    ]
    if grouping is Grouping.NODE and name:
        condition = table.find_node_condition(name)
    elif grouping is Grouping.POOL and (verdict := group[0].pool.judgement.verdict) is not Verdict.COMPLETE:
        condition = verdict.value
    row = UsageRow(
        name,
        len(group),
        counts[DeviceState.USED],
        counts[DeviceState.SHARED],
        counts[DeviceState.FREE],
        counts[DeviceState.TAINTED],
        counts[DeviceState.BLOCKED],
        _count_idle(holders, is_idle),
        len(frozenset[ClaimKey]().union(*holders)),
        owned=sum(row.is_owned for row in group),
        largest=None if is_namespace else _find_largest(group, table.state.ledger, by),
        condition=condition,
    )
    # A namespace has no devices but those that its claims hold.
    return replace(row, total=None, free=None, tainted=None, blocked=None, owned=0) if is_namespace else row


def _count_idle(
    devices: Iterable[AbstractSet[ClaimKey]], is_idle: Mapping[ClaimKey, bool | None]
) -> int | None:
    """Return how many of some devices, by their holders, have only idle ones; None if that is not known of one."""
    found = 0
    for claims in devices:
        states = [is_idle.get(claim) for claim in claims]
        if False in states:
            continue
        if None in states:
            return None
        found += 1
    return found


def _find_largest(group: Sequence[DeviceRow], ledger: Ledger, by: str) -> LargestDevice | None:
    """Return the device with room that has most left of a capacity; of equals the first by driver, pool and name."""
    roomy = [
        (row.slice_, row.index, ledger.consumed(row.pool.key, row.name)) for row in group if row.has_room
    ]
    slices = {slice_.name: slice_ for slice_, _, _ in roomy}
    names = {
        name
        for slice_ in slices.values()
        for name in slice_.capacity
        if by in ("", name, name.rpartition("/")[2])
    }
    found = filter(None, (find_most_left(roomy, name) for name in sorted(names)))
    best = max(found, key=lambda each: each[0], default=None) if by else next(found, None)
    return None if best is None else best[1]


# --- who holds them


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """One result of an allocation. `consumed` are the amounts of a share, as `memory=10Gi`."""

    driver: str
    pool: str
    device: str
    request: str
    node: str = ""
    share_id: str = ""
    consumed: tuple[str, ...] = ()
    is_admin_access: bool = False
    is_published: bool = True

    @property
    def path(self) -> str:
        """The device as texts have it."""
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that holds devices.

    `since` is when it was allocated; if that is not known, when it was created, and `is_since_creation` says so. `node`
    is the one that its allocation is pinned to. `is_idle`: no consumer runs; None if that cannot be said.
    """

    namespace: str
    name: str
    devices: tuple[HeldDevice, ...]
    consumers: tuple[Consumer, ...]
    use: Use
    is_idle: bool | None
    node: str = ""
    since: str | None = None
    is_since_creation: bool = False
    age_seconds: int | None = None
    is_being_deleted: bool = False


@dataclass(frozen=True, slots=True)
class HolderReport:
    """The claims that hold something, by namespace and name, and how many devices were asked about.

    `unread` has a line for each kind that could not be read, `partial` for each without which holders may be missing,
    or listed that hold no such device.
    """

    query: HolderQuery
    holders: tuple[Holder, ...]
    devices: int
    unread: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether somebody holds one."""
        return conclude(is_yes=bool(self.holders), is_partial=bool(self.partial))

    def idle(self) -> "HolderReport":
        """Return the report of those alone that are idle; of some that may not be known."""
        found = tuple([item for item in self.holders if item.is_idle])
        partial = self.partial
        if any(item.is_idle is None for item in self.holders):
            partial = (*partial, "of some claims it is not known whether pods use them")
        return replace(self, holders=found, partial=partial)


_ANYBODY = {("Pod", ""), (RESERVATION_KIND, "")}


def find_holders(state: ClusterState, query: HolderQuery = HolderQuery()) -> HolderReport:  # noqa: B008 - it is frozen
    """Return the claims that hold devices of a query, by namespace and name, with these devices alone.

    Raises UnknownObjectError if the query names what is not there, QuestionError for a class where none could be read.
    """
    of_slices = ("ResourceSlice",) if query.device_class or query.node else ()
    of_rules = ("DeviceTaintRule",) if query.owner else ()
    partial = HOLDERS.find_missing(state.unread, (*of_slices, *of_rules))
    if query.device_class:
        OF_CLASS.check(state.unread)
    table = DeviceTable(state)
    held = {
        claim_key(claim): (claim, [*_held_devices(claim, table.published)])
        for claim in allocated_claims(state.objects)
    }
    _check_names(table, query, [item for _, items in held.values() for item in items])
    holders: list[Holder] = []
    for key, (claim, items) in sorted(held.items()):
        devices = [item for item in items if _is_asked_about(table, query, claim, item)]
        if devices and query.namespace in ("", key[0]):
            holder = _build_holder(state, claim, devices)
            users = {(each.kind, f"{key[0]}/{each.name}") for each in holder.consumers}
            wanted = {("Pod", query.pod), (RESERVATION_KIND, query.reservation)} - _ANYBODY
            if wanted <= users:
                holders.append(holder)
    count = sum(1 for _ in table.select(query))
    return HolderReport(query, tuple(holders), count, state.unread_lines, (*partial, *table.classes.partial))


def _held_devices(claim: ResourceClaim, published: PublishedDevices) -> Iterator[HeldDevice]:
    pinned = node_of_claim(claim)
    for result in results_of(claim):
        found = published.find(result.driver, result.pool, result.device)
        yield HeldDevice(
            result.driver,
            result.pool,
            result.device,
            result.request,
            (node_of_device(*found) if found is not None else "") or pinned,
            result.share_id or "",
            tuple([f"{name}={amount}" for name, amount in sorted(result.consumed_capacity.items())]),
            bool(result.admin_access),
            found is not None,
        )


def _is_asked_about(table: DeviceTable, query: HolderQuery, claim: ResourceClaim, item: HeldDevice) -> bool:
    """Return whether a query is about a result; of a device that is not published, the class of its request counts."""
    if not query.is_about(item.driver, item.pool, item.device, item.node):
        return False
    if item.is_admin_access and not query.admin_access:
        return False
    if not table.is_of_owner(query.owner, (item.driver, item.pool, item.device)):
        return False
    if not (query.device_class or query.value):
        return True
    found = table.published.find(item.driver, item.pool, item.device)
    if found is None:
        return not query.value and query.device_class in classes_of_request(claim, item.request)
    return table.is_selected(query, *found)


def _build_holder(state: ClusterState, claim: ResourceClaim, devices: Iterable[HeldDevice]) -> Holder:
    metadata, allocation = claim.metadata, claim.status.allocation
    assert allocation is not None
    use = state.consumers.find_use(claim)
    since = allocation.allocation_timestamp or metadata.creation_timestamp
    return Holder(
        metadata.namespace,
        metadata.name,
        tuple(devices),
        tuple(state.consumers.find_consumers(claim)),
        use,
        use.is_idle,
        node=node_of_claim(claim),
        since=since,
        is_since_creation=allocation.allocation_timestamp is None,
        age_seconds=age_of(since, state.now),
        is_being_deleted=metadata.deletion_timestamp is not None,
    )


def classes_of_request(claim: ResourceClaim, name: str) -> set[str]:
    """Return the classes that a request of a claim names, or one of its alternatives, `request/alternative`."""
    first, _, alternative = name.partition("/")
    requests = [each for each in claim.spec.devices.requests if each.name == first]
    found = {each.exactly.device_class_name for each in requests if each.exactly is not None}
    items = (item for each in requests for item in each.first_available)
    return found | {item.device_class_name for item in items if item.name == alternative}


def _check_names(table: DeviceTable, query: HolderQuery, held: Sequence[HeldDevice]) -> None:
    """Raise UnknownObjectError if a query names what is not there, though all of that kind was read."""
    state = table.state
    if query.device_class and "DeviceClass" not in state.unread:
        _check("DeviceClass", query.device_class, state.inventory.classes)
    # What is gone may still be held.
    if query.node and "Node" not in state.unread:
        nodes = {*state.nodes, *(row.node for row in table.rows), *(item.node for item in held)}
        _check("Node", query.node, nodes - {""})
    if query.value and "ResourceSlice" not in state.unread:
        known = {value for row in table.rows for value in values_of(row.slice_, row.index).values()}
        if query.value not in known:
            near = near_object(query.value, known) or min(
                (each for each in known if each.startswith(query.value)), default=""
            )
            hint = f"; did you mean {shown(near)}?" if near else ""
            if any(row.name == query.value for row in table.rows):
                hint = f"; for a device of this name write device/POOL/{query.value}"
            raise UnknownObjectError(f"no device has the value {shown(query.value)}{hint}")
    wanted = {"driver": query.driver, "pool": query.pool, "device": query.device}
    if "ResourceSlice" in state.unread or not any(wanted.values()):
        return
    here = [(item.driver, item.pool, item.device) for item in held]
    here += [(*row.pool.key, row.name) for row in table.rows]
    for position, (kind, name) in enumerate(wanted.items()):
        if name:
            _check(kind, name, {each[position] for each in here})
            here = [each for each in here if each[position] == name]


def _check(kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise unknown_object(kind, name, known)


def unknown_object(kind: str, name: str, known: Iterable[str]) -> UnknownObjectError:
    """Return that something of this name is not there, and the name that was probably meant."""
    return UnknownObjectError(f'there is no {kind} "{name}"{did_you_mean(near_object(name, known))}')


_PLACES: Final = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/",
    "failure-domain.beta.kubernetes.io/",
)
"""What labels begin with that say where a node is, and not what."""


# --- which nodes lack some


@dataclass(frozen=True, slots=True)
class NodeWithoutDevices:
    """A node that publishes no device of a driver, and why it should.

    `is_certain` unless most nodes of which the same is so publish none. `condition` is why it cannot be used.
    """

    node: str
    driver: str
    why: str
    is_certain: bool
    condition: str = ""


@dataclass(frozen=True, slots=True)
class MissingDevices:
    """Nodes without devices, by name and driver. `partial` has a line for each thing that the answer lacks."""

    items: tuple[NodeWithoutDevices, ...]
    partial: tuple[str, ...] = ()


def find_nodes_without_devices(state: ClusterState) -> MissingDevices:
    """Return the nodes that should publish devices of a driver and do not. Raises QuestionError without nodes.

    Of a driver the nodes count that publish devices of it. A node lacks it if its slice is empty, if a claim holds a
    device of it there, if it has all labels that these nodes have in common, or if a DaemonSet runs there that runs on
    all of these, and of whose nodes most publish. Labels that every node has, and those of places, say nothing.
    Source: docs/audit.md, "Without devices".
    """
    partial = MISSING.find_missing(state.unread)
    table = DeviceTable(state)
    publishing: defaultdict[str, set[str]] = defaultdict(set)
    for row in table.rows:
        if row.node in state.nodes:
            publishing[row.pool.key[0]].add(row.node)
    empty: defaultdict[str, set[str]] = defaultdict(set)
    for record in state.objects.of_kind("ResourceSlice"):
        driver, node = record.obj.spec.driver, record.obj.spec.node_name or ""
        if node in state.nodes and node not in publishing[driver]:
            empty[driver].add(node)
    daemons, claims = _find_daemons(state), _find_held(state)
    items = [
        NodeWithoutDevices(node, driver, why, is_certain, table.find_node_condition(node))
        for driver in {*publishing, *empty, *claims}
        for node, (why, is_certain) in _find_missing(
            state, publishing[driver], empty[driver], daemons, claims.get(driver, {})
        ).items()
    ]
    items.sort(key=lambda item: (item.node, item.driver))
    return MissingDevices(tuple(items), partial)


def _find_missing(
    state: ClusterState,
    publishing: AbstractSet[str],
    empty: AbstractSet[str],
    daemons: Mapping[str, AbstractSet[str]],
    claims: Mapping[str, list[str]],
) -> dict[str, tuple[str, bool]]:
    """Return why nodes lack one driver, and whether that is certain, by name."""
    found = {node: ("its slice has no devices", len(publishing) >= len(empty)) for node in empty}
    for node in claims.keys() - publishing:
        if node in state.nodes:
            names = sorted(claims[node])
            held = (
                f"claims {listed(names)} hold devices"
                if len(names) > 1
                else f"claim {names[0]} holds a device"
            )
            found.setdefault(node, (f"{held} there", True))
    if not publishing:
        return found
    like = f"as {len(publishing)} node{'s' if len(publishing) > 1 else ''} with devices"
    for daemon, nodes in sorted(daemons.items()):
        if nodes >= publishing and len(publishing | (nodes & empty)) * 2 > len(nodes):
            for node in nodes - publishing:
                found.setdefault(node, (f"DaemonSet {daemon} runs there, {like}", True))
    marks = _find_marks(state, publishing)
    alike = {name for name, node in state.nodes.items() if marks and marks <= node.metadata.labels.items()}
    is_usual = len(publishing | (alike & empty)) * 2 > len(alike)
    text = ", ".join(sorted(f"{key}={value}" if value else key for key, value in marks))
    for node in alike - publishing:
        found.setdefault(node, (f"it is labelled {text}, {like}", is_usual))
    return found


def _find_marks(state: ClusterState, nodes: Iterable[str]) -> AbstractSet[tuple[str, str]]:
    """Return the labels that some nodes have in common, and not all nodes have."""
    labels = [frozenset(state.nodes[name].metadata.labels.items()) for name in sorted(nodes)]
    everywhere = reduce(
        frozenset.intersection, [frozenset(node.metadata.labels.items()) for node in state.nodes.values()]
    )
    common = reduce(frozenset.intersection, labels)
    return {item for item in common - everywhere if not item[0].startswith(_PLACES)}


def _find_daemons(state: ClusterState) -> dict[str, set[str]]:
    """Return the nodes on which each DaemonSet, by namespace and name, has a pod."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for record in state.objects.of_kind("Pod"):
        pod: Pod = record.obj
        for owner in pod.metadata.owner_references:
            if owner.controller and owner.kind == "DaemonSet" and not is_over(pod):
                found[f"{pod.metadata.namespace}/{owner.name}"].update(
                    {pod.spec.node_name} & state.nodes.keys()
                )
    return found


def _find_held(state: ClusterState) -> dict[str, dict[str, list[str]]]:
    """Return the claims that hold devices on each node, by driver."""
    found: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for claim in allocated_claims(state.objects):
        node = node_of_claim(claim)
        # A pool of the network is on no node, and one that is named like the node was there.
        for driver in {each.driver for each in results_of(claim) if each.pool == node != ""}:
            found[driver].setdefault(node, []).append("/".join(claim_key(claim)))
    return found
