"""Which claims have a write on its way."""

import pytest

from dra_operator.cluster.writes import AllocateWrite, AnnotateWrite
from dra_operator.controller.queue import InFlightWrites

KEY = ("team-a", "gpu")


@pytest.fixture
def annotate():
    """A write of our annotation."""
    return AnnotateWrite(*KEY, "uid", "1", "dra-operator.io/pending", None, "waits")


@pytest.fixture
def allocate():
    """A write of an allocation."""
    return AllocateWrite(*KEY, "uid", "1", (), drop_annotation=False, allocation={})


@pytest.fixture
def sent():
    """The writes that went out."""
    return []


@pytest.fixture
def in_flight(sent):
    """No write in flight."""
    return InFlightWrites(sent.append)


def test_a_claim_has_one_write_in_flight(in_flight, sent, annotate, allocate):
    """A second would fail, since the first changes the version it was decided on."""
    in_flight.submit(annotate)
    in_flight.submit(allocate)

    assert sent == [annotate]
    assert in_flight.is_allocating(KEY)


def test_an_allocation_is_queued_until_the_answer(in_flight, annotate, allocate):
    """The answer to the first write brings the second one back."""
    in_flight.submit(annotate)
    in_flight.submit(allocate)

    assert in_flight.finish(annotate) == (True, allocate)
    assert KEY not in in_flight


def test_an_annotation_is_not_queued(in_flight, annotate, allocate):
    """By the time the allocation is written, an annotation would be out of date."""
    in_flight.submit(allocate)
    in_flight.submit(annotate)

    assert in_flight.finish(allocate) == (True, None)


def test_a_second_answer_to_one_write_does_not_end_the_next_one(in_flight, annotate, allocate):
    """What was sent since then is still in flight."""
    in_flight.submit(annotate)
    in_flight.finish(annotate)
    in_flight.submit(allocate)

    assert in_flight.finish(annotate) == (False, None)
    assert in_flight.is_allocating(KEY)


def test_an_answer_that_nobody_waits_for_is_known(in_flight, annotate):
    """The answer to a write that was never sent means nothing."""
    assert in_flight.finish(annotate) == (False, None)
