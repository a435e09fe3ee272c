"""The writer: every patch conditional, every outcome known, every claim in order."""

import asyncio

import pytest
from aiohttp import web

from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.writer import (
    AllocateWrite,
    AnnotateWrite,
    Conflict,
    DeallocateWrite,
    Forbidden,
    Gone,
    Refused,
    Unknown,
    Unsent,
    Writer,
    Written,
)
from dra_operator.cluster.writes import FINALIZER, PENDING_ANNOTATION

from .conftest import CLAIMS, cut, lines, ok, status, thing

PATH = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"
ALLOCATION = {
    "devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0"}]},
    "allocationTimestamp": "2026-01-01T00:00:00Z",
}
OTHERS = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-1"}]}}


def claim(version=5, uid="u", *, allocation=None, finalizers=(), annotation=None, name="c"):
    """A claim as on the wire."""
    body = thing(name, version, uid, finalizers=list(finalizers))
    if annotation is not None:
        body["metadata"]["annotations"] = {PENDING_ANNOTATION: annotation}
    body["status"] = {} if allocation is None else {"allocation": allocation}
    return body


def allocate(finalizers=(FINALIZER,), *, drop_annotation=False, version="5", name="c", uid="u"):
    """A decision; by default about a claim that has the finalizer, so that one patch is enough."""
    return AllocateWrite("ns", name, uid, version, finalizers, drop_annotation, ALLOCATION)


def annotate(text, current=None, version="5", name="c"):
    """An annotation to be set or taken off."""
    return AnnotateWrite("ns", name, "u", version, current, text)


def deallocate(finalizers=(FINALIZER,), *, allocated=True):
    """The end of a claim."""
    return DeallocateWrite("ns", "c", "u", "5", finalizers, allocated, 0)


DONE = ok(claim(6, allocation=ALLOCATION, finalizers=[FINALIZER]))
UNCHANGED = ok(claim(5, finalizers=[FINALIZER]))


class Desk:
    """A writer under test, its outcomes, and how long it would have waited."""

    def __init__(self, session, **settings):
        self.outcomes = []
        self.waits = []
        self.writer = Writer(
            session,
            CLAIMS,
            self.outcomes.append,
            sleep=self.sleep,
            random=lambda: 1.0,
            backoff=Backoff(base=1.0, cap=10.0),
            **settings,
        )

    async def sleep(self, seconds):
        """Note a pause instead of taking it."""
        self.waits.append(seconds)
        await asyncio.sleep(0.001)

    async def results(self, count=1):
        """Wait for so many outcomes."""
        async with asyncio.timeout(5):
            while len(self.outcomes) < count:  # noqa: ASYNC110 - the writer calls back, it signals nothing
                await asyncio.sleep(0.001)
        assert len(self.outcomes) == count
        return self.outcomes

    async def result(self, write):
        """Submit a write and return its outcome."""
        self.writer.submit(write)
        (outcome,) = await self.results()
        assert outcome.write == write
        return outcome


@pytest.fixture
async def desk(session):
    """A writer that is stopped when the test ends."""
    made = []

    def start(**settings):
        made.append(Desk(session, **settings))
        return made[-1]

    yield start
    for each in made:
        await each.writer.drain(0)


def patches(script):
    """What was patched: subresource and body."""
    return [(asked.path.removeprefix(PATH), asked.body) for asked in script.asked if asked.method == "PATCH"]


