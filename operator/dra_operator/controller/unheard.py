"""Unheard: which kinds are not up to date, and why, in lines for `/readyz`."""

from collections.abc import Mapping

from dra_operator.cluster.reflector import Reflector
from dra_operator.cluster.session import Trouble
from dra_operator.controller import messages


def unheard(reflectors: Mapping[str, Reflector], stale_seconds: float) -> list[str]:
    """Return a line for each reason why kinds are not up to date; kinds with the same one, as in an outage, share it.

    `reflectors` are by kind.
    """
    denied: list[str] = []
    alike: dict[str, tuple[str, list[str]]] = {}
    for name, reflector in reflectors.items():
        if (error := reflector.forbidden) is not None:
            denied.append(messages.forbidden(error))
        elif (found := trouble_of(reflector, stale_seconds)) is not None:
            alike.setdefault(found.sort, (found.why, []))[1].append(name)
    return denied + [f"{', '.join(names)}: {why}" for why, names in alike.values()]


def trouble_of(reflector: Reflector, stale_seconds: float) -> Trouble | None:
    """Return why a kind is not up to date, or None if it is."""
    if reflector.trouble is not None:
        return reflector.trouble
    if not reflector.synced.is_set() or reflector.halfway:
        return Trouble("unlisted", "not listed yet")
    silence = reflector.silence or 0.0
    if silence > stale_seconds:
        return Trouble("silent", f"nothing heard from the API server for {silence:.0f} s")
    return None
