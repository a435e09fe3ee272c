"""Judging: a difference is excused only for the cause that it has."""

from typing import Any

import pytest

from conformance.judge import Verdict, judge_case, judge_scenario
from conformance.ranges import DIVISION, NOTHING, value
from dra_operator.api.quantity import parse_quantity
from dra_operator.cel.run.meter import COST_LIMIT, LONGEST, Meter

Wire = dict[str, Any]
NO = {"unsatisfiable": True}
NO_STEP = {"min": "1Gi", "step": "0"}
ENDLESS = {"step": "1Gi"}
HUGE_STEP = {"min": "1Gi", "step": "10E"}


def scenario(*slices: Wire, requested: str = "2Gi") -> Wire:
    """Return a scenario of one request for an amount of memory."""
    asked = {"deviceClassName": "any", "capacity": {"requests": {"memory": requested}}}
    claim = {
        "metadata": {"name": "c", "uid": "u"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": asked}]}},
    }
    return {
        "nodes": [{"metadata": {"name": "n"}}],
        "deviceClasses": [{"metadata": {"name": "any"}, "spec": {}}],
        "resourceSlices": list(slices),
        "claims": [claim],
    }


def published(name: str, span: Wire, *, count: int = 1) -> Wire:
    """Return a slice with one device that can be shared, whose memory is given in a range."""
    memory = {"value": "10Gi", "requestPolicy": {"default": "1Gi", "validRange": span}}
    device = {"name": f"on-{name}", "allowMultipleAllocations": True, "capacity": {"memory": memory}}
    described = {"name": "p", "generation": 1, "resourceSliceCount": count}
    return {
        "metadata": {"name": name},
        "spec": {"driver": "d", "pool": described, "allNodes": True, "devices": [device]},
    }


def picked(device: str, amount: str) -> Wire:
    """Return an answer in which one device is allocated."""
    result = {
        "request": "r",
        "driver": "d",
        "pool": "p",
        "device": device,
        "shareID": "*",
        "consumedCapacity": {"memory": amount},
    }
    return {"node": "n", "results": [{"devices": {"results": [result]}}]}


def judged(question: Wire, *answers: Wire) -> tuple[Verdict, str]:
    """Return the verdict on a question that upstream answers so, and then again; the last answer is repeated."""
    later = list(answers[1:]) or [answers[0]]

    def ask(_: Wire) -> Wire:
        return later.pop(0) if len(later) > 1 else later[0]

    found = judge_scenario(question, answers[0], ask)
    return found.verdict, found.why


@pytest.mark.parametrize(
    ("span", "crash", "why"),
    [
        (NO_STEP, DIVISION, "capacity-step"),
        (ENDLESS, NOTHING, "capacity-step"),
        (HUGE_STEP, DIVISION, "policy-beyond-int64"),
    ],
)
def test_a_crash_of_upstreams_is_put_down_to_its_cause(span: Wire, crash: str, why: str) -> None:
    """We refuse the device; with upstream's arithmetic we would crash as well."""
    assert judged(scenario(published("s", span)), {"panic": crash}) == (Verdict.EXPLAINED, why)


@pytest.mark.parametrize("span", [NO_STEP, ENDLESS, HUGE_STEP])
@pytest.mark.parametrize(
    "answer", [NO, {"error": "", "errorKind": "fatal"}, {"panic": "something else"}, picked("on-b", "3Gi")]
)
def test_the_cause_alone_is_no_excuse(span: Wire, answer: Wire) -> None:
    """A policy that makes no sense explains only what it leads to, not whatever else differs."""
    good = published("b", {"min": "1Gi", "step": "1Gi"}, count=2)

    assert judged(scenario(published("a", span, count=2), good), answer)[0] is not Verdict.EXPLAINED


def test_a_range_that_starts_far_below_zero_is_put_down_to_that() -> None:
    """Of so many digits upstream rounds the start another way; here it answered 3, and we count up to 4."""
    question = scenario(published("s", {"min": "-9223372036854775808m", "step": "3"}), requested="2")

    assert judged(question, picked("on-s", "3")) == (Verdict.EXPLAINED, "policy-below-zero")
    assert judged(question, picked("on-s", "5"))[0] is Verdict.DIFFERENT


def test_a_use_below_zero_is_excused_where_both_agree_without_it() -> None:
    """A share that is said to consume less than nothing lets upstream serve more than a device has."""
    question = scenario(published("s", {"min": "1Gi", "step": "1Gi"}), requested="20Gi")
    used = {"driver": "d", "pool": "p", "device": "on-s", "shareID": "id"}
    results = [{**used, "consumedCapacity": {"memory": "-40Gi"}}]
    question["allocated"] = [
        {"metadata": {"name": "old"}, "status": {"allocation": {"devices": {"results": results}}}}
    ]

    assert judged(question, picked("on-s", "20Gi"), NO) == (Verdict.EXPLAINED, "use-below-zero")
    assert judged(question, picked("on-s", "20Gi"))[0] is Verdict.DIFFERENT


def test_a_share_of_what_is_not_shareable_is_excused_where_upstream_agrees_that_it_is_the_device() -> None:
    """A device that is no longer shareable is given away by upstream, though somebody has a share of it."""
    question = scenario(published("s", {"min": "1Gi", "step": "1Gi"}))
    del question["resourceSlices"][0]["spec"]["devices"][0]["allowMultipleAllocations"]
    results = [{"driver": "d", "pool": "p", "device": "on-s", "shareID": "id"}]
    question["allocated"] = [
        {"metadata": {"name": "old"}, "status": {"allocation": {"devices": {"results": results}}}}
    ]

    assert judged(question, picked("on-s", "2Gi"), NO) == (Verdict.EXPLAINED, "exclusive-over-share")
    assert judged(question, picked("on-s", "2Gi"))[0] is Verdict.DIFFERENT


def test_slices_that_disagree_on_their_number_are_tried_by_name() -> None:
    """We believe the first by name: the difference is excused if upstream agrees once that one comes first."""
    span = {"min": "1Gi", "step": "1Gi"}
    question = scenario(published("b", span, count=9), published("a", span, count=2))

    assert judged(question, NO, picked("on-a", "2Gi")) == (Verdict.EXPLAINED, "slice-order")
    assert judged(question, NO, NO) == (Verdict.DIFFERENT, "")
    assert judged(question, NO, {"error": "", "errorKind": "aborted"}) == (Verdict.UNDECIDED, "by upstream")


def test_a_crash_may_come_before_an_error() -> None:
    """Upstream crashes on a device before it reads the next request, which we refuse first."""
    question = scenario(published("s", NO_STEP))
    asked = question["claims"][0]["spec"]["devices"]["requests"]
    asked.append({"name": "late", "exactly": {"deviceClassName": "missing"}})
    error = {"error": "not found", "errorKind": "fatal"}

    assert judged(question, {"panic": DIVISION}, error) == (Verdict.EXPLAINED, "capacity-step")
    assert judged(question, {"panic": DIVISION}, NO)[0] is Verdict.DIFFERENT


@pytest.mark.parametrize(
    ("expression", "seconds", "why"),
    [
        ("[0].map(x, x) == lists.range(75807)", LONGEST, "long-lists"),
        ("!lists.range(1000).all(x, x >= 0)", 0.0, "too-long"),
    ],
)
def test_a_limit_of_ours_is_named(
    monkeypatch: pytest.MonkeyPatch, expression: str, seconds: float, why: str
) -> None:
    """An expression that ends at a limit is excused if it would be answered alike without that limit."""
    monkeypatch.setattr(Meter.__init__, "__defaults__", (COST_LIMIT, seconds))
    case = {"name": "c", "expression": expression, "device": {"driver": "d"}}

    found = judge_case(case, {"match": False}, lambda _: {"match": False})
    assert (found.verdict, found.why) == (Verdict.EXPLAINED, why)
    assert judge_case(case, {"match": True}, lambda _: {"match": True}).verdict is Verdict.DIFFERENT


INDEX, HASH = (
    "runtime error: index out of range [0] with length 0",
    "runtime error: hash of unhashable type types.Bytes",
)


@pytest.mark.parametrize(
    ("expression", "panic"),
    [("[?dyn(1)]", INDEX), ("[1].exists(x, {?'a': dyn(x)} == {})", INDEX), ("{b'a': 1}", HASH)],
)
def test_a_crash_of_upstreams_compiler_is_excused_where_it_is_listed(expression: str, panic: str) -> None:
    """The expression has what docs/differences.md says, and the crash is the one that it leads to."""
    case = {"name": "c", "expression": expression}

    found = judge_case(case, {"panic": panic}, lambda _: {})
    assert (found.verdict, found.why) == (Verdict.EXPLAINED, "compiler-crash")
    assert found.kind[1] == f"panic: {panic}"
    other = HASH if panic == INDEX else INDEX
    assert judge_case(case, {"panic": other}, lambda _: {}).verdict is Verdict.DIFFERENT


@pytest.mark.parametrize("expression", ["1 + 1", "[1]", "{'b': 1}", "[?", "1 +", "{'a': b'x'}"])
@pytest.mark.parametrize("panic", [INDEX, HASH, "nil map"])
def test_any_other_crash_of_upstreams_is_a_difference(expression: str, panic: str) -> None:
    """Whatever we answer, also an error: nobody has looked at that crash yet."""
    case = {"name": "c", "expression": expression}

    assert judge_case(case, {"panic": panic}, lambda _: {"panic": panic}).verdict is Verdict.DIFFERENT


def test_giving_up_is_said_by_whom() -> None:
    """What upstream does not decide in its time says nothing about us."""
    aborted = {"error": "filter operation aborted", "errorKind": "aborted"}

    assert judged(scenario(published("s", {"min": "1Gi"})), aborted) == (Verdict.UNDECIDED, "by upstream")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1500m", 2),
        ("-1500m", -2),
        ("10E", 0),
        ("20000000000000000000", 20 * 10**18 - 2**64),
        ("8Ei", 2**63 - 1),
    ],
)
def test_values_are_those_of_go(text: str, expected: int) -> None:
    """Parts of a unit count as one; what an int64 does not hold is nothing, or its low bits. Measured."""
    assert value(parse_quantity(text)) == expected