class TestPatches:
    """What the API server gets."""

    async def test_finalizer_precedes_the_allocation(self, script, desk):
        """A claim without the finalizer gets it first, and the allocation on top of the version that came of it."""
        script.then(ok(claim(6, finalizers=["other", FINALIZER])), DONE)

        outcome = await desk().result(allocate(finalizers=("other",)))

        assert patches(script) == [
            (
                "",
                {"metadata": {"resourceVersion": "5", "uid": "u", "finalizers": ["other", FINALIZER]}},
            ),
            (
                "/status",
                {"metadata": {"resourceVersion": "6", "uid": "u"}, "status": {"allocation": ALLOCATION}},
            ),
        ]
        assert isinstance(outcome, Written)
        assert outcome.body["status"]["allocation"] == ALLOCATION

    async def test_stale_annotation_goes_with_the_finalizer(self, script, desk):
        """The patch that sets the finalizer takes the pending annotation off."""
        script.then(ok(claim(6, finalizers=[FINALIZER])), DONE)

        await desk().result(allocate(finalizers=(), drop_annotation=True))

        assert patches(script)[0][1]["metadata"] == {
            "resourceVersion": "5",
            "uid": "u",
            "finalizers": [FINALIZER],
            "annotations": {PENDING_ANNOTATION: None},
        }

    async def test_stale_annotation_alone_takes_a_patch(self, script, desk):
        """A claim with the finalizer and a stale annotation is freed of it before its allocation."""
        script.then(ok(claim(6, finalizers=[FINALIZER])), DONE)

        await desk().result(allocate(drop_annotation=True))

        assert [subresource for subresource, _ in patches(script)] == ["", "/status"]

    async def test_protected_claim_takes_one_patch(self, script, desk):
        """A claim that has the finalizer and no annotation is allocated by one patch."""
        script.then(DONE)

        assert isinstance(await desk().result(allocate()), Written)

        assert [subresource for subresource, _ in patches(script)] == ["/status"]

    async def test_patches_are_merge_patches_by_the_field_manager(self, script, desk):
        """Patches are merge-patches, and managedFields will name the operator."""
        script.then(DONE)

        await desk().result(allocate())

        assert script.asked[0].headers["Content-Type"] == "application/merge-patch+json"
        assert script.asked[0].query == {"fieldManager": "dra-operator"}

    async def test_allocation_ends_before_the_finalizer(self, script, desk):
        """A claim that is deleted loses its allocation first and then our finalizer, and no other."""
        script.then(ok(claim(6, finalizers=["other", FINALIZER])), ok(claim(7, finalizers=["other"])))

        outcome = await desk().result(deallocate(finalizers=("other", FINALIZER)))

        assert isinstance(outcome, Written)
        assert patches(script) == [
            ("/status", {"metadata": {"resourceVersion": "5", "uid": "u"}, "status": {"allocation": None}}),
            ("", {"metadata": {"resourceVersion": "6", "uid": "u", "finalizers": ["other"]}}),
        ]

    async def test_claim_without_allocation_only_loses_the_finalizer(self, script, desk):
        """A claim that has our finalizer and no allocation is released by one patch."""
        script.then(ok(claim(6)))

        await desk().result(deallocate(allocated=False))

        assert patches(script) == [("", {"metadata": {"resourceVersion": "5", "uid": "u", "finalizers": []}})]

    def test_reserved_claim_is_never_deallocated(self):
        """A claim that somebody uses cannot even be asked to be deallocated."""
        with pytest.raises(ValueError, match="reserved for 1 consumers"):
            DeallocateWrite("ns", "c", "u", "5", (FINALIZER,), allocated=True, consumers=1)

    @pytest.mark.parametrize("text", ["why it waits", None], ids=["set", "take off"])
    async def test_annotation_is_conditional(self, script, desk, text):
        """An annotation touches nothing else, and only the claim it was meant for."""
        script.then(ok(claim(6, annotation=text)))

        assert isinstance(await desk().result(annotate(text, current="old")), Written)

        assert patches(script) == [
            (
                "",
                {"metadata": {"resourceVersion": "5", "uid": "u", "annotations": {PENDING_ANNOTATION: text}}},
            )
        ]

    async def test_equal_annotation_is_not_sent(self, script, desk):
        """An annotation that says what is said already costs no request."""
        assert isinstance(await desk().result(annotate("same", current="same")), Unsent)

        assert script.asked == []

    async def test_served_version_is_used(self, script, session):
        """An API server that serves v1beta1 gets its patches there."""
        outcomes = []
        script.then(DONE)
        writer = Writer(session, type(CLAIMS)(CLAIMS.kind, "v1beta1"), outcomes.append)

        writer.submit(allocate())
        await writer.drain(5)

        assert script.asked[0].path == PATH.replace("/v1/", "/v1beta1/") + "/status"


