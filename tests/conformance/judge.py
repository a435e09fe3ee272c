"""Judging: our answer beside upstream's, for one scenario or one expression.

Equal, or different; or different for a reason that docs/differences.md lists; or undecided, because one side gave up
at its budget; or it cannot be said, since upstream answers the same question now this way, now that way (Go's maps
have no order). Where upstream's code crashes there is nothing to be equal to: that is a difference, listed or not.
"""

import math
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any
from unittest.mock import patch

from conformance.cases import CaseError, differences
from conformance.cases import outcome as cel_outcome
from conformance.ranges import DIVISION, NOTHING, Order, upstreams_arithmetic
from conformance.replay import outcome
from conformance.scenarios import difference, is_equal, load, shared_and_not_shareable, state_as_claim
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.api.quantity import parse_quantity
from dra_operator.api.read import read_object
from dra_operator.api.versions import RELEASED
from dra_operator.cel import errors
from dra_operator.cel.errors import CelError
from dra_operator.cel.run.meter import COST_LIMIT, Meter
from dra_operator.cel.syntax.nodes import Expr, ListExpr, Literal, MapExpr, Struct, children
from dra_operator.cel.syntax.parser import parse
from dra_operator.cel.types.environment import Environment

Wire = dict[str, Any]
Ask = Callable[[Wire], Wire]

_REPEATS = 24
_ANSWERS = {"compileError", "error", "match", "value"}
_UNLIMITED = 1_000_000_000
# What lifts a limit of ours that upstream has not, by the name of the difference; the cost limit itself stays.
_LIMITS = {
    "long-lists": (patch.multiple(errors, MOST_ELEMENTS=_UNLIMITED, MOST_COMPARISONS=_UNLIMITED),),
    "long-texts": (patch.object(errors, "LONGEST_TEXT", _UNLIMITED),),
    "too-long": (patch.object(Meter.__init__, "__defaults__", (COST_LIMIT, math.inf)),),
}
# Differences in how the ranges of request policies are computed.
_ARITHMETIC = ("capacity-step", "policy-beyond-int64", "policy-below-zero")


