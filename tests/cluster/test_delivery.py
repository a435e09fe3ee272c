"""Delivery: what comes of each answer, and of none."""

import pytest
from aiohttp import web

from dra_operator.api.names import FINALIZER
from dra_operator.cluster import writes

from .script import cut, ok, status
from .writing import ALLOCATION, DONE, OTHERS, UNCHANGED, allocate, annotate, claim, deallocate, patches

REFUSALS = {
    "invalid": (status(422, "status.allocation: Invalid value", "Invalid"), writes.Denied),
    "no right to bind": (
        status(422, 'requires resource="resourceclaims/binding", verb="patch" permission', "Invalid"),
        writes.Denied,
    ),
    "no right": (
        status(403, 'User "a" cannot patch resource "resourceclaims/status"', "Forbidden"),
        writes.Denied,
    ),
    "denied": (status(403, "admission webhook denied the request", "Forbidden"), writes.Denied),
    "not taken": (status(400, "cannot take this"), writes.Denied),
}
"""Answers that say no, and what they mean by themselves."""
WEBHOOK = 'Internal error occurred: failed calling webhook "policy.example.com": connection refused'


NO_RIGHT = (
    'resourceclaims.resource.k8s.io "c" is forbidden: User "system:serviceaccount:a:b" cannot patch '
    'resource "resourceclaims/status" in API group "resource.k8s.io" in the namespace "ns"'
)
NO_RIGHT_TO_BIND = (
    'ResourceClaim "c" is invalid: status.allocation: Forbidden: changing status.allocation or '
    'status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: no'
)