class TestOutcomes:
    """What comes of each answer, and of none."""

    async def test_lost_race_is_a_conflict(self, script, desk):
        """A 409 on a claim that has changed is a conflict, and tells how the claim is now."""
        changed = claim(9, finalizers=[FINALIZER])
        script.then(status(409, "the object has been modified", "Conflict"), ok(changed))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, Conflict)
        assert outcome.body == changed

    async def test_conflict_with_ourselves_is_written(self, script, desk):
        """A 409 because the same patch had arrived before counts as written."""
        script.then(status(409), DONE)

        assert isinstance(await desk().result(allocate()), Written)

    async def test_gone_claim_is_gone(self, script, desk):
        """A 404 says that the claim no longer exists."""
        script.then(status(404))

        assert isinstance(await desk().result(allocate()), Gone)

    async def test_recreated_claim_is_a_conflict(self, script, desk):
        """A claim deleted and made anew under its name answers 422; it is another claim, so look again."""
        anew = claim(9, uid="another")
        script.then(status(422, "metadata.uid: field is immutable", "Invalid"), ok(anew))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, Conflict)
        assert outcome.body == anew

    async def test_claim_allocated_by_another_is_a_conflict(self, script, desk):
        """An allocation that somebody else has written answers 422; it is left alone."""
        theirs = claim(9, allocation=OTHERS)
        script.then(status(422, "field is immutable", "Invalid"), ok(theirs))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, Conflict)
        assert outcome.body == theirs

    async def test_invalid_allocation_is_refused_when_asked_twice(self, script, desk):
        """A 422 on an unchanged claim is tried once more and then refused, with the server's words."""
        invalid = status(422, "status.allocation: Invalid value", "Invalid")
        script.then(invalid, UNCHANGED, invalid)

        outcome = await desk().result(allocate())

        assert isinstance(outcome, Refused)
        assert outcome.message == "status.allocation: Invalid value"
        assert len(patches(script)) == 2

    async def test_passing_422_is_forgiven(self, script, desk):
        """A 422 that does not come twice does no harm."""
        script.then(status(422), UNCHANGED, DONE)

        assert isinstance(await desk().result(allocate()), Written)

    async def test_forbidden_names_verb_and_resource(self, script, desk):
        """A 403 says which rule is missing."""
        script.then(status(403, "no", "Forbidden"))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, Forbidden)
        assert (outcome.error.verb, outcome.error.resource) == ("patch", "resourceclaims/status")

    async def test_missing_right_to_bind_is_forbidden(self, script, desk):
        """The right to bind is demanded by a 422; it is reported as the missing rule that it is."""
        message = (
            'ResourceClaim "c" is invalid: status.allocation: Forbidden: changing status.allocation or '
            'status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: no'
        )
        script.then(status(422, message, "Invalid"))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, Forbidden)
        assert (outcome.error.verb, outcome.error.resource) == ("patch", "resourceclaims/binding")

    async def test_decision_about_an_allocated_claim_is_a_conflict(self, script, desk):
        """A decision that missed that its claim has devices is a conflict, also if nothing has changed since."""
        theirs = claim(5, allocation=OTHERS, finalizers=[FINALIZER])
        script.then(status(422, "field is immutable", "Invalid"), ok(theirs))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, Conflict)
        assert outcome.body == theirs

    @pytest.mark.parametrize("code", [302, 400, 405, 413, 415])
    async def test_answer_that_cannot_improve_is_refused(self, script, desk, code):
        """A patch that the API server cannot take at all is refused without a second attempt."""
        script.then(status(code, "cannot take this"))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, Refused)
        assert "cannot take this" in outcome.message
        assert len(script.asked) == 1

    async def test_429_waits_as_long_as_asked(self, script, desk):
        """A server that is overloaded is obeyed, and the patch is sent again."""
        script.then(status(429, headers={"Retry-After": "7"}), DONE)
        writing = desk()

        assert isinstance(await writing.result(allocate()), Written)

        assert writing.waits == [7.0]

    @pytest.mark.parametrize(
        "silence",
        [
            cut,
            status(500, "etcdserver: request timed out"),
            status(503),
            status(504),
            status(408),
            lambda _: web.Response(text="<html>"),
        ],
        ids=["cut", "500", "503", "504", "408", "unreadable"],
    )
    class TestSilence:
        """A patch of which nobody knows whether it was stored."""

        async def test_stored_patch_counts(self, script, desk, silence):
            """If the claim has the devices, it is written, and not sent again."""
            script.then(silence, DONE)

            assert isinstance(await desk().result(allocate()), Written)

            assert len(patches(script)) == 1

        async def test_lost_patch_is_repeated(self, script, desk, silence):
            """If the claim is as before, the patch is sent again under the same precondition."""
            script.then(silence, UNCHANGED, DONE)

            assert isinstance(await desk().result(allocate()), Written)

            first, second = patches(script)
            assert first == second

        async def test_changed_claim_is_a_conflict(self, script, desk, silence):
            """If the claim is neither as before nor as wanted, it is decided anew."""
            script.then(silence, ok(claim(9)))

            assert isinstance(await desk().result(allocate()), Conflict)

        async def test_other_allocation_is_a_conflict(self, script, desk, silence):
            """If the claim got other devices meanwhile, those stand."""
            script.then(silence, ok(claim(9, allocation=OTHERS)))

            assert isinstance(await desk().result(allocate()), Conflict)

        async def test_recreated_claim_is_a_conflict(self, script, desk, silence):
            """Devices of another claim of the same name do not count."""
            script.then(silence, ok(claim(9, uid="another", allocation=ALLOCATION)))

            assert isinstance(await desk().result(allocate()), Conflict)

        async def test_gone_claim_is_gone(self, script, desk, silence):
            """If the claim is gone, so is the decision."""
            script.then(silence, status(404))

            assert isinstance(await desk().result(allocate()), Gone)

        async def test_stored_finalizer_is_decided_anew(self, script, desk, silence):
            """If the first of two patches got through in silence, the second waits for a new look."""
            script.then(silence, ok(claim(6, finalizers=[FINALIZER])))

            assert isinstance(await desk().result(allocate(finalizers=())), Conflict)

            assert len(patches(script)) == 1

    @pytest.mark.parametrize("code", [500, 503, 504, 408, 429])
    async def test_errors_for_ever_end(self, script, desk, code):
        """A patch that gets an error for an answer again and again is given back, to be decided anew."""

        def answer(request):
            return (status(code) if request.method == "PATCH" else UNCHANGED)(request)

        script.default = answer

        assert isinstance(await desk().result(allocate()), Conflict)

        assert len(patches(script)) == 6

    async def test_patch_without_answer_is_never_given_up(self, script, desk):
        """A patch that got no answer may still arrive: it is repeated until one settles it."""
        for _ in range(20):
            script.then(cut, UNCHANGED)
        for _ in range(10):
            script.then(status(503), UNCHANGED, status(429))
        script.then(DONE)

        assert isinstance(await desk().result(allocate()), Written)

    async def test_server_that_never_answers_is_read_back(self, script, desk):
        """A patch that runs into the time limit is read back."""
        script.then(lines(then="stall"), DONE)

        assert isinstance(await desk(timeout=0.05).result(allocate()), Written)

    async def test_lost_answer_then_409_is_written(self, script, desk):
        """A repeated patch that meets its own earlier success is written, not lost."""
        script.then(cut, UNCHANGED, status(409), DONE)

        assert isinstance(await desk().result(allocate()), Written)

    async def test_reading_back_goes_on_until_the_server_is_back(self, script, desk):
        """While the API server is away the outcome stays unknown, however long that takes."""
        script.then(status(503), *[status(503)] * 40, DONE)
        writing = desk()

        assert isinstance(await writing.result(allocate()), Written)

        assert max(writing.waits) == 10.0

    async def test_expired_credentials_are_waited_for(self, script, desk):
        """A 401 that stays after a renewal is waited out: nothing says that the claim was at fault."""
        script.then(status(401), status(401), UNCHANGED, DONE)

        assert isinstance(await desk().result(allocate()), Written)

    async def test_forbidden_reading_is_reported(self, script, desk):
        """If the claim may not even be read back, that is what is missing."""
        script.then(status(500), status(403, "no", "Forbidden"))

        outcome = await desk().result(allocate())

        assert isinstance(outcome, Forbidden)
        assert (outcome.error.verb, outcome.error.resource) == ("get", "resourceclaims")

    async def test_ignored_patch_is_refused(self, script, desk):
        """A good status that changed nothing is not taken for a success."""
        script.then(UNCHANGED)

        outcome = await desk().result(allocate())

        assert isinstance(outcome, Refused)
        assert "resourceclaims/status was accepted, but the claim is as before" in outcome.message

    async def test_altered_allocation_is_a_conflict(self, script, desk):
        """If a webhook made other devices of ours, those are looked at and not ours assumed."""
        script.then(ok(claim(6, allocation=OTHERS)))

        assert isinstance(await desk().result(allocate()), Conflict)

    async def test_defect_is_one_unknown_outcome(self, script, desk):
        """An answer that breaks our own code costs one write, whose outcome is unknown, and frees its slot."""
        script.then(ok({"status": {"allocation": ALLOCATION}}), DONE)
        writing = desk(concurrency=1)

        assert isinstance(await writing.result(allocate()), Unknown)
        writing.writer.submit(allocate())
        assert isinstance((await writing.results(2))[1], Written)

    async def test_outcomes_are_counted(self, script, desk):
        """Outcomes are counted by their kind."""
        script.then(DONE, status(404))
        writing = desk(concurrency=1)
        writing.writer.submit(allocate())
        writing.writer.submit(allocate())

        await writing.results(2)

        assert writing.writer.outcomes == {"Written": 1, "Gone": 1}


