"""Kopf's handlers of the kinds: each reconciles its object, and writes its status where that has changed.

They run in Kopf's own loop and reach the cluster through `World`, on the loop of the operator.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import kopf
from pydantic import ValidationError

from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.kinds.allocation_policy import GROUP, PLURAL, VERSION, Body, Plan, with_transition_times

AGAIN_SECONDS: Final = 5.0
"""How often an object is reconciled although nothing about it has changed: rules settle, claims end."""
RULES_LEFT: Final = "rules of the policy are still there"
"""Why a policy that was deleted is kept; it may be so for weeks."""
Reconcile = Callable[[Body], Awaitable[Plan]]


def register_policies(registry: kopf.OperatorRegistry, reconcile: Reconcile) -> None:
    """Add the handlers of AllocationPolicy to a registry."""
    where = (GROUP, VERSION, PLURAL)

    @kopf.on.create(*where, registry=registry, id="policy")
    @kopf.on.update(*where, registry=registry, id="policy")
    @kopf.on.resume(*where, registry=registry, id="policy")
    async def keep(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        await _reconcile(reconcile, body, patch)

    @kopf.timer(*where, registry=registry, id="again", interval=AGAIN_SECONDS, initial_delay=1.0)
    async def again(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        await _reconcile(reconcile, body, patch)

    @kopf.on.delete(*where, registry=registry, id="policy")
    async def release(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        found = await _reconcile(reconcile, body, patch)
        if not found.is_released:
            raise kopf.TemporaryError(RULES_LEFT, delay=1.0 if found.is_ending else AGAIN_SECONDS)


async def _reconcile(reconcile: Reconcile, body: Mapping[str, Any], patch: kopf.Patch) -> Plan:
    """Reconcile an object. Raises TemporaryError where that could not be done now, PermanentError for a wrong spec."""
    plain: Body = dict(body)
    try:
        found = await reconcile(plain)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(each) for each in ("spec", *first["loc"]))
        raise kopf.PermanentError(f"{path}: {first['msg']}") from error
    except (ApiError, ApiUnreachable) as error:
        raise kopf.TemporaryError(str(error), delay=AGAIN_SECONDS) from error
    before = plain.get("status") or {}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = with_transition_times(found.status, before.get("conditions") or (), now)
    if any(before.get(name) != value for name, value in status.items()):
        patch.status.update(status)
    return found