class TestOutcomes:
    """What comes of each answer, and of none."""

    @pytest.mark.parametrize("code", [409, 422])
    async def test_lost_race_is_a_conflict(self, script, desk, code):
        """A refusal of a claim that has changed is a conflict, and tells how the claim is now, at once."""
        changed = claim(9, finalizers=[FINALIZER])
        script.then(status(code, "the object has been modified"), ok(changed))
        writing = desk()

        outcome = await writing.result(allocate())

        assert isinstance(outcome, writes.Stale)
        assert outcome.body == changed
        assert writing.waits == []

    async def test_recreated_claim_is_a_conflict(self, script, desk):
        """A claim deleted and made anew under its name answers 422; it is another claim, so look again."""
        anew = claim(9, uid="another")
        script.then(status(422, "metadata.uid: field is immutable", "Invalid"), ok(anew))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, writes.Stale)
        assert outcome.body == anew

    async def test_claim_allocated_by_another_is_a_conflict(self, script, desk):
        """An allocation that somebody else has written answers 422; it is left alone."""
        theirs = claim(9, allocation=OTHERS)
        script.then(status(422, "field is immutable", "Invalid"), ok(theirs))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, writes.Stale)
        assert outcome.body == theirs

    async def test_invalid_allocation_is_refused_when_asked_twice(self, script, desk):
        """A 422 on an unchanged claim is tried once more and then refused, with the server's words."""
        invalid = status(422, "status.allocation: Invalid value", "Invalid")
        script.then(invalid, UNCHANGED, invalid)

        outcome = await desk().result(allocate())

        assert isinstance(outcome, writes.Denied)
        assert outcome.message == "status.allocation: Invalid value"
        assert len(patches(script)) == 2

    @pytest.mark.parametrize(
        ("code", "message", "resource"), [(403, NO_RIGHT, "status"), (422, NO_RIGHT_TO_BIND, "binding")]
    )
    async def test_a_missing_right_is_named(self, script, desk, code, message, resource):
        """A 403 says which rule is missing, and a 422 says so of the right to bind."""
        script.then(status(code, message, "Forbidden" if code == 403 else "Invalid"))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, writes.Denied)
        assert (outcome.missing.verb, outcome.missing.resource) == ("patch", f"resourceclaims/{resource}")

    async def test_denial_by_admission_is_refused(self, script, desk):
        """A webhook that denies one claim with a 403 says nothing about the operator's rights."""
        message = 'admission webhook "policy.example.com" denied the request: label team missing'
        script.then(status(403, message, "Forbidden"))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, writes.Denied)
        assert message in outcome.message

    async def test_decision_about_an_allocated_claim_is_a_conflict(self, script, desk):
        """A decision that missed that its claim has devices is a conflict, also if nothing has changed since."""
        theirs = claim(5, allocation=OTHERS, finalizers=[FINALIZER])
        script.then(status(422, "field is immutable", "Invalid"), ok(theirs))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, writes.Stale)
        assert outcome.body == theirs

    @pytest.mark.parametrize("code", [302, 400, 405, 413, 415])
    async def test_answer_that_cannot_improve_is_refused(self, script, desk, code):
        """A patch that the API server cannot take at all is refused without a second attempt."""
        script.then(status(code, "cannot take this"))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, writes.Denied)
        assert "cannot take this" in outcome.message
        assert len(script.asked) == 1

    async def test_429_waits_as_long_as_asked(self, script, desk):
        """A server that is overloaded is obeyed, and the patch is sent again."""
        script.then(status(429, headers={"Retry-After": "7"}), UNCHANGED, DONE)
        writing = desk()

        assert isinstance(await writing.result(allocate()), writes.Stored)

        assert writing.waits == [7.0]
        assert [asked.method for asked in script.asked] == ["PATCH", "GET", "PATCH"]

    @pytest.mark.parametrize(
        "silence",
        [
            cut,
            status(500, "etcdserver: request timed out"),
            status(503),
            status(504),
            status(408),
            lambda _: web.Response(text="<html>"),
            ok({}),
        ],
        ids=["cut", "500", "503", "504", "408", "unreadable", "no claim"],
    )
    class TestSilence:
        """A patch of which nobody knows whether it was stored."""

        async def test_stored_patch_counts(self, script, desk, silence):
            """If the claim has the devices, it is written, and not sent again."""
            script.then(silence, DONE)

            assert isinstance(await desk().result(allocate()), writes.Stored)

            assert len(patches(script)) == 1

        async def test_lost_patch_is_repeated(self, script, desk, silence):
            """If the claim is as before, the patch is sent again under the same precondition."""
            script.then(silence, UNCHANGED, DONE)

            assert isinstance(await desk().result(allocate()), writes.Stored)

            first, second = patches(script)
            assert first == second

        async def test_changed_claim_is_a_conflict(self, script, desk, silence):
            """If the claim is neither as before nor as wanted, it is decided anew."""
            script.then(silence, ok(claim(9)))

            assert isinstance(await desk().result(allocate()), writes.Stale)

        async def test_other_allocation_is_a_conflict(self, script, desk, silence):
            """If the claim got other devices meanwhile, those stand."""
            script.then(silence, ok(claim(9, allocation=OTHERS)))

            assert isinstance(await desk().result(allocate()), writes.Stale)

        async def test_recreated_claim_is_a_conflict(self, script, desk, silence):
            """Devices of another claim of the same name do not count."""
            script.then(silence, ok(claim(9, uid="another", allocation=ALLOCATION)))

            assert isinstance(await desk().result(allocate()), writes.Stale)

        async def test_gone_claim_is_gone(self, script, desk, silence):
            """If the claim is gone, so is the decision."""
            script.then(silence, status(404))

            assert isinstance(await desk().result(allocate()), writes.Stale)

        async def test_stored_finalizer_is_decided_anew(self, script, desk, silence):
            """If the first of two patches got through in silence, the second waits for a new look."""
            script.then(silence, ok(claim(6, finalizers=[FINALIZER])))

            assert isinstance(await desk().result(allocate(finalizers=())), writes.Stale)

            assert len(patches(script)) == 1

    @pytest.mark.parametrize(
        "error",
        [status(429), status(500, WEBHOOK), status(500, "etcdserver: request is too large")],
        ids=["429", "webhook", "too large"],
    )
    async def test_errors_for_ever_end(self, script, desk, error):
        """A patch that is turned away again and again is given back, to be decided anew."""
        script.default = lambda asked: (error if asked.method == "PATCH" else UNCHANGED)(asked)

        assert isinstance(await desk().result(allocate()), writes.Denied)

        assert len(patches(script)) == 6

    @pytest.mark.parametrize("code", [500, 502, 503, 504, 408])
    async def test_unclear_errors_for_ever_end(self, script, desk, code):
        """A patch that may be stored after its error is given back when the claim has been unchanged for a while."""
        sent = []
        writing = desk()

        def answer(asked):
            if asked.method != "PATCH":
                return UNCHANGED(asked)
            sent.append(sum(writing.waits))
            return status(code)(asked)

        script.default = answer

        assert isinstance(await writing.result(allocate()), writes.Denied)

        assert len(sent) == 6
        assert 15 <= sum(writing.waits) - sent[-1] < 35

    async def test_silence_is_no_error_however_long_it_is(self, script, desk):
        """After an outage of minutes the API server has not refused what it never saw."""
        script.then(*[cut, UNCHANGED] * 3, *[cut] * 90, UNCHANGED, DONE)
        writing = desk()

        assert isinstance(await writing.result(allocate()), writes.Stored)

        assert sum(writing.waits) > 200

    @pytest.mark.parametrize("code", [500, 502, 503, 504, 408])
    @pytest.mark.parametrize("refusals", [0, 2])
    async def test_error_does_not_settle_what_a_proxy_still_holds(self, script, desk, code, refusals):
        """A patch that was answered by an error may be stored much later: then the claim has the devices."""
        for _ in range(3):
            script.then(status(code), UNCHANGED)
        for _ in range(refusals):
            script.then(status(403, "admission webhook denied the request", "Forbidden"), UNCHANGED)
        script.then(status(code), DONE)

        assert isinstance(await desk().result(allocate()), writes.Stored)

    async def test_what_is_stored_while_no_more_is_sent_counts(self, script, desk):
        """While the last patch is waited out the claim is read, and what is found there counts."""
        writing = desk()

        def answer(asked):
            if asked.method == "PATCH":
                return status(504)(asked)
            return (UNCHANGED if sum(writing.waits) < 40 else DONE)(asked)

        script.default = answer

        assert isinstance(await writing.result(allocate()), writes.Stored)

    @pytest.mark.parametrize("refusal", [refusal for refusal, _ in REFUSALS.values()], ids=REFUSALS)
    async def test_refusal_of_a_repeated_patch_does_not_settle_the_first(self, script, desk, refusal):
        """A patch that got no answer may be stored after one like it was refused: then the claim has the devices."""
        script.then(cut, UNCHANGED, refusal, UNCHANGED, refusal, UNCHANGED, refusal, DONE)

        assert isinstance(await desk().result(allocate()), writes.Stored)

    @pytest.mark.parametrize(("refusal", "outcome"), REFUSALS.values(), ids=REFUSALS)
    async def test_refusal_stands_when_nothing_is_on_its_way(self, script, desk, refusal, outcome):
        """When the claim has been unchanged for a while no patch is on its way any more, and a refusal is one."""
        script.then(cut)
        script.default = lambda asked: (refusal if asked.method == "PATCH" else UNCHANGED)(asked)
        writing = desk()

        assert isinstance(await writing.result(allocate()), outcome)

        assert 15 <= sum(writing.waits) < 35

    async def test_claim_that_is_gone_settles_a_patch_on_its_way(self, script, desk):
        """Nothing can be stored in a claim that no longer exists, so nothing is waited for."""
        script.then(cut, UNCHANGED, status(400), UNCHANGED, status(404))

        assert isinstance(await desk().result(allocate()), writes.Stale)

    @pytest.mark.parametrize("before", [(), (cut, UNCHANGED)], ids=["first", "after a cut"])
    async def test_proxy_that_finds_no_server_does_not_say_that_the_claim_is_gone(self, script, desk, before):
        """A 404 that is not the API server's says nothing of the claim, neither to a patch nor to reading it."""
        page = lambda _: web.Response(status=404, text="default backend - 404")  # noqa: E731
        script.then(*before, page, page, page, UNCHANGED, page, DONE)

        assert isinstance(await desk().result(allocate()), writes.Stored)

    async def test_allocation_that_is_still_there_is_taken_off_again(self, script, desk):
        """What was to be taken off and is not says that the patch was lost, and not that somebody was faster."""
        there = ok(claim(5, allocation=ALLOCATION, finalizers=[FINALIZER]))
        script.then(cut, there, ok(claim(6, finalizers=[FINALIZER])), ok(claim(7)))

        assert isinstance(await desk().result(deallocate()), writes.Stored)

    async def test_reading_back_goes_on_until_the_server_is_back(self, script, desk):
        """While the API server is away the outcome stays unknown, however long that takes."""
        script.then(status(503), *[status(503)] * 40, DONE)
        writing = desk()

        assert isinstance(await writing.result(allocate()), writes.Stored)

        assert max(writing.waits) == 10.0

    async def test_expired_credentials_are_waited_for(self, script, desk):
        """A 401 that stays after a renewal is waited out: nothing says that the claim was at fault."""
        script.then(status(401), status(401), UNCHANGED, DONE)

        assert isinstance(await desk().result(allocate()), writes.Stored)

    async def test_forbidden_reading_is_reported(self, script, desk):
        """If the claim may not even be read back, that is what is missing, once no patch is on its way any more."""
        script.then(status(500))
        script.default = status(403, "no", "Forbidden")
        writing = desk()

        outcome = await writing.result(allocate())

        assert isinstance(outcome, writes.Unclear)
        assert (outcome.missing.verb, outcome.missing.resource) == ("get", "resourceclaims")
        assert sum(writing.waits) >= 15

    async def test_reading_that_is_forbidden_for_a_moment_settles_nothing(self, script, desk):
        """An API server that was just started permits nobody anything: the claim is read when it does."""
        script.then(cut, status(403, "no", "Forbidden"), status(403, "no", "Forbidden"), DONE)

        assert isinstance(await desk().result(allocate()), writes.Stored)

    async def test_ignored_patch_is_refused(self, script, desk):
        """A good status that changed nothing is not taken for a success."""
        script.then(UNCHANGED)

        outcome = await desk().result(allocate())

        assert isinstance(outcome, writes.Denied)
        assert "resourceclaims/status was accepted, but status.allocation is not as sent" in outcome.message

    async def test_finalizer_that_is_taken_off_again_is_named(self, script, desk):
        """Whoever wrote the webhook that does so learns what it must leave alone."""
        script.then(ok(claim(6)))

        outcome = await desk().result(allocate(finalizers=()))

        assert isinstance(outcome, writes.Denied)
        assert "resourceclaims was accepted, but metadata.finalizers is not as sent" in outcome.message

    @pytest.mark.parametrize("finalizers", [(), (FINALIZER,)], ids=["to be set", "set before"])
    async def test_an_annotation_that_is_put_on_again_holds_no_allocation_up(self, script, desk, finalizers):
        """That a policy lets a claim go on saying that it waits is no reason to let it wait."""
        script.then(ok(claim(6, finalizers=[FINALIZER], annotation="by a policy")), DONE)

        outcome = await desk().result(allocate(finalizers=finalizers, drop_annotation=True))

        assert isinstance(outcome, writes.Stored)
        assert [patch["metadata"]["resourceVersion"] for _, patch in patches(script)] == ["5", "6"]

    async def test_an_annotation_that_is_put_on_again_is_told(self, script, desk):
        """When nothing else is to be written."""
        script.then(ok(claim(6, annotation="by a policy")))

        outcome = await desk().result(annotate(None))

        assert isinstance(outcome, writes.Denied)
        assert "resourceclaims was accepted, but metadata.annotations is not as sent" in outcome.message

    async def test_altered_allocation_is_a_conflict(self, script, desk):
        """If a webhook made other devices of ours, those are looked at and not ours assumed."""
        script.then(ok(claim(6, allocation=OTHERS)))

        assert isinstance(await desk().result(allocate()), writes.Stale)

    async def test_defect_is_one_unknown_outcome(self, script, desk):
        """An answer that breaks our own code costs one write, whose outcome is unknown, and frees its slot."""
        script.then(ok({"metadata": {}, "status": "none"}), DONE)
        writing = desk(concurrency=1)

        assert isinstance(await writing.result(allocate()), writes.Unclear)
        writing.writer.submit(allocate())
        assert isinstance((await writing.results(2))[1], writes.Stored)