class TestOrder:
    """Many writes at once."""

    @pytest.fixture
    def gate(self, script):
        """Hold every request until it is let through; say which are held."""

        class Gate:
            def __init__(self):
                self.held = {}
                self.most = 0

            async def answer(self, request):
                name = request.path.removesuffix("/status").rpartition("/")[2]
                self.held[name] = asyncio.Event()
                self.most = max(self.most, len(self.held))
                await self.held[name].wait()
                del self.held[name]
                asked = next(asked for asked in reversed(script.asked) if asked.path == request.path)
                text = (asked.body["metadata"].get("annotations") or {}).get(PENDING_ANNOTATION)
                return ok(
                    claim(6, allocation=ALLOCATION, finalizers=[FINALIZER], annotation=text, name=name)
                )(request)

            async def until(self, *names):
                async with asyncio.timeout(5):
                    while set(self.held) != set(names):  # noqa: ASYNC110 - a state, not a signal
                        await asyncio.sleep(0.001)

            def release(self, name):
                self.held[name].set()

        made = Gate()
        script.default = made.answer
        return made

    async def test_no_more_than_the_limit_at_once(self, gate, desk):
        """Requests at once never exceed the number of slots, and every write gets its turn."""
        writing = desk(concurrency=3)
        for number in range(10):
            writing.writer.submit(allocate(name=f"c{number}"))
        await gate.until("c0", "c1", "c2")

        while len(writing.outcomes) < 10:
            for name in list(gate.held):
                gate.release(name)
            await asyncio.sleep(0.001)

        assert gate.most == 3

    async def test_writes_of_a_claim_keep_their_order(self, gate, desk):
        """The second write of a claim is not sent before the first is answered."""
        writing = desk()
        writing.writer.submit(annotate("first", name="c"))
        await gate.until("c")
        writing.writer.submit(annotate("second", current="first", version="6", name="c"))
        writing.writer.submit(allocate(name="d"))
        await gate.until("c", "d")
        assert writing.outcomes == []

        gate.release("c")
        await writing.results(1)
        await gate.until("c", "d")
        gate.release("c")
        await writing.results(2)

        assert [outcome.write.text for outcome in writing.outcomes] == ["first", "second"]
        gate.release("d")

    async def test_decisions_precede_annotations(self, gate, desk):
        """A decision that comes later is sent before annotations that wait."""
        writing = desk(concurrency=1)
        writing.writer.submit(annotate("text", name="busy"))
        await gate.until("busy")
        writing.writer.submit(annotate("text", name="late"))
        writing.writer.submit(allocate(name="decision"))

        gate.release("busy")
        await gate.until("decision")
        gate.release("decision")
        await gate.until("late")
        gate.release("late")

    async def test_newer_write_replaces_a_waiting_annotation(self, gate, desk):
        """An annotation that has not been sent when something newer comes is dropped."""
        writing = desk(concurrency=1)
        writing.writer.submit(allocate(name="busy"))
        await gate.until("busy")
        old, new = annotate("old"), annotate("new")
        writing.writer.submit(old)
        writing.writer.submit(new)
        decision = allocate()
        writing.writer.submit(decision)
        gate.release("busy")
        await gate.until("c")
        gate.release("c")

        outcomes = await writing.results(4)

        assert {type(outcome) for outcome in outcomes if outcome.write in (old, new)} == {Unsent}
        assert outcomes[-1].write == decision

    async def test_claim_in_trouble_gives_its_slot_back(self, script, session):
        """While one claim waits out an error of its own, others are written."""
        slept = asyncio.Event()
        outcomes = []

        def answer(request):
            if "/broken" in request.path:
                return status(500, "failed calling webhook")(request)
            return DONE(request)

        async def sleep(_):
            await slept.wait()

        script.default = answer
        writer = Writer(session, CLAIMS, outcomes.append, concurrency=1, sleep=sleep)
        writer.submit(allocate(name="broken"))
        writer.submit(allocate(name="good"))
        async with asyncio.timeout(5):
            while not outcomes:  # noqa: ASYNC110 - the writer calls back, it signals nothing
                await asyncio.sleep(0.001)

        assert [outcome.write.name for outcome in outcomes] == ["good"]
        await writer.drain(0)
        assert isinstance(outcomes[-1], Unknown)

    async def test_slots_are_not_lost_in_pauses(self, script, desk):
        """After many writes that paused, as many slots are free as in the beginning."""
        writing = desk(concurrency=2)
        script.default = status(500)
        for number in range(5):
            writing.writer.submit(allocate(name=f"c{number}"))
        async with asyncio.timeout(5):
            while len(writing.waits) < 30:  # noqa: ASYNC110 - a count, not a signal
                await asyncio.sleep(0.001)
        await writing.writer.drain(0)

        assert writing.writer._free == 2
        assert len(writing.outcomes) == 5

    async def test_busy_while_writes_wait(self, gate, desk):
        """The writer is busy while writes wait for a slot, and not when all is done."""
        writing = desk(concurrency=1)
        assert not writing.writer.busy
        writing.writer.submit(allocate(name="a"))
        writing.writer.submit(allocate(name="b"))
        await gate.until("a")
        assert writing.writer.busy
        assert (writing.writer.in_flight, writing.writer.queued) == (1, 1)

        gate.release("a")
        await gate.until("b")
        gate.release("b")
        await writing.results(2)

        assert not writing.writer.busy

    async def test_consumer_error_does_not_stop_the_writer(self, script, session):
        """A consumer of outcomes that raises does not stop the writes after it."""
        seen = []

        def take(outcome):
            seen.append(outcome)
            raise OSError("the consumer's own fault")

        script.default = DONE
        writer = Writer(session, CLAIMS, take, concurrency=1)
        writer.submit(allocate(name="a"))
        writer.submit(allocate(name="b"))
        async with asyncio.timeout(5):
            while len(seen) < 2:  # noqa: ASYNC110 - the writer calls back, it signals nothing
                await asyncio.sleep(0.001)

    async def test_drain_lets_writes_in_flight_finish(self, gate, desk):
        """On the way out, what is in flight finishes and what was not begun is not begun."""
        writing = desk(concurrency=1)
        writing.writer.submit(allocate(name="a"))
        writing.writer.submit(allocate(name="b"))
        await gate.until("a")
        draining = asyncio.create_task(writing.writer.drain(5))
        await asyncio.sleep(0)
        writing.writer.submit(allocate(name="c"))
        gate.release("a")

        assert await draining == 0

        assert {outcome.write.name: type(outcome) for outcome in await writing.results(3)} == {
            "a": Written,
            "b": Unsent,
            "c": Unsent,
        }

    async def test_drain_ends_in_time(self, gate, desk):
        """What does not finish in time is left, and its outcome is unknown."""
        writing = desk()
        writing.writer.submit(allocate(name="a"))
        await gate.until("a")

        assert await writing.writer.drain(0.02) == 1

        assert isinstance(writing.outcomes[0], Unknown)

    async def test_drain_of_an_idle_writer_is_immediate(self, desk):
        """There is nothing to wait for when nothing was submitted."""
        assert await desk().writer.drain(5) == 0
