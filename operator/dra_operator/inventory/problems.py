"""Problems: what is wrong with objects of the inventory, found before any claim stumbles over it.

A class whose selector does not compile, a pool that contradicts itself or lacks slices, a node selector that cannot be
parsed: each is told on the object that causes it. Only what changed is looked at again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dra_operator.api.node_selector import NodeSelectorError, parse_node_selector
from dra_operator.api.types import DeviceClass
from dra_operator.cel import CelError, compile_selector
from dra_operator.cel.diagnostics import describe
from dra_operator.inventory.changes import Changes
from dra_operator.inventory.features import Features
from dra_operator.inventory.pool import Judgement, Pool, Verdict
from dra_operator.inventory.slices import PoolKey


class Problem(NamedTuple):
    """What is wrong with an object: its kind, its name, one line of text."""

    kind: str
    name: str
    message: str


@dataclass(slots=True)
class Inspector:
    """Keeps the verdict on each pool as a whole, and the problems of pools and classes."""

    pools: Mapping[PoolKey, Pool]
    classes: Mapping[str, DeviceClass]
    changes: Changes
    _verdicts: dict[PoolKey, Verdict] = field(default_factory=dict)
    _devices: dict[PoolKey, int] = field(default_factory=dict)
    _of_pool: dict[PoolKey, tuple[Problem, ...]] = field(default_factory=dict)
    _of_class: dict[str, tuple[Problem, ...]] = field(default_factory=dict)

    def problems(self) -> tuple[Problem, ...]:
        """Return all problems, sorted."""
        self._refresh()
        tables = (*self._of_pool.values(), *self._of_class.values())
        return tuple(sorted(problem for table in tables for problem in table))

    def counts(self) -> dict[str, int]:
        """Return the number of pools, by verdict too, and of the devices of their newest generations."""
        self._refresh()
        verdicts = list(self._verdicts.values())
        return {
            "pools": len(verdicts),
            "incomplete_pools": verdicts.count(Verdict.INCOMPLETE),
            "invalid_pools": verdicts.count(Verdict.INVALID),
            "devices": sum(self._devices.values()),
        }

    def _refresh(self) -> None:
        changes = self.changes
        pools, changes.pools = changes.pools, {}
        classes, changes.classes = changes.classes, set()
        changes.nodes.clear()
        for key in pools:
            self._inspect_pool(key)
        for name in classes:
            self._of_class.pop(name, None)
            if (item := self.classes.get(name)) and (found := tuple(_class_problems(item))):
                self._of_class[name] = found

    def _inspect_pool(self, key: PoolKey) -> None:
        for table in (self._verdicts, self._devices, self._of_pool):
            table.pop(key, None)
        pool = self.pools.get(key)
        if pool is None:
            return
        judgement = pool.judge_all(Features.all_on())
        self._verdicts[key] = judgement.verdict
        self._devices[key] = sum(len(item.names) for item in pool.newest())
        if found := tuple(_pool_problems(pool, judgement)):
            self._of_pool[key] = found


def _pool_problems(pool: Pool, judgement: Judgement) -> Iterator[Problem]:
    newest = pool.newest()
    if judgement.verdict is not Verdict.COMPLETE:
        text = f"pool {'/'.join(pool.key)} is {judgement.verdict.value}: {judgement.reason}"
        yield Problem("ResourceSlice", newest[0].name, text)
    for content in newest:
        selectors = [content.nodes.selector, *(trait.nodes.selector for trait in content.traits)]
        for selector in selectors:
            try:
                if selector is not None:
                    parse_node_selector(selector)
            except NodeSelectorError as error:
                yield Problem("ResourceSlice", content.name, f"node selector cannot be parsed: {error}")
                break


def _class_problems(item: DeviceClass) -> Iterator[Problem]:
    name = item.metadata.name
    for number, selector in enumerate(item.spec.selectors):
        if selector.cel is None:
            yield Problem(
                "DeviceClass", name, f"spec.selectors[{number}] is not of a known kind; only cel is"
            )
            continue
        try:
            compile_selector(selector.cel.expression)
        except CelError as error:
            expression = selector.cel.expression
            yield Problem("DeviceClass", name, f"selector #{number} {describe(expression, error)}")
