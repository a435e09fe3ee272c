"""The result: what goes into a claim's status, from the devices picked for it.

Source: docs/dra-semantics 3.8; AllocationResult of resource.k8s.io/v1.
"""

from collections.abc import Callable, Iterable, Sequence

from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.matching.capacity import Consumption
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.allocator.search.problem import RequestPicks
from dra_operator.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_operator.api.quantity import Quantity
from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceConfiguration,
    DeviceRequestAllocationResult,
)
from dra_operator.inventory.nodes import NodeRecord


def build_result(
    plan: ClaimPlan,
    served: Sequence[RequestPicks],
    node: NodeRecord,
    candidates: Candidates,
    share_ids: Callable[[], str],
) -> AllocationResult:
    """Return the allocation of a claim, whose requests were served on a node.

    Raises FatalError if the node selectors of the devices cannot be merged.
    """
    results: list[DeviceRequestAllocationResult] = []
    terms: list[NodeSelectorTerm] = []
    tied = False
    for alternative, devices in served:
        admin_access = True if alternative.admin_access else None
        for pool, position in devices:
            # Most pools have one slice.
            slice_, index = pool.slices[0], position
            if index >= len(slice_.names):
                slice_, index = pool.locate(position)
            device_fields = slice_.device_fields[index]
            if not tied:
                nodes = slice_.effective_nodes(index)
                tied = nodes.node_name is not None or device_fields.binds_to_node
                if nodes.selector is not None and not tied:
                    terms.append(_single(nodes.selector, plan))
            share_id: str | None = None
            amounts: dict[str, Quantity] = {}
            if pool.shareable >> position & 1 and candidates.features.consumable_capacity:
                share_id = share_ids()
                consumed = candidates.consumed(alternative.key, slice_, index)
                assert isinstance(consumed, Consumption)
                amounts = consumed.quantities()
                if slice_.full_names:
                    amounts = {slice_.written_name(index, name): amount for name, amount in amounts.items()}
            # By position, in the order of the fields: one is made for each device of each claim.
            results.append(
                DeviceRequestAllocationResult(
                    alternative.name,
                    slice_.driver,
                    slice_.pool,
                    slice_.names[index],
                    admin_access,
                    alternative.tolerations,
                    device_fields.binding_conditions,
                    device_fields.binding_failure_conditions,
                    share_id,
                    amounts,
                    slice_.skip_node_operations,
                )
            )
    return AllocationResult(
        DeviceAllocationResult(tuple(results), _configuration(plan, served)),
        # On this node if any device is tied to it, else where all can be used.
        node.selector if tied else _merged(terms) if terms else None,
    )


def _configuration(plan: ClaimPlan, served: Sequence[RequestPicks]) -> tuple[DeviceConfiguration, ...]:
    """Return class configuration first, once a class, then that of the claim which concerns a chosen request."""
    configured = plan.claim.spec.devices.config
    by_class: dict[str, list[Alternative]] = {}
    for alternative, _ in served:
        if alternative.device_class.spec.config:
            by_class.setdefault(alternative.device_class.metadata.name, []).append(alternative)
    if not configured and not by_class:
        return ()
    chosen = [alternative for alternative, _ in served]
    found: list[DeviceConfiguration] = []
    for users in by_class.values():
        names = tuple(user.name for user in users)
        for config in users[0].device_class.spec.config:
            requests = _unless_all(names, plan, chosen)
            found.append(DeviceConfiguration("FromClass", requests, config.opaque))
    known = {request.name for request in plan.requests} | {alternative.name for alternative in chosen}
    for config in configured:
        if not config.requests or known.intersection(config.requests):
            requests = _unless_all(config.requests, plan, chosen)
            found.append(DeviceConfiguration("FromClaim", requests, config.opaque))
    return tuple(found)


def _unless_all(names: tuple[str, ...], plan: ClaimPlan, chosen: Sequence[Alternative]) -> tuple[str, ...]:
    """Return the names, or none if they cover every request of the claim: none means all."""
    covered = all(
        request.name in names or alternative.name in names
        for request, alternative in zip(plan.requests, chosen, strict=True)
    )
    return () if covered else names


def _single(selector: NodeSelector, plan: ClaimPlan) -> NodeSelectorTerm:
    """Return the only term of the node selector of a device."""
    terms = selector.node_selector_terms
    if len(terms) != 1:
        # An error even if a later device would tie the claim to this node anyway, as upstream has it.
        raise FatalError(
            f"claim {plan.title}: the node selector of a device has {len(terms)} "
            "terms, which cannot be merged with others; only one is supported",
            Reason.NODE_SELECTOR_INVALID,
            claim=plan.key,
        )
    return terms[0]


def _merged(terms: Iterable[NodeSelectorTerm]) -> NodeSelector | None:
    """Return what selects the nodes that all terms select, or None for any node."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for term in terms:
        _merge(fields, term.match_fields)
        _merge(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _merge(known: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]) -> None:
    for requirement in more:
        if not any(
            item.key == requirement.key
            and item.operator == requirement.operator
            and set(item.values) == set(requirement.values)
            for item in known
        ):
            known.append(requirement)
