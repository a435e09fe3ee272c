"""Refused slices: what the API server does not take of a ResourceSlice, and the operator would read in its own way.

Two devices of one name, counters beside devices, a slice for no node, a taint whose effect is misspelt and keeps nobody
away: in a file each is a slip that shows only when the file is applied, and what is decided until then is about another
slice than was meant. Lengths are apart, in `lengths`. Not all is looked at, but where a hand slips: names, how often
they are there, where devices can be used, operations to skip, and taints, also those of a DeviceTaintRule.
Source: k8s.io/kubernetes/pkg/apis/resource/validation, `validateResourceSliceSpec` and `validateDeviceTaint`, and the
answers of an API server of 1.37.
"""

import re
from collections.abc import Iterator, Sequence

from dra_operator.api.patterns import (
    DOMAIN,
    DRIVER,
    KEY,
    LABEL,
    NO_DRIVER,
    NO_KEY,
    NO_NODE,
    NO_VALUE,
    SUBDOMAIN,
    VALUE,
)
from dra_operator.api.refused import Refusal
from dra_operator.api.types import (
    CounterSet,
    Device,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintSelector,
    ResourceSlice,
    ResourceSliceSpec,
)

_EFFECTS = ("None", "NoSchedule", "NoExecute")
_SEGMENTS = re.compile(rf"(?=.{{1,253}}$){DOMAIN}(/{DOMAIN})*")

_NO_EFFECT = "is no effect: write NoSchedule, NoExecute, or None"
_NO_POOL = "is no name of a pool: use lower case letters, digits, - and ., such as the name of the node"
_NO_GENERATION = "is less than zero: begin with 0 or 1, and count up when the pool changes"
_NO_COUNT = "is not greater than zero: say how many slices the pool has"
_NO_DEVICE = "is no name of a device: use lower case letters, digits and -, at most 63 of them"
_TWO_DEVICES = "is the name of two devices of this slice: give each a name of its own"
_NO_SET = "is no name of a counter set: use lower case letters, digits and -, at most 63 of them"
_NO_COUNTER = "is no name of a counter: use lower case letters, digits and -, at most 63 of them"
_TWO_SETS = "is the name of two counter sets: give each a name of its own"
_DRAWN_TWICE = "is named twice: name all counters of a set at once"
_BOTH = "devices and sharedCounters are both set: publish the counters in another slice of the pool"
_EMPTY_SET = "has no counters: name at least one, or leave the set out"
_NO_GROUP = "is no name of a group: use lower case letters, digits and -, at most 63 of them"
_TWO_GROUPS = "is named twice: once is enough"
_PREPARE, _UNPREPARE, _ALL = "NodePrepareResources", "NodeUnprepareResources", "*"
_OPERATIONS = (_PREPARE, _UNPREPARE, _ALL)
_NO_OPERATION = f"is no operation: write {_PREPARE}, {_UNPREPARE}, or * for all"
_SKIPPED_TWICE = "is named twice: once is enough"
_NOT_UNPREPARED = f"has {_PREPARE} alone: skip {_UNPREPARE} as well"
_NO_TERMS = "is empty: say which nodes, or set allNodes in its place"
_NO_CONDITION = "is no name of a condition: write domain/name or name, of letters, digits, -, _ and ."
_TWO_CONDITIONS = "is named twice: a condition is either met or failed, and once is enough"
_NO_CONDITIONS = "is empty: a device has both bindingConditions and bindingFailureConditions, or neither"
_OF_SLICE = "nodeName, nodeSelector, allNodes, perDeviceNodeSelection"
_OF_DEVICE = "nodeName, nodeSelector, allNodes"
_NOT_ONE = "{given} of {names} are set: set just one, to say where devices can be used"
_FALSE = "cannot be false: set it to true, or leave it out"
_NOT_PER_DEVICE = (
    "says where it can be used: leave that out, or set perDeviceNodeSelection of the slice in its place"
)


def find_refused(obj: ResourceSlice | DeviceTaintRule) -> Iterator[Refusal]:
    """Yield what is refused of a slice or a rule."""
    if isinstance(obj, DeviceTaintRule):
        yield from _taint(obj.spec.taint, "spec.taint")
        if obj.spec.device_selector is not None:
            yield from _selected(obj.spec.device_selector, "spec.deviceSelector")
    else:
        yield from _slice(obj.spec)


def _slice(spec: ResourceSliceSpec) -> Iterator[Refusal]:
    # The API server has always taken drivers in capitals, too.
    if not DRIVER.fullmatch(spec.driver.lower()):
        yield Refusal("spec.driver", spec.driver, NO_DRIVER)
    if not _SEGMENTS.fullmatch(spec.pool.name):
        yield Refusal("spec.pool.name", spec.pool.name, _NO_POOL)
    if spec.pool.generation < 0:
        yield Refusal("spec.pool.generation", spec.pool.generation, _NO_GENERATION)
    if spec.pool.resource_slice_count <= 0:
        yield Refusal("spec.pool.resourceSliceCount", spec.pool.resource_slice_count, _NO_COUNT)
    yield from _nodes(spec, "spec")
    if spec.per_device_node_selection is False:
        yield Refusal("spec.perDeviceNodeSelection", None, _FALSE)
    given = [spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection]
    yield from _just_one(given, "spec", _OF_SLICE)
    if spec.devices and spec.shared_counters:
        yield Refusal("spec", None, _BOTH)
    yield from _skipped(spec.skip_node_operations, "spec.skipNodeOperations")
    yield from _devices(spec)
    yield from _counter_sets(spec.shared_counters)