class Verdict(Enum):
    """How two answers compare."""

    EQUAL = "equal"
    EXPLAINED = "different on purpose"
    UNDECIDED = "undecided"
    VARIES = "upstream varies"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with both answers; `why` names the difference where it has a name."""

    verdict: Verdict
    ours: Wire
    upstream: Wire
    why: str = ""

    @property
    def kind(self) -> tuple[str, str]:
        """Return what kinds of answers these are, so that a difference can be told from another."""
        return _kind(self.ours), _kind(self.upstream)


def _kind(answer: Mapping[str, Any]) -> str:
    kinds = ("crash", "panic", "results", "unsatisfiable", "compileError", "match", "value")
    named = next((name for name in kinds if name in answer), "")
    if named == "match":
        return f"match {answer['match']}"
    if named == "panic":
        return f"panic: {answer['panic']}"
    return named or f"{answer.get('errorKind', '')} error"


def judge_scenario(scenario: Wire, upstream: Wire, ask: Ask) -> Judgement:
    """Return the judgement of a scenario that upstream has answered; `ask` asks it more."""
    ours = _guarded(_decide, scenario)
    known = _compare_decisions(scenario, ours, _plain(upstream))
    if known.verdict is not Verdict.DIFFERENT:
        return known
    if why := _cause(scenario, known, ask):
        return replace(known, verdict=Verdict.EXPLAINED, why=why)
    if _gives_up_in_order(scenario, ask):
        return replace(known, verdict=Verdict.UNDECIDED, why="by upstream")
    return _unless_varying(known, scenario, ask, is_equal)


def _cause(scenario: Wire, known: Judgement, ask: Ask) -> str:
    """Return the name of the difference in docs/differences.md that explains this one, or nothing.

    The scenario must have the cause, and with the cause out of the way the answers must agree.
    """
    ordered = _with_counts_in_order(scenario)
    in_order = None if ordered is None else _plain(ask(ordered))
    if in_order is not None and is_equal(known.ours, in_order):
        return "slice-order"
    if _is_error_behind_all(scenario, known, ask):
        return "error-behind-all"
    why = difference(scenario)
    alike = _with_shares_as_devices(scenario)
    if alike.get("allocatedState", {}).get("devices") != scenario.get("allocatedState", {}).get(
        "devices", []
    ):
        # It may have another cause of a difference as well, which did not matter.
        if is_equal(known.ours, _plain(ask(alike))):
            return "exclusive-over-share"
        if _agree_without_use_below_zero(alike, ask):
            return "exclusive-over-share, use-below-zero"
    if why == "use-below-zero":
        return why if _agree_without_use_below_zero(scenario, ask) else ""
    if why not in _ARITHMETIC:
        return ""
    for order in Order:
        computed = _as_upstream_computes(scenario, order)
        if is_equal(computed, known.upstream):
            return why
        if in_order is not None and is_equal(computed, in_order):
            return f"{why}, slice-order"
    return why if _crashes_on_policies_alone(scenario, known, ask) else ""


def _is_error_behind_all(scenario: Wire, known: Judgement, ask: Ask) -> bool:
    """True if we say what is wrong with a claim that upstream does not look at to its end.

    From 1.38 on a request for all devices ends it on each node with an incomplete pool; without pools it goes on.
    """
    if "unsatisfiable" not in known.upstream or known.ours.get("errorKind") != "fatal":
        return False
    bare = {**scenario, "resourceSlices": []}
    return is_equal(_guarded(_decide, bare), known.ours) and is_equal(_plain(ask(bare)), known.ours)


def _agree_without_use_below_zero(scenario: Wire, ask: Ask) -> bool:
    """True if both answer alike where those shares consume nothing that are said to consume less than nothing."""
    scenario = deepcopy(scenario)
    for amounts in _consumed_amounts(scenario):
        for name, amount in amounts.items():
            if parse_quantity(str(amount)).nano < 0:
                amounts[name] = "0"
    return is_equal(_guarded(_decide, scenario), _plain(ask(scenario)))


def _with_shares_as_devices(scenario: Wire) -> Wire:
    """Return a scenario in which shares of devices that are not shareable are the devices."""
    scenario = deepcopy(scenario)
    slices = [read_object(body, "ResourceSlice") for body in scenario.get("resourceSlices") or ()]
    claims = [read_object(body, "ResourceClaim") for body in scenario.get("allocated") or ()]
    found = shared_and_not_shareable(slices, [*claims, state_as_claim(scenario)])
    for result in _results_in_use(scenario):
        if (result.get("driver"), result.get("pool"), result.get("device")) in found:
            result.pop("shareID", None)
            result.pop("consumedCapacity", None)
    state = scenario.setdefault("allocatedState", {})
    state["devices"] = [
        *(state.get("devices") or ()),
        *({"driver": driver, "pool": pool, "device": device} for driver, pool, device in sorted(found)),
    ]
    for name in ("sharedDevices", "consumedCapacity"):
        if name in state:
            state[name] = [
                item for item in state[name] if (item["driver"], item["pool"], item["device"]) not in found
            ]
    return scenario


def _results_in_use(scenario: Wire) -> Iterator[Wire]:
    """Yield the results of the claims in use of a scenario."""
    for claim in scenario.get("allocated") or ():
        allocation = (claim.get("status") or {}).get("allocation") or {}
        yield from (allocation.get("devices") or {}).get("results") or ()


def _consumed_amounts(scenario: Wire) -> Iterator[Wire]:
    """Yield what the claims in use of a scenario say that their shares consume."""
    for result in _results_in_use(scenario):
        yield result.get("consumedCapacity") or {}
    for device in (scenario.get("allocatedState") or {}).get("consumedCapacity") or ():
        yield device.get("capacity") or {}


def _crashes_on_policies_alone(scenario: Wire, known: Judgement, ask: Ask) -> bool:
    """True if upstream crashed where we met another error, and both meet that one without policies that make no sense.

    Upstream judges the devices for one request before it looks at the next; we look at all requests first.
    """
    if known.upstream.get("panic") not in (DIVISION, NOTHING) or "errorKind" not in known.ours:
        return False
    sensible = _without_steps(scenario)
    ours = _guarded(_decide, sensible)
    return is_equal(known.ours, ours) and is_equal(ours, _plain(ask(sensible)))


def _without_steps(scenario: Wire) -> Wire:
    """Return a scenario without the request policies that have steps."""
    scenario = deepcopy(scenario)
    for item in scenario.get("resourceSlices") or ():
        for device in item["spec"].get("devices") or ():
            for capacity in device.get("capacity", {}).values():
                if "step" in (capacity.get("requestPolicy", {}).get("validRange") or {}):
                    del capacity["requestPolicy"]
    return scenario


def judge_case(case: Wire, upstream: Wire, ask: Ask) -> Judgement:
    """Return the judgement of an expression that upstream has answered."""
    ours = _guarded(_evaluate, case)
    if "panic" in upstream:
        return _judge_panic(case, ours, upstream)
    if _cel_answers_agree(case, ours, upstream):
        return Judgement(Verdict.EQUAL, ours, upstream)
    if why := _limit(case, ours, upstream) or _worst_case(case, ours, upstream):
        return Judgement(Verdict.EXPLAINED, ours, upstream, why)
    return _unless_varying(
        Judgement(Verdict.DIFFERENT, ours, upstream),
        case,
        ask,
        lambda one, other: _cel_answers_agree(case, one, other),
    )


def _judge_panic(case: Wire, ours: Wire, upstream: Wire) -> Judgement:
    """Return the judgement of an expression at which upstream's code crashed, to which no answer of ours is equal."""
    known = Judgement(Verdict.DIFFERENT, ours, upstream)
    shapes = _PANICS.get(upstream["panic"])
    if "crash" in ours or shapes is None or not _has(case, shapes):
        return known
    return replace(known, verdict=Verdict.EXPLAINED, why="compiler-crash")


