"""Rights: which the operator lacks to write, as the API server's answers say.

Readiness names them, so a right must be named for as long as a claim suffers from it and no longer: until a
write that needs it succeeds, or until nobody wants that write any more.
"""

from dra_operator.cluster.writer import AnnotateWrite, FenceWrite, Write
from dra_operator.controller.claims import Key

_FOR_METADATA = "resourceclaims"


class MissingRights:
    """Rights that were denied, and the claims whose writes were.

    Written in the pass thread; `texts` may be called in any.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}
        self._claims: dict[tuple[str, str], set[Key]] = {}

    def deny(self, verb: str, resource: str, key: Key, text: str) -> None:
        """Note that a claim could not be written, e.g. for want of `patch` on `resourceclaims/status`."""
        self._texts[verb, resource] = text
        self._claims.setdefault((verb, resource), set()).add(key)

    def grant(self, write: Write) -> None:
        """Note that a write succeeded, so every right that it needs is there."""
        for right in tuple(self._texts):
            if not isinstance(write, AnnotateWrite | FenceWrite) or right[1] == _FOR_METADATA:
                del self._texts[right], self._claims[right]

    def forget(self, key: Key) -> None:
        """Note that a claim is gone, or that we want nothing of it any more."""
        for right, keys in tuple(self._claims.items()):
            keys.discard(key)
            if not keys:
                del self._texts[right], self._claims[right]

    def claims(self) -> set[Key]:
        """Return the claims that could not be written."""
        return {key for keys in self._claims.values() for key in keys}

    def texts(self) -> tuple[str, ...]:
        """Return what is not permitted, one line for each right."""
        return tuple(self._texts.values())
