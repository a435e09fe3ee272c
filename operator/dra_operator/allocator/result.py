"""The result: what goes into a claim's status, from the devices picked for it.

Source: docs/dra-semantics 3.8; AllocationResult of resource.k8s.io/v1.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.found import Given
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.allocator.reasons import Reason
from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)


def build_result(
    plan: ClaimPlan,
    picks: Sequence[Given],
    chosen: Sequence[Alternative],
    node: str,
    share_ids: Callable[[], str],
) -> AllocationResult:
    """Return the allocation of a claim: its picks in order, the alternative chosen for each request, the node.

    Raises FatalError if the node selectors of the devices cannot be merged.
    """
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=tuple([_device_result(pick, share_ids) for pick in picks]),
            config=_configuration(plan, chosen),
        ),
        node_selector=_node_selector(plan, picks, node),
    )


def _device_result(pick: Given, share_ids: Callable[[], str]) -> DeviceRequestAllocationResult:
    content, alternative, consumed = pick.content, pick.alternative, pick.consumed
    traits = content.traits[pick.index]
    # By position, in the order of the fields: one is made for each device of each claim.
    return DeviceRequestAllocationResult(
        alternative.name,
        content.driver,
        content.pool,
        content.names[pick.index],
        True if alternative.admin_access else None,
        alternative.tolerations,
        traits.binding_conditions,
        traits.binding_failure_conditions,
        None if consumed is None else share_ids(),
        {} if consumed is None else {name: amount for name, amount, _ in consumed.amounts},
        content.skip_node_operations,
    )


def _configuration(
    plan: ClaimPlan, chosen: Sequence[Alternative]
) -> tuple[DeviceAllocationConfiguration, ...]:
    """Return class configuration first, once a class, then that of the claim which concerns a chosen request."""
    configured = plan.claim.spec.devices.config
    by_class: dict[str, list[Alternative]] = {}
    for alternative in chosen:
        if alternative.device_class.spec.config:
            by_class.setdefault(alternative.device_class.metadata.name, []).append(alternative)
    if not configured and not by_class:
        return ()
    found: list[DeviceAllocationConfiguration] = []
    for users in by_class.values():
        names = tuple(user.name for user in users)
        for config in users[0].device_class.spec.config:
            requests = _unless_all(names, plan, chosen)
            found.append(DeviceAllocationConfiguration("FromClass", requests, config.opaque))
    known = {request.name for request in plan.requests} | {alternative.name for alternative in chosen}
    for config in configured:
        if not config.requests or known.intersection(config.requests):
            requests = _unless_all(config.requests, plan, chosen)
            found.append(DeviceAllocationConfiguration("FromClaim", requests, config.opaque))
    return tuple(found)


def _unless_all(names: tuple[str, ...], plan: ClaimPlan, chosen: Sequence[Alternative]) -> tuple[str, ...]:
    """Return the names, or none if they cover every request of the claim: none means all."""
    covered = all(
        request.name in names or alternative.name in names
        for request, alternative in zip(plan.requests, chosen, strict=True)
    )
    return () if covered else names


def _node_selector(plan: ClaimPlan, picks: Sequence[Given], node: str) -> NodeSelector | None:
    """Return where the allocation can be used: on this node if any device is tied to it, else where all can be used."""
    selectors: list[NodeSelector] = []
    for pick in picks:
        nodes = pick.content.effective_nodes(pick.index)
        if nodes.node_name is not None or pick.content.traits[pick.index].binds_to_node:
            return _this_node(node)
        if nodes.selector is None:
            continue
        if len(nodes.selector.node_selector_terms) != 1:
            # An error even if a later device would tie the claim to this node anyway, as upstream has it.
            raise FatalError(
                f"claim {plan.title}: the node selector of a device has {len(nodes.selector.node_selector_terms)} "
                "terms, which cannot be merged with others; only one is supported",
                Reason.NODE_SELECTOR_INVALID,
                claim=plan.key,
            )
        selectors.append(nodes.selector)
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for selector in selectors:
        term = selector.node_selector_terms[0]
        _merge(fields, term.match_fields)
        _merge(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


@lru_cache(maxsize=8192)
def _this_node(node: str) -> NodeSelector:
    this_node = NodeSelectorRequirement("metadata.name", "In", (node,))
    return NodeSelector((NodeSelectorTerm(match_fields=(this_node,)),))


def _merge(known: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]) -> None:
    for requirement in more:
        if not any(
            item.key == requirement.key
            and item.operator == requirement.operator
            and set(item.values) == set(requirement.values)
            for item in known
        ):
            known.append(requirement)
