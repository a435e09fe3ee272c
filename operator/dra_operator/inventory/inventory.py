"""The inventory: everything that exists and that a decision could depend on, kept incrementally.

Objects come in typed, in any order, and what is kept is what decisions need. What nodes see is derived in `views`, from
the change sets that are filled here.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakSet

from dra_operator.api.core import Namespace, Node
from dra_operator.api.names import ADMIN_ACCESS_LABEL
from dra_operator.api.types import DeviceClass, DeviceTaintRule, ResourceSlice
from dra_operator.inventory.change_set import ChangeSet
from dra_operator.inventory.nodes import NodeRecord, read_node
from dra_operator.inventory.object_faults import Inspector, Problem
from dra_operator.inventory.ownership import (
    Ownership,
    Settlement,
    close_over_counters,
    fenced_devices,
    ownership_of_slice,
    with_ownership,
)
from dra_operator.inventory.pool import Pool
from dra_operator.inventory.rule_selectors import RuleSelectors
from dra_operator.inventory.slices import Columns, PoolKey, Slice, read_slice, same_content, with_taints
from dra_operator.inventory.taints import touches


@dataclass(slots=True)
class Inventory:
    """Slices, classes, nodes, taint rules and namespaces.

    `version` grows with every change that could alter a decision or an explanation. `settlement` says which owned
    taints have been in force for long enough; without it all devices are ours. With `full_names` a name in the driver's
    domain is the one without domain (`Rules.full_names`).
    """

    pools: dict[PoolKey, Pool] = field(default_factory=dict)
    classes: dict[str, DeviceClass] = field(default_factory=dict)
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    rules: dict[str, DeviceTaintRule] = field(default_factory=dict)
    settlement: Settlement | None = None
    full_names: bool = False
    rule_selectors: RuleSelectors = field(init=False)
    version: int = 0
    rules_version: int = 0
    """Grows with every change of a rule that could own or taint other devices than before."""
    _namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _pool_of_slice: dict[str, PoolKey] = field(default_factory=dict)
    _ownership: dict[str, tuple[Ownership, ...]] = field(default_factory=dict)
    """What is ours of each slice, where ownership is asked for."""
    _columns: Columns = field(default_factory=Columns)
    _subscribers: WeakSet[ChangeSet] = field(default_factory=WeakSet)
    """Filled for as long as their owners refer to them."""
    _inspector: Inspector = field(init=False)

    def __post_init__(self) -> None:
        self.rule_selectors = RuleSelectors(self.classes)
        self._inspector = Inspector(
            self.pools, self.classes, self.rules, self.rule_selectors, self.subscribe()
        )

    def slices(self) -> Iterator[Slice]:
        """Yield all slices, pool by pool."""
        for pool in self.pools.values():
            yield from pool.slices.values()

    def problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with classes, slices and rules, sorted."""
        return self._inspector.problems()

    def summary(self) -> dict[str, int]:
        """Return how much there is, for metrics; pools are counted by the verdict on their newest generation."""
        return {
            **self._inspector.counts(),
            "slices": len(self._pool_of_slice),
            "classes": len(self.classes),
            "nodes": len(self.nodes),
            "usable_nodes": sum(node.unusable is None for node in self.nodes.values()),
            "taint_rules": len(self.rules),
        }

    def subscribe(self) -> ChangeSet:
        """Return an object that collects all changes from now on; all that exists counts as changed."""
        changes = ChangeSet(dict.fromkeys(self.pools), set(self.nodes), set(self.classes))
        self._subscribers.add(changes)
        return changes

    def put(self, item: Any) -> None:
        """Add an object, or replace the one of its name.

        Takes ResourceSlice, DeviceClass, Node, DeviceTaintRule and Namespace; raises TypeError for another.
        """
        match item:
            case ResourceSlice():
                self._put_slice(item)
            case DeviceClass():
                self._put_class(item)
            case Node():
                self._put_node(read_node(item))
            case DeviceTaintRule():
                self._put_rule(item)
            case Namespace():
                self._put_namespace(item)
            case _:
                raise TypeError(f"the inventory does not keep objects of type {type(item).__name__}")

    def remove(self, kind: str, name: str) -> None:
        """Remove an object, if it is there. Raises ValueError for a kind that the inventory does not keep."""
        match kind:
            case "ResourceSlice":
                self._remove_slice(name)
            case "DeviceClass":
                if self.classes.pop(name, None) is not None:
                    self._class_changed(name)
            case "Node":
                if self.nodes.pop(name, None) is not None:
                    self._node_changed(name)
            case "DeviceTaintRule":
                if (rule := self.rules.pop(name, None)) is not None:
                    self.rule_selectors.remove(name)
                    self.rules_version += 1
                    self._taint(rule)
            case "Namespace":
                self.version += self._namespaces.pop(name, None) is not None
            case _:
                raise ValueError(f"the inventory does not keep objects of kind {kind}")

    def with_unusable_nodes(self, causes: Mapping[str, str]) -> "Inventory":
        """Return this inventory as it is now, where these nodes and no others cannot be used; `causes` says why.

        It shares the pools, so it is of no use any more when this one changes; nothing may be put into it.
        """
        nodes = {
            name: node if node.unusable == (cause := causes.get(name)) else replace(node, unusable=cause)
            for name, node in self.nodes.items()
        }
        return Inventory(
            self.pools, self.classes, nodes, self.rules, self.settlement, _namespaces=self._namespaces
        )

    def with_nodes(self, names: AbstractSet[str]) -> "Inventory":
        """Return this inventory as it is now, with no other nodes than these and only the pools that they may see.

        It shares the pools, so it is of no use any more when this one changes; nothing may be put into it.
        """
        pools = {
            key: pool for key, pool in self.pools.items() if pool.shared or not names.isdisjoint(pool.local)
        }
        nodes = {name: node for name, node in self.nodes.items() if name in names}
        return Inventory(
            pools, self.classes, nodes, self.rules, self.settlement, _namespaces=self._namespaces
        )

    def admits_admin_access(self, namespace: str) -> bool:
        """True if the namespace is known and its label permits admin access. Source: docs/dra-semantics 6."""
        return self._namespaces.get(namespace, {}).get(ADMIN_ACCESS_LABEL) == "true"

    def find_device(self, driver: str, pool: str, name: str) -> Iterator[tuple[Slice, int]]:
        """Yield the slices that publish a device, each with its index there."""
        found = self.pools.get((driver, pool))
        for slice_ in found.slices.values() if found is not None else ():
            if (index := slice_.indexes.get(name)) is not None:
                yield slice_, index

    def tainted_by(self, rule: DeviceTaintRule, slice_: Slice) -> int:
        """Return which devices of a slice a rule taints, as a set of bits."""
        return self.rule_selectors.tainted(rule, slice_)

    def _put_slice(self, item: ResourceSlice) -> None:
        slice_ = read_slice(item, self._columns, full_names=self.full_names)
        old_key = self._pool_of_slice.get(slice_.name)
        if old_key is not None and old_key != slice_.key:
            self._remove_slice(slice_.name)
        pool = self.pools.get(slice_.key)
        if pool is None:
            pool = self.pools[slice_.key] = Pool(slice_.key)
        self._pool_of_slice[slice_.name] = slice_.key
        if self.settlement is not None:
            self._own(pool, {slice_.name: slice_}, self.settlement)
            return
        if self.rules:
            taints = self.rule_selectors.taints_in_force(slice_, self._sorted_rules())
            slice_ = with_taints(slice_, taints) if any(taints) else slice_
        self._replace(pool, slice_)

    def _own(self, pool: Pool, changed: Mapping[str, Slice], settlement: Settlement) -> None:
        """Put slices of a pool with the taints in force, and with what of them is ours.

        Where devices draw on counters, what is ours of one slice depends on all others.
        """
        rules, slices = self._sorted_rules(), {**pool.slices, **changed}
        if not any(slice_.counted for slice_ in slices.values()):
            slices = dict(changed)
        states = {name: ownership_of_slice(slice_, rules, settlement) for name, slice_ in slices.items()}
        closed = close_over_counters(tuple(slices.values()), states)
        for name, slice_ in slices.items():
            if name in changed or self._ownership.get(name) != closed[name]:
                self._ownership[name] = closed[name]
                taints = self.rule_selectors.taints_in_force(slice_, rules)
                fenced = fenced_devices(slice_, rules, settlement)
                self._replace(pool, with_ownership(slice_, taints, closed[name], fenced))

    def _replace(self, pool: Pool, slice_: Slice) -> None:
        old = pool.slices.get(slice_.name)
        if old is not None and same_content(old, slice_):
            return
        self.version += 1
        pool.put(slice_)
        self._pool_changed(pool.key)

    def _remove_slice(self, name: str) -> None:
        key = self._pool_of_slice.pop(name, None)
        if key is None:
            return
        self.rule_selectors.forget_slice(name)
        pool = self.pools[key]
        pool.remove(name)
        self._ownership.pop(name, None)
        if not pool.slices:
            del self.pools[key]
        self.version += 1
        self._pool_changed(key)
        if self.settlement is not None and pool.slices:
            self._own(pool, {}, self.settlement)

    def _pool_changed(self, key: PoolKey) -> None:
        for changes in self._subscribers:
            changes.pools[key] = None

    def _put_class(self, item: DeviceClass) -> None:
        name = item.metadata.name
        old = self.classes.get(name)
        self.classes[name] = item
        if old is None or old.spec != item.spec:
            self._class_changed(name)

    def _class_changed(self, name: str) -> None:
        self.version += 1
        for changes in self._subscribers:
            changes.classes.add(name)
        for rule in self.rule_selectors.of_class(name):
            self.rule_selectors.put(self.rules[rule])
            self._taint(self.rules[rule])

    def _put_node(self, node: NodeRecord) -> None:
        if self.nodes.get(node.name) != node:
            self.nodes[node.name] = node
            self._node_changed(node.name)

    def _node_changed(self, name: str) -> None:
        self.version += 1
        for changes in self._subscribers:
            changes.nodes.add(name)

    def _put_namespace(self, item: Namespace) -> None:
        name = item.metadata.name
        old = self.admits_admin_access(name)
        self._namespaces[name] = item.metadata.labels
        self.version += old != self.admits_admin_access(name)

    def _put_rule(self, item: DeviceTaintRule) -> None:
        name = item.metadata.name
        old = self.rules.get(name)
        self.rules[name] = item
        self.rules_version += old != item
        if old is not None and _same_rule(old, item):
            return
        self.version += 1
        self.rule_selectors.put(item)
        if old is not None and old.spec != item.spec:
            self._taint(old)
        self._taint(item)

    def settle(self, rules: AbstractSet[str], pools: AbstractSet[PoolKey]) -> None:
        """Say which owned taints have been in force for long enough (`Settlement`), and derive what that changes.

        May be called only where ownership is asked for.
        """
        settlement = self.settlement
        assert settlement is not None
        changed = (rules ^ settlement.rules) & self.rules.keys()
        moved = (pools ^ settlement.pools) & self.pools.keys()
        settlement.rules, settlement.pools = set(rules), set(pools)
        for name in sorted(changed):
            self._taint(self.rules[name])
        for key in sorted(moved):
            self._taint_pool(self.pools[key])

    def _taint(self, rule: DeviceTaintRule) -> None:
        """Derive the taints of all slices anew that a rule, come or gone, can match."""
        for key, pool in tuple(self.pools.items()):
            if touches(rule, *key):
                self._taint_pool(pool)

    def _taint_pool(self, pool: Pool) -> None:
        if self.settlement is not None:
            self._own(pool, dict(pool.slices), self.settlement)
            return
        rules = self._sorted_rules()
        for slice_ in tuple(pool.slices.values()):
            taints = self.rule_selectors.taints_in_force(slice_, rules)
            if taints != (slice_.taints or ((),) * len(slice_.names)):
                self._replace(pool, with_taints(slice_, taints))

    def _sorted_rules(self) -> list[DeviceTaintRule]:
        return [self.rules[name] for name in sorted(self.rules)]


def _same_rule(old: DeviceTaintRule, new: DeviceTaintRule) -> bool:
    """True if two states of a rule taint and own the same."""
    return old.spec == new.spec and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
