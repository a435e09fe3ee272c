"""The policy that protects owned devices: whether it is installed, and does what it should for this operator.

Asked for now and then: it is two objects that hardly ever change, and the right to watch all policies is a large one.
Source: docs/operator.md, section "Devices that are ours".
"""

from collections.abc import Callable
from typing import Final

from dra_operator.cluster.ownership_policy import POLICY, InstalledFence, read_fence
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger
from dra_operator.controller.settlement import FenceState

AGAIN_SECONDS: Final = 15.0
"""How often the policy is asked for."""
log = get_logger()

_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class OwnershipFence:
    """Asks for the policy. `report` gets its state when it is known; `clock` is monotonic, in seconds.

    `asks_who` says whether to ask whom the API server takes this operator for, which is a request to create something.
    """

    def __init__(
        self, report: Callable[[FenceState], None], clock: Callable[[], float], *, asks_who: bool
    ) -> None:
        self._report = report
        self._clock = clock
        self._asks_who = asks_who
        self._due_at = float("-inf")
        self._username = ""
        self._uid = ""
        """The uid of the policy that was found first: another one is another policy."""
        self._notes: tuple[str, ...] = ()

    async def look(self, session: ApiSession) -> None:
        """Ask for the policy, if it is time to. An API server that does not answer changes nothing."""
        if self._clock() < self._due_at:
            return
        self._due_at = self._clock() + AGAIN_SECONDS
        try:
            if self._asks_who and not self._username:
                self._username = await _own_username(session)
            installed = await read_fence(session)
        except (ApiError, ApiUnreachable):
            return
        before, self._notes = self._notes, tuple(_problems(installed, self._username))
        for note in self._notes:
            if note not in before:
                log.warning(messages.OWNERSHIP_UNFIT, why=note)
        self._report(self._state_of(installed))

    def _state_of(self, installed: InstalledFence) -> FenceState:
        """Return what the policy protects, and if it protects nothing, why."""
        self._uid = self._uid or installed.uid
        if installed.uid not in ("", self._uid):
            # The API server stops to follow the rules with the first policy, and does not begin again for the second.
            # Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic, ensureParamsForPolicyLocked (1.37).
            return FenceState(None, messages.REPLACED)
        if installed.denied is not None:
            return FenceState(None, messages.forbidden(installed.denied))
        if installed.missing:
            return FenceState(None, f"the {installed.missing} {POLICY} is not installed")
        if installed.fence is None:
            return FenceState(None, f"the policy {POLICY} or its binding is not as it was published")
        if not installed.serves_parameters:
            return FenceState(None, f"the policy {POLICY} has no parameters here")
        return FenceState(installed.fence)

    def notes(self) -> tuple[str, ...]:
        """Return what is wrong with the policy that is installed, a line each."""
        return self._notes


async def _own_username(session: ApiSession) -> str:
    """Return who this operator is to the API server; empty if that does not say."""
    try:
        review = await session.request(
            "POST", _REVIEWS, body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        )
    except ApiError as error:
        if error.status in (403, 404):
            return ""
        raise
    return str(((review.get("status") or {}).get("userInfo") or {}).get("username") or "")


def _problems(installed: InstalledFence, username: str) -> list[str]:
    found = []
    if not installed.serves_parameters:
        found.append(messages.refuses_all(POLICY))
    if installed.fence is not None and username and installed.fence.username != username:
        found.append(messages.not_exempt(POLICY, installed.fence.username, username))
    return found
