"""Faults of objects, found before a claim meets them: classes that do not compile, contradictory pools, bad selectors.

Each is reported on the object that causes it. Incremental: only what changed is inspected again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dra_operator.api.node_selector import NodeSelectorError, parse_node_selector
from dra_operator.api.text import listed
from dra_operator.api.types import DeviceClass, DeviceTaintRule
from dra_operator.api.versions import Features
from dra_operator.inventory import bits
from dra_operator.inventory.change_set import ChangeSet
from dra_operator.inventory.ownership import counter_sets, rule_problem, taint_problem
from dra_operator.inventory.pool import Judgement, Pool, Verdict
from dra_operator.inventory.rule_selectors import RuleSelectors
from dra_operator.inventory.slices import PoolKey, Slice


class Problem(NamedTuple):
    """What is wrong with an object: its kind, its name, one line of text.

    `incomplete` is the pool whose number of slices is not the announced one, if that is all: an update makes it so for
    a moment. Everything else stays until somebody mends it. `topic` is set if the numbers in the message may change.
    """

    kind: str
    name: str
    message: str
    incomplete: PoolKey | None = None
    topic: str = ""


@dataclass(slots=True)
class Inspector:
    """Keeps the verdict on each pool as a whole, and the problems of pools and classes; rules know their own."""

    pools: Mapping[PoolKey, Pool]
    classes: Mapping[str, DeviceClass]
    rules: Mapping[str, DeviceTaintRule]
    rule_selectors: RuleSelectors
    changes: ChangeSet
    _of_pool: dict[PoolKey, tuple[Verdict, int, tuple[Problem, ...]]] = field(default_factory=dict)
    """By pool the verdict, the number of devices, and problems."""
    _of_class: dict[str, tuple[Problem, ...]] = field(default_factory=dict)

    def problems(self) -> tuple[Problem, ...]:
        """Return all problems, sorted."""
        self._refresh()
        tables = (*(problems for _, _, problems in self._of_pool.values()), *self._of_class.values())
        of_rules = [
            Problem("DeviceTaintRule", name, text)
            for name, rule in self.rules.items()
            if (text := rule_problem(rule)) is not None
        ]
        of_rules += [
            Problem("DeviceTaintRule", name, text, topic=topic)
            for name, text, topic in self.rule_selectors.problems()
        ]
        return tuple(sorted([*of_rules, *(problem for table in tables for problem in table)]))

    def counts(self) -> dict[str, int]:
        """Return the number of pools, by verdict too, and of the devices of their newest generations."""
        self._refresh()
        verdicts = [verdict for verdict, _, _ in self._of_pool.values()]
        return {
            "pools": len(verdicts),
            "incomplete_pools": verdicts.count(Verdict.INCOMPLETE),
            "invalid_pools": verdicts.count(Verdict.INVALID),
            "devices": sum(devices for _, devices, _ in self._of_pool.values()),
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
        pool = self.pools.get(key)
        if pool is None:
            self._of_pool.pop(key, None)
            return
        judgement = pool.judge_all(Features.all_on())
        devices = sum(len(item.names) for item in pool.newest())
        self._of_pool[key] = judgement.verdict, devices, tuple(_pool_problems(pool, judgement))


def _pool_problems(pool: Pool, judgement: Judgement) -> Iterator[Problem]:
    newest = pool.newest()
    place, path = ("ResourceSlice", newest[0].name), "/".join(pool.key)
    if judgement.verdict is Verdict.INCOMPLETE and len(newest) > newest[0].slice_count:
        yield Problem(*place, f"pool {path} has {judgement.reason}: {describe_surplus(pool)}", pool.key)
    elif judgement.verdict is not Verdict.COMPLETE:
        incomplete = pool.key if judgement.verdict is Verdict.INCOMPLETE else None
        text = f"pool {path} is {judgement.verdict.value}: {judgement.reason}"
        yield Problem(*place, text, incomplete)
    for slice_ in newest:
        selectors = [slice_.nodes.selector, *(trait.nodes.selector for trait in slice_.device_fields)]
        for selector in selectors:
            try:
                if selector is not None:
                    parse_node_selector(selector)
            except NodeSelectorError as error:
                yield Problem("ResourceSlice", slice_.name, f"node selector cannot be parsed: {error}")
                break
        yield from _ownership_problems(slice_)


def _ownership_problems(slice_: Slice) -> Iterator[Problem]:
    """Yield what is wrong with the ownership of devices, once for each sort."""
    place = ("ResourceSlice", slice_.name)
    for name, device_fields in zip(slice_.names, slice_.device_fields, strict=True):
        problem = next(filter(None, map(taint_problem, device_fields.taints)), None)
        if problem is not None:
            yield Problem(*place, f"device {name}: {problem}")
            break
    if half := slice_.half_owned:
        sets = sorted({name for index, sets in counter_sets(slice_) if half >> index & 1 for name in sets})
        names = [slice_.names[index] for index in bits.each(half)]
        yield Problem(
            *place,
            f"devices {listed(names)} are owned, but not all devices that draw on counter set {listed(sets)} are, so "
            "the operator allocates none of them: own all of these devices, or none",
        )


def describe_surplus(pool: Pool) -> str:
    """Return what slices that are more than announced probably are, what comes of it, and what to do.

    A node that just as many slices concern as are announced looks no further (docs/dra-semantics 2.3). A device is
    identified by driver, pool and its own name.
    """
    outcome = (
        "nodes that see exactly as many slices as announced still use the pool, "
        "and devices of the same name count as one"
    )
    nodes = pool.newest_nodes()
    if len(nodes) > 1:
        cause = f"most probably nodes {listed(nodes)} use one pool name"
        return f"{cause}; {outcome}; give each node a pool name of its own, such as the node's"
    cause = "most probably two publishers use one pool name, or slices of an earlier one were left behind"
    return (
        f"{cause}; {outcome}; give each publisher a pool name of its own, and delete what is left of others"
    )


def _class_problems(item: DeviceClass) -> Iterator[Problem]:
    # Who counts devices asks for no problems, and need not wait for the compiler.
    from dra_operator.cel.advice import describe  # noqa: PLC0415
    from dra_operator.cel.errors import CelError  # noqa: PLC0415
    from dra_operator.cel.program import compile_selector  # noqa: PLC0415

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
