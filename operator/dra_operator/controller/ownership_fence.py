"""The policy that protects owned devices: whether it is installed, and does what it should for this operator.

Asked for now and then: it is two objects that hardly ever change, and the right to watch all policies is a large one.
Source: docs/operator.md, section "Devices that are ours".
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dra_operator.api.kinds import KINDS
from dra_operator.cluster.discovery import served
from dra_operator.cluster.ownership_policy import GROUP, POLICY, RulesFence, fenced
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger
from dra_operator.controller.settlement import FenceState

AGAIN_SECONDS: Final = 15.0
"""How often the policy is asked for."""
log = get_logger()

_POLICIES: Final = f"/apis/{GROUP}/v1/validatingadmissionpolicies/{POLICY}"
_BINDINGS: Final = f"/apis/{GROUP}/v1/validatingadmissionpolicybindings/{POLICY}"
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
            state, uid = await _state(session)
            serves_rules = await _serves_parameters(session, state)
        except (ApiError, ApiUnreachable):
            return
        self._uid = self._uid or uid
        if uid not in ("", self._uid):
            # The API server stops to follow the rules with the first policy, and does not begin again for the second.
            # Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic, ensureParamsForPolicyLocked (1.37).
            state = FenceState(None, messages.REPLACED)
        before, self._notes = (
            self._notes,
            tuple(_problems(state, self._username, serves_rules=serves_rules)),
        )
        for note in self._notes:
            if note not in before:
                log.warning(messages.OWNERSHIP_UNFIT, why=note)
        if isinstance(state.fence, RulesFence) and not serves_rules:
            state = FenceState(None, "the policy dra-operator-owned has no parameters here")
        self._report(state)

    def notes(self) -> tuple[str, ...]:
        """Return what is wrong with the policy that is installed, a line each."""
        return self._notes


async def _state(session: ApiSession) -> tuple[FenceState, str]:
    """Return what the policy and its binding protect, and the policy's uid, empty if it is not there.

    Raises ApiError and ApiUnreachable if that is not known.
    """
    found: list[dict[str, Any]] = []
    missing: list[str] = []
    for what, path in (("policy", _POLICIES), ("binding", _BINDINGS)):
        try:
            found.append(await session.request("GET", path))
        except ApiError as error:
            if error.is_missing_right:
                return FenceState(None, messages.forbidden(error)), ""
            if error.status != 404:
                raise
            missing.append(what)
    if missing:
        return FenceState(None, f"the {missing[0]} {POLICY} is not installed"), ""
    fence = fenced(*found)
    why = "" if fence else f"the policy {POLICY} or its binding is not as it was published"
    return FenceState(fence, why), str(found[0]["metadata"].get("uid") or "")


async def _serves_parameters(session: ApiSession, state: FenceState) -> bool:
    """Return whether the API server serves what the policy has as parameters, in that version. Raises as `_state`."""
    if not isinstance(state.fence, RulesFence):
        return True
    rules = replace(KINDS["DeviceTaintRule"], versions=(state.fence.version,))
    return bool(await served(session, {rules.kind: rules}))


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


def _problems(state: FenceState, username: str, *, serves_rules: bool) -> list[str]:
    found = []
    if isinstance(state.fence, RulesFence) and not serves_rules:
        found.append(messages.refuses_all(POLICY))
    if state.fence is not None and username and state.fence.username != username:
        found.append(messages.not_exempt(POLICY, state.fence.username, username))
    return found
