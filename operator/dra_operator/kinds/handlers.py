"""Kopf's handlers of the kinds: each reconciles its object, and writes its status where that has changed.

They run in Kopf's own loop; `reconcile` reaches the cluster on the loop of the operator.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import kopf
from pydantic import ValidationError

from dra_operator.api.names import GROUP, GROUP_VERSION
from dra_operator.api.text import timestamp
from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.kinds.changes import Body, Plan, complete_conditions

AGAIN_SECONDS: Final = 5.0
"""How often an object is reconciled although nothing about it has changed: rules settle, claims end."""


Reconcile: TypeAlias = Callable[[Body], Coroutine[Any, Any, Plan]]


@dataclass(frozen=True, slots=True)
class OwnKind:
    """A kind of our own. `left` says why an object that was deleted is kept, which may be so for weeks.

    `sweep` looks once a minute after what objects have left behind that are gone.
    """

    plural: str
    reconcile: Reconcile
    left: str
    sweep: Callable[[], Awaitable[None]] | None = None


def register(registry: kopf.OperatorRegistry, kind: OwnKind) -> None:
    """Add the handlers of a kind to a registry."""
    where = (GROUP, GROUP_VERSION, kind.plural)

    @kopf.on.create(*where, registry=registry, id="object")
    @kopf.on.update(*where, registry=registry, id="object")
    @kopf.on.resume(*where, registry=registry, id="object")
    @kopf.timer(*where, registry=registry, id="again", interval=AGAIN_SECONDS, initial_delay=1.0)
    async def keep(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        await _reconcile(kind.reconcile, body, patch)

    @kopf.on.delete(*where, registry=registry, id="object")
    async def release(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
        found = await _reconcile(kind.reconcile, body, patch)
        if not found.is_released:
            raise kopf.TemporaryError(kind.left, delay=1.0 if found.is_ending else AGAIN_SECONDS)


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
    now = timestamp(datetime.now(UTC))
    status = complete_conditions(found.status, before.get("conditions") or (), now)
    if any(before.get(name) != value for name, value in status.items()):
        patch.status.update(status)
    return found