def _selected(selector: DeviceTaintSelector, path: str) -> Iterator[Refusal]:
    """Yield what is wrong with the names in a rule; a name that is right may still be that of nothing."""
    if selector.driver is not None and not DRIVER.fullmatch(selector.driver.lower()):
        yield Refusal(f"{path}.driver", selector.driver, NO_DRIVER)
    if selector.pool is not None and not _SEGMENTS.fullmatch(selector.pool):
        yield Refusal(f"{path}.pool", selector.pool, _NO_POOL)
    if selector.device is not None and not LABEL.fullmatch(selector.device):
        yield Refusal(f"{path}.device", selector.device, _NO_DEVICE)


def _skipped(operations: Sequence[str], path: str) -> Iterator[Refusal]:
    for index, name in enumerate(operations):
        if name not in _OPERATIONS:
            yield Refusal(f"{path}[{index}]", name, _NO_OPERATION)
        elif name in operations[:index]:
            yield Refusal(f"{path}[{index}]", name, _SKIPPED_TWICE)
    if _PREPARE in operations and not {_UNPREPARE, _ALL}.intersection(operations):
        yield Refusal(path, None, _NOT_UNPREPARED)


def _devices(spec: ResourceSliceSpec) -> Iterator[Refusal]:
    seen: set[str] = set()
    for index, device in enumerate(spec.devices):
        path = f"spec.devices[{index}]"
        yield from _name(device.name, f"{path}.name", seen, _NO_DEVICE, _TWO_DEVICES)
        yield from _place(device, path, is_chosen=bool(spec.per_device_node_selection))
        for number, taint in enumerate(device.taints):
            yield from _taint(taint, f"{path}.taints[{number}]")
        drawn: set[str] = set()
        for number, item in enumerate(device.consumes_counters):
            at = f"{path}.consumesCounters[{number}]"
            yield from _name(item.counter_set, f"{at}.counterSet", drawn, _NO_SET, _DRAWN_TWICE)
            if not item.counters:
                yield Refusal(f"{at}.counters", None, _EMPTY_SET)
            groups: set[str] = set()
            for place, name in enumerate(item.compatibility_groups):
                yield from _name(name, f"{at}.compatibilityGroups[{place}]", groups, _NO_GROUP, _TWO_GROUPS)
        yield from _conditions(device, path)


def _conditions(device: Device, path: str) -> Iterator[Refusal]:
    met, failed = device.binding_conditions, device.binding_failure_conditions
    seen: set[str] = set()
    for field, names, others in (
        ("bindingConditions", met, failed),
        ("bindingFailureConditions", failed, met),
    ):
        if others and not names:
            yield Refusal(f"{path}.{field}", None, _NO_CONDITIONS)
        for index, name in enumerate(names):
            if not KEY.fullmatch(name):
                yield Refusal(f"{path}.{field}[{index}]", name, _NO_CONDITION)
            elif name in seen:
                yield Refusal(f"{path}.{field}[{index}]", name, _TWO_CONDITIONS)
            seen.add(name)


def _taint(taint: DeviceTaint, path: str) -> Iterator[Refusal]:
    if not KEY.fullmatch(taint.key):
        yield Refusal(f"{path}.key", taint.key, NO_KEY)
    if taint.value and not VALUE.fullmatch(taint.value):
        yield Refusal(f"{path}.value", taint.value, NO_VALUE)
    if taint.effect not in _EFFECTS:
        yield Refusal(f"{path}.effect", taint.effect, _NO_EFFECT)


def _place(device: Device, path: str, *, is_chosen: bool) -> Iterator[Refusal]:
    given = [device.node_name, device.node_selector, device.all_nodes]
    if is_chosen:
        yield from _nodes(device, path)
        yield from _just_one(given, path, _OF_DEVICE)
    elif any(item is not None for item in given):
        yield Refusal(path, None, _NOT_PER_DEVICE)


def _nodes(item: ResourceSliceSpec | Device, path: str) -> Iterator[Refusal]:
    if item.node_name is not None and not SUBDOMAIN.fullmatch(item.node_name):
        yield Refusal(f"{path}.nodeName", item.node_name, NO_NODE)
    if item.node_selector is not None and not item.node_selector.node_selector_terms:
        yield Refusal(f"{path}.nodeSelector.nodeSelectorTerms", None, _NO_TERMS)
    if item.all_nodes is False:
        yield Refusal(f"{path}.allNodes", None, _FALSE)


def _just_one(given: Sequence[object], path: str, names: str) -> Iterator[Refusal]:
    count = sum(item is not None and item is not False and item != "" for item in given)
    if count != 1:
        yield Refusal(path, None, _NOT_ONE.format(given=count or "none", names=names))


def _counter_sets(sets: Sequence[CounterSet]) -> Iterator[Refusal]:
    seen: set[str] = set()
    for index, item in enumerate(sets):
        path = f"spec.sharedCounters[{index}]"
        yield from _name(item.name, f"{path}.name", seen, _NO_SET, _TWO_SETS)
        if not item.counters:
            yield Refusal(f"{path}.counters", None, _EMPTY_SET)
        for name in item.counters:
            yield from _name(name, f"{path}.counters", set(), _NO_COUNTER, "")


def _name(name: str, path: str, seen: set[str], wrong: str, again: str) -> Iterator[Refusal]:
    """Yield what is wrong with a name, and add it to those that were seen."""
    if not LABEL.fullmatch(name):
        yield Refusal(path, name, wrong)
    elif name in seen:
        yield Refusal(path, name, again)
    seen.add(name)
