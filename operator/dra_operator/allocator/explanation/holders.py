"""Holders: which claims keep devices from a request, as they may be told to whoever made it.

Whoever waits wants to know whom to ask. A claim of the same namespace is named, as its owner sees it anyway. Of another
namespace nothing is named: a line stands in an Event and an annotation of the user's own namespace, and may say nothing
that the user has no right to list. Those are counted.
"""

from collections.abc import Collection

from dra_operator.api.text import shortened
from dra_operator.ledger import ClaimKey


def find_holders(claims: Collection[ClaimKey], namespace: str) -> tuple[str, str]:
    """Return how many claims there are, and the names of those of a namespace beside the number of the others.

    The second text is empty if none is of the namespace. Both are clauses, as "by 3 claims" and "a, b, 1 of another
    namespace".
    """
    own = sorted([name for space, name in claims if space == namespace])
    others = len(claims) - len(own)
    count = f"by {len(claims)} claim{'s' if len(claims) != 1 else ''}"
    elsewhere = "of another namespace" if others == 1 else "of other namespaces"
    if not own:
        return (f"{count} {elsewhere}" if others else count), ""
    return count, ", ".join([*shortened(own), *([f"{others} {elsewhere}"] if others else [])])
