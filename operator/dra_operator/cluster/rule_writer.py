"""The writer of DeviceTaintRules: the finalizer and the annotation of the rules that own devices.

It also asks the API server, by a dry run, whether its policy knows a rule. There are few rules and each changes seldom,
so all this is done one after the other. Each patch is conditional on uid and resourceVersion; whoever submits looks at
the rule again after the outcome, and so repeats what is still needed.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.delivery import PARAMS, Permit
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.ownership_policy import refuses
from dra_operator.cluster.session import MERGE_PATCH, ApiError, ApiSession, ApiUnreachable


@dataclass(frozen=True, slots=True)
class RuleWrite:
    """A change of the metadata of a DeviceTaintRule: `finalizers` are all that it is to have, None leaves them."""

    name: str
    uid: str
    resource_version: str
    finalizers: tuple[str, ...] | None
    annotations: Mapping[str, str | None]

    def patch(self) -> dict[str, Any]:
        """Return the merge patch with its preconditions."""
        metadata: dict[str, Any] = {"uid": self.uid, "resourceVersion": self.resource_version}
        if self.finalizers is not None:
            metadata["finalizers"] = list(self.finalizers)
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return {"metadata": metadata}


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """What came of a write: the rule as it is now, or the error; neither if the rule is gone or has changed."""

    write: RuleWrite
    body: Mapping[str, Any] | None = None
    error: ApiError | ApiUnreachable | None = None


@dataclass(frozen=True, slots=True)
class RuleProbe:
    """A question: would the policy refuse `device`, which the rule owns, to `claim`? `mark` is that of the rule."""

    name: str
    mark: str
    claim: ResourceClaim
    device: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    """Whether the policy knows the rule; `error` says why that is not known."""

    probe: RuleProbe
    is_known: bool
    error: ApiError | ApiUnreachable | None = None


class RuleWriter:
    """Sends writes in the order in which they come and reports each outcome, on the event loop.

    `served` and `claims` are DeviceTaintRule and ResourceClaim as they are served. `may_write` is asked before each
    patch; `timeout` is in seconds, for one request.
    """

    def __init__(
        self,
        session: ApiSession,
        served: Served,
        claims: Served,
        deliver_outcome: Callable[[RuleOutcome | RuleAnswer], None],
        *,
        may_write: Permit,
        timeout: float,
    ) -> None:
        self._session = session
        self._served = served
        self._claims = claims
        self._deliver_outcome = deliver_outcome
        self._may_write = may_write
        self._timeout = timeout
        self._queue: asyncio.Queue[RuleWrite | RuleProbe] = asyncio.Queue()

    def submit(self, write: RuleWrite | RuleProbe) -> None:
        """Have a write sent, or a question asked; the outcome arrives later."""
        self._queue.put_nowait(write)

    async def run(self) -> None:
        """Send what is submitted, until cancelled."""
        while True:
            write = await self._queue.get()
            outcome = await (self._ask(write) if isinstance(write, RuleProbe) else self._send(write))
            self._deliver_outcome(outcome)

    async def _ask(self, probe: RuleProbe) -> RuleAnswer:
        await self._may_write()
        try:
            is_known = await refuses(
                self._session, self._claims, probe.claim, probe.device, timeout=self._timeout
            )
        except (ApiError, ApiUnreachable) as error:
            return RuleAnswer(probe, is_known=False, error=error)
        return RuleAnswer(probe, is_known)

    async def _send(self, write: RuleWrite) -> RuleOutcome:
        await self._may_write()
        try:
            body = await self._session.request(
                "PATCH",
                self._served.path(name=write.name),
                params=PARAMS,
                body=write.patch(),
                content_type=MERGE_PATCH,
                timeout=self._timeout,
            )
        except ApiError as error:
            # Gone, or changed: what is needed then is found out when the watch tells of it.
            return RuleOutcome(write) if error.status in (404, 409) else RuleOutcome(write, error=error)
        except ApiUnreachable as error:
            return RuleOutcome(write, error=error)
        return RuleOutcome(write, body=body)
