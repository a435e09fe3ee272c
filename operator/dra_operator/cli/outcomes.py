"""Printing outcomes: a table for people, and the claims as kubectl prints them for scripts.

The table is made for reading at a terminal and for `diff` elsewhere: one line a claim, no colours, no wrapping.
Source: docs/cli.md, `simulate`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dra_operator.api.core import NodeSelector
from dra_operator.api.names import BROKEN_ANNOTATION, FINALIZER, PENDING_ANNOTATION
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.text import printable
from dra_operator.api.types import AllocationResult, DeviceRequestAllocationResult
from dra_operator.api.write import allocation_to_wire, to_wire
from dra_operator.cli.kubectl.options import use_colours
from dra_operator.cli.kubectl.tables import Cell, Colour, Column, Style, listing
from dra_operator.cli.output import align
from dra_operator.pods.scheduler import Outcome, State
from dra_operator.questions.fault_texts import everywhere
from dra_operator.questions.manifests import to_yaml

COLUMNS = ("CLAIM", "STATE", "NODE", "DEVICES, OR WHY NOT")
_COLOURS = {
    State.ALLOCATED: Colour.GOOD,
    State.BROKEN: Colour.BAD,
    State.PENDING: Colour.WARNING,
    State.LEFT_ALONE: Colour.QUIET,
}


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as plain lines, columns aligned."""
    return align([COLUMNS, *map(_cells, outcomes)])


def coloured_table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes for a terminal, which wraps what is long."""
    cells = [(_cells(outcome), outcome.state) for outcome in outcomes]
    columns = [
        Column(COLUMNS[0], lambda row: row[0][0]),
        Column(COLUMNS[1], lambda row: Cell(row[0][1], _COLOURS.get(row[1]))),
        Column(COLUMNS[2], lambda row: row[0][2]),
        Column(COLUMNS[3], lambda row: row[0][3]),
    ]
    return "".join(f"{line}\n" for line in listing(columns, cells, Style(colours=use_colours())))


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Return the claims as a List in JSON, as `kubectl get -o json` prints it."""
    return json.dumps(_list(outcomes), indent=4, sort_keys=True, ensure_ascii=False) + "\n"


def as_yaml(outcomes: Sequence[Outcome]) -> str:
    """Return the claims as a List in YAML, as `kubectl get -o yaml` prints it."""
    return to_yaml(_list(outcomes))


def body(outcome: Outcome) -> dict[str, Any]:
    """Return the claim as it would be in the cluster afterwards, without the time of the allocation."""
    before = outcome.record.body
    claim = {**before, "spec": to_wire(outcome.claim).get("spec", {})}
    metadata: dict[str, Any] = {**before["metadata"]}
    annotations = {**(metadata.get("annotations") or {})}
    if outcome.state is State.PENDING:
        annotations[PENDING_ANNOTATION] = outcome.message
    if outcome.state is State.BROKEN:
        annotations[BROKEN_ANNOTATION] = outcome.message
    if outcome.state is State.ALLOCATED and outcome.allocation is not None:
        annotations.pop(PENDING_ANNOTATION, None)
        finalizers = [*(metadata.get("finalizers") or ())]
        metadata["finalizers"] = finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]
        claim["status"] = {
            **(before.get("status") or {}),
            "allocation": allocation_to_wire(outcome.allocation),
        }
    metadata.pop("annotations", None)
    return {**claim, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


def _list(outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "items": [body(outcome) for outcome in outcomes],
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }


def _cells(outcome: Outcome) -> tuple[str, str, str, str]:
    metadata, allocation = outcome.claim.metadata, outcome.allocation
    name = printable(f"{metadata.namespace}/{metadata.name}")
    if allocation is None:
        text = f"{outcome.reason}: {outcome.message}" if outcome.reason else outcome.message
        return name, outcome.state.value, "-", printable(text)
    if outcome.state is State.BROKEN:
        return name, outcome.state.value, printable(_where(allocation)), printable(outcome.message)
    return name, outcome.state.value, printable(_where(allocation)), printable(_devices(allocation))


def _where(allocation: AllocationResult) -> str:
    """Return where an allocation can be used: on every node, on one, or on those with certain labels."""
    selector = allocation.node_selector
    if selector is None:
        return everywhere(allocation)
    return pinned_to(selector) or " or ".join(_terms(selector))


def _terms(selector: NodeSelector) -> Iterator[str]:
    for term in selector.node_selector_terms:
        yield " and ".join(
            f"{item.key} {item.operator} {','.join(item.values)}".rstrip()
            for item in (*term.match_fields, *term.match_expressions)
        )


def _devices(allocation: AllocationResult) -> str:
    """Return the devices by request: `gpu: driver/pool/device, driver/pool/device; nic: …`."""
    requests: dict[str, list[str]] = {}
    for result in allocation.devices.results:
        requests.setdefault(result.request, []).append(_device(result))
    return "; ".join(f"{name}: {', '.join(devices)}" for name, devices in requests.items()) or "no devices"


def _device(result: DeviceRequestAllocationResult) -> str:
    details = [f"{name} {amount}" for name, amount in result.consumed_capacity.items()]
    if result.admin_access:
        details.append("admin access")
    name = f"{result.driver}/{result.pool}/{result.device}"
    return f"{name} ({', '.join(details)})" if details else name
