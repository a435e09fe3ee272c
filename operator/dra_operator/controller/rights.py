"""Rights: which the operator lacks to write, as the API server's answers say.

Readiness names them, so a right must be named for as long as a claim suffers from it and no longer: until a
write that needs it succeeds, or until nobody wants that write any more.
"""

from dra_operator.cluster.writes import AnnotateWrite, FenceWrite, Write
from dra_operator.controller.claims import Key

_FOR_METADATA = "resourceclaims"
_TO_BIND = "patch", "resourceclaims/binding"
_FOR_STATUS = "patch", "resourceclaims/status"
_TO_UPDATE = "update", "resourceclaims"


class MissingRights:
    """Rights that were denied, and the claims whose writes were.

    Written in the pass thread; `texts` may be called in any.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._claims: dict[tuple[str, str], set[Key]] = {}

    def deny(self, verb: str, resource: str, key: Key, text: str) -> bool:
        """Note that a claim could not be written, e.g. for want of `patch` on `resourceclaims/status`.

        Return whether that is news of the right, and not only of one more claim. Whether it may bind devices is asked
        of one who may write the status: validation comes after the authorizer.
        Source: k8s.io/kubernetes/pkg/registry/resource/resourceclaim, since 1.36.
        """
        if (verb, resource) == _TO_BIND:
            self._drop(_FOR_STATUS)
        is_news = (verb, resource) not in self._texts
        self._texts[verb, resource] = text
        self._claims.setdefault((verb, resource), set()).add(key)
        return is_news

    def grant(self, write: Write) -> dict[tuple[str, str], frozenset[Key]]:
        """Note that a write succeeded, so every right that it needs is there.

        Return those that were not, each with the claims whose writes were denied.
        """
        before = {right: frozenset(keys) for right, keys in self._claims.items()}
        for right in before:
            if right == _TO_UPDATE:
                # Only claims that take no patch need it, so only those can show that it is there.
                self._excuse(right, (write.namespace, write.name))
            elif not isinstance(write, AnnotateWrite | FenceWrite) or right[1] == _FOR_METADATA:
                self._drop(right)
        return {right: keys for right, keys in before.items() if right not in self._texts}

    def forget(self, key: Key) -> None:
        """Note that a claim is gone, or that we want nothing of it any more."""
        for right in tuple(self._texts):
            self._excuse(right, key)

    def forget_allocation(self, key: Key) -> bool:
        """Note that there are no devices for a claim now: only why it waits is to be written; return if that may be."""
        for right in tuple(self._texts):
            if right[1] != _FOR_METADATA:
                self._excuse(right, key)
        return not any(key in keys for keys in self._claims.values())

    def texts(self) -> tuple[str, ...]:
        """Return what is not permitted, one line for each right."""
        return tuple(self._texts.values())

    def _excuse(self, right: tuple[str, str], key: Key) -> None:
        """Note that a claim does not suffer from a right that lacks; drop it if none does."""
        self._claims[right].discard(key)
        if not self._claims[right]:
            self._drop(right)

    def _drop(self, right: tuple[str, str]) -> None:
        self._texts.pop(right, None)
        self._claims.pop(right, None)