def _has(case: Wire, is_cause: Callable[[Expr], bool]) -> bool:
    """True if a part of an expression is as `is_cause` says; one that we cannot read has no parts."""
    environment = Environment(case.get("kubernetes", RELEASED), case.get("env", "stored"))
    try:
        waiting = [parse(case["expression"], environment)]
    except CelError:
        return False
    while waiting:
        part = waiting.pop()
        if is_cause(part):
            return True
        waiting.extend(children(part))
    return False


def _is_optional(part: Expr) -> bool:
    """True for a literal with an element, an entry or a field that is written with `?`."""
    match part:
        case ListExpr():
            return bool(part.optional)
        case MapExpr():
            return any(entry.optional for entry in part.entries)
        case Struct():
            return any(field.optional for field in part.fields)
        case _:
            return False


def _has_key_of_bytes(part: Expr) -> bool:
    return isinstance(part, MapExpr) and any(
        isinstance(entry.key, Literal) and isinstance(entry.key.value, bytes) for entry in part.entries
    )


_PANICS: Mapping[str, Callable[[Expr], bool]] = {
    "runtime error: index out of range [0] with length 0": _is_optional,
    "runtime error: hash of unhashable type types.Bytes": _has_key_of_bytes,
}
"""What the crashes of upstream's compiler say that docs/differences.md lists, and what an expression has then."""


def _worst_case(case: Wire, ours: Wire, upstream: Wire) -> str:
    """Return the name of the difference if 1.38 estimates another worst case, and all else is alike."""
    without = {key: value for key, value in case.items() if key != "maxCost"}
    alike = case.get("kubernetes") == "1.38" and _cel_answers_agree(without, ours, upstream)
    return "worst-case" if alike else ""


def _limit(case: Wire, ours: Wire, upstream: Wire) -> str:
    """Return the name of the limit of ours that ended an evaluation: without it, the answers agree."""
    if "cost limit exceeded" not in ours.get("error", ""):
        return ""
    with ExitStack() as lifted:
        for why, lifts in _LIMITS.items():
            for lift in lifts:
                lifted.enter_context(lift)
            if _cel_answers_agree(case, _guarded(_evaluate, case), upstream):
                return why
    return ""


def _guarded(answer: Callable[[Wire], Wire], question: Wire) -> Wire:
    """Make any exception of ours an answer, so that it is reported with what caused it."""
    try:
        return answer(question)
    except Exception:  # noqa: BLE001 - whatever it is, it is what we look for
        return {"crash": traceback.format_exc(limit=-4)}


def _decide(scenario: Wire) -> Wire:
    try:
        loaded = load(scenario)
    except (ValueError, TypeError, KeyError) as error:
        return {"error": str(error), "errorKind": "input"}
    return outcome(loaded.allocator.allocate(loaded.claims))


