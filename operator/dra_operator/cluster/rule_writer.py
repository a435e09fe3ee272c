"""The writer of DeviceTaintRules: the finalizer and the annotation of the rules that own devices.

There are few rules and each changes seldom, so they are written one after the other. Each patch is conditional on uid
and resourceVersion; whoever submits looks at the rule again after the outcome, and so repeats what is still needed.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.cluster.delivery import PARAMS, Permit
from dra_operator.cluster.discovery import Served
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


class RuleWriter:
    """Sends writes in the order in which they come and reports each outcome, on the event loop.

    `may_write` is asked before each patch; `timeout` is in seconds, for one request.
    """

    def __init__(
        self,
        session: ApiSession,
        served: Served,
        deliver_outcome: Callable[[RuleOutcome], None],
        *,
        may_write: Permit,
        timeout: float,
    ) -> None:
        self._session = session
        self._served = served
        self._deliver_outcome = deliver_outcome
        self._may_write = may_write
        self._timeout = timeout
        self._queue: asyncio.Queue[RuleWrite] = asyncio.Queue()

    def submit(self, write: RuleWrite) -> None:
        """Have a write sent; its outcome arrives later."""
        self._queue.put_nowait(write)

    async def run(self) -> None:
        """Send what is submitted, until cancelled."""
        while True:
            write = await self._queue.get()
            self._deliver_outcome(await self._send(write))

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
