"""The status of a maintenance: what became of its plan, and the conditions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dra_operator.api.text import listed
from dra_operator.kinds.changes import Body, Plan, PlanEvent, condition, first_lines
from dra_operator.kinds.device_maintenance import CardStatus
from dra_operator.kinds.maintenance_plan import Eviction, MaintenancePlan


def build_result(plan: MaintenancePlan, evictions: Mapping[Eviction, str], refused: Sequence[str]) -> Plan:
    """Return what is left of a plan that was carried out: the status, and the Events.

    `evictions` says why an eviction was refused, empty where it was granted; `refused` are changes that were.
    """
    entries = [_with_evictions(each, evictions) for each in plan.entries]
    evicted = [
        PlanEvent("Evicted", f"evicted pod {each.pod.namespace}/{each.pod.name}, which held {each.card}")
        for each, why in evictions.items()
        if not why
    ]
    status = {
        "observedGeneration": plan.own.generation,
        "summary": _summarize(entries),
        "cards": [each.model_dump(mode="json", exclude_defaults=True) for each in entries],
        "conditions": [
            _safe_to_work(entries),
            _drained(entries),
            _blocked(plan.blocked, plan.misfit, refused),
            _resolved(plan.unresolved),
            _previewed(plan.own.preview),
        ],
    }
    # Nothing of it waits for claims to end.
    return Plan((), status, plan.is_released, is_ending=True, events=(*plan.events, *evicted))


def _with_evictions(entry: CardStatus, evictions: Mapping[Eviction, str]) -> CardStatus:
    own = {each: why for each, why in evictions.items() if each.card == entry.name}
    told = [f"; eviction of {each.pod.name} refused: {why}" for each, why in own.items() if why]
    evicted = (*entry.evicted, *(each.key for each, why in own.items() if not why))
    return entry.model_copy(update={"message": entry.message + "".join(told), "evicted": evicted})


def _summarize(entries: Iterable[CardStatus]) -> str:
    counts = Counter(each.phase for each in entries)
    return ", ".join(f"{number} {phase}" for phase, number in counts.items())


def _safe_to_work(entries: Sequence[CardStatus]) -> Body:
    worked = [each for each in entries if each.is_worked_on]
    unsafe = [each for each in worked if each.phase != "Safe"]
    if unsafe:
        lines = [f"{each.name} is {each.phase}" for each in unsafe]
        return condition("SafeToWork", "False", "NotSafe", first_lines(lines))
    if worked:
        text = f"no claim holds {listed([each.name for each in worked])}: work on it, then name it in spec.finished"
        return condition("SafeToWork", "True", "Safe", text)
    if entries and all(each.phase in ("Finished", "Returned") for each in entries):
        return condition("SafeToWork", "False", "Finished", "everything is finished")
    return condition("SafeToWork", "False", "NotBegun", "no card was begun")


def _drained(entries: Sequence[CardStatus]) -> Body:
    worked = [each for each in entries if each.is_worked_on]
    held = [each for each in worked if each.phase == "Tainted"]
    if held:
        return condition(
            "Drained", "False", "Held", first_lines([f"{each.name}: {each.message}" for each in held])
        )
    if worked:
        return condition("Drained", "True", "Drained", "no claim holds a card that was begun")
    return condition("Drained", "Unknown", "NotBegun", "no card is being worked on")


def _blocked(blocked: Mapping[str, str], misfit: str, refused: Sequence[str]) -> Body:
    if refused:
        return condition("Blocked", "True", "WriteRefused", first_lines(refused))
    if misfit:
        return condition("Blocked", "True", "WouldNotFit", f"spec.mustStillFit: {misfit}")
    if blocked:
        lines = [
            f"{card} is in maintenance {name}, which works on it first" for card, name in blocked.items()
        ]
        return condition("Blocked", "True", "InAnotherMaintenance", first_lines(lines))
    return condition("Blocked", "False", "None", "nothing keeps it from its devices")


def _previewed(preview: str | None) -> Body:
    if preview is None:
        return condition("Previewed", "Unknown", "NothingPublished", "nobody publishes such a device")
    return condition("Previewed", "True", "Previewed", preview)


def _resolved(unresolved: Sequence[str]) -> Body:
    if unresolved:
        return condition("Resolved", "False", "NotFound", first_lines(unresolved))
    return condition(
        "Resolved", "True", "Found", "all devices that it names are published, or were when it began"
    )