def _as_upstream_computes(scenario: Wire, order: Order) -> Wire:
    with upstreams_arithmetic(order, saturating="kubernetes" in scenario):
        return _guarded(_decide_plainly, scenario)


def _decide_plainly(scenario: Wire) -> Wire:
    """Answer with the exhaustive search, device by device; where upstream's arithmetic crashes, so does this."""
    loaded = load(scenario)
    loaded.allocator.searching = SearchMode.PLAIN
    answer = outcome(loaded.allocator.allocate(loaded.claims))
    crash = next((text for text in (DIVISION, NOTHING) if text in answer.get("error", "")), None)
    return answer if crash is None else {"panic": crash}


def _evaluate(case: Wire) -> Wire:
    try:
        return cel_outcome(case)
    except CaseError as error:
        return {"error": str(error), "errorKind": "input"}


def _plain(answer: Wire) -> Wire:
    return {key: answer[key] for key in answer if key != "name"}


def _compare_decisions(scenario: Wire, ours: Wire, upstream: Wire) -> Judgement:
    if "crash" in ours:
        return Judgement(Verdict.DIFFERENT, ours, upstream)
    for answer, who in ((ours, "by us"), (upstream, "by upstream")):
        if answer.get("errorKind") == "aborted":
            return Judgement(Verdict.UNDECIDED, ours, upstream, who)
    equal = is_equal(ours, upstream)
    return Judgement(Verdict.EQUAL if equal else Verdict.DIFFERENT, ours, upstream)


def _gives_up_in_order(scenario: Wire, ask: Ask) -> bool:
    """True if slices disagree on their number, and with the first by name before the others upstream has no answer."""
    ordered = _with_counts_in_order(scenario)
    return ordered is not None and _plain(ask(ordered)).get("errorKind") == "aborted"


def _with_counts_in_order(scenario: Wire) -> Wire | None:
    """Return the scenario with the slices by name in those pools whose slices disagree on their number.

    None if there is no such pool.
    """
    slices = scenario.get("resourceSlices") or ()
    counts: dict[object, set[int]] = defaultdict(set)
    for item in slices:
        counts[_generation(item)].add(item["spec"]["pool"].get("resourceSliceCount", 0))
    disagreeing = {key for key, numbers in counts.items() if len(numbers) > 1}
    if not disagreeing:
        return None
    moved = sorted(
        (item for item in slices if _generation(item) in disagreeing),
        key=lambda item: str(item["metadata"]["name"]),
    )
    order = iter(moved)
    return {
        **scenario,
        "resourceSlices": [next(order) if _generation(item) in disagreeing else item for item in slices],
    }


def _generation(item: Wire) -> tuple[str, str, int]:
    """Return what the slices of one generation of a pool have in common."""
    pool = item["spec"]["pool"]
    return item["spec"]["driver"], pool["name"], pool.get("generation", 0)


def _cel_answers_agree(case: Wire, ours: Wire, upstream: Wire) -> bool:
    answered = _plain(upstream)
    if answered.get("errorKind") == "input" or "crash" in ours:
        return answered.get("errorKind") == ours.get("errorKind")
    if not answered.keys() & _ANSWERS:
        return False
    row = {"expected": answered, **costs(case, answered)}
    return not differences(row, ours)


def costs(case: Wire, answered: Wire) -> Wire:
    """Return those costs of upstream's answer that are compared."""
    compared = {"maxCost": answered["maxCost"]} if "maxCost" in case and "maxCost" in answered else {}
    if "actualCost" in answered and "{" not in case["expression"]:
        # The order in which a map is walked decides what that costs.
        compared["actualCost"] = answered["actualCost"]
    return compared


def _unless_varying(
    known: Judgement, question: Wire, ask: Ask, equal: Callable[[Wire, Wire], bool]
) -> Judgement:
    """Return a difference as what it is, unless upstream gives different answers to the question asked again."""
    if any(equal(known.ours, answer) for answer in _answers(question, ask)):
        return replace(known, verdict=Verdict.VARIES)
    return known


def _answers(question: Wire, ask: Ask) -> Iterator[Wire]:
    """Yield upstream's answers to a question that is asked again and again."""
    return (_plain(ask(question)) for _ in range(_REPEATS))
