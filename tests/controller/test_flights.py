"""Which claims have a write on its way."""

import pytest

from dra_operator.cluster.writes import AllocateWrite, AnnotateWrite
from dra_operator.controller.flights import Flights

KEY = ("team-a", "gpu")


@pytest.fixture
def annotate():
    """A write of our annotation."""
    return AnnotateWrite(*KEY, "uid", "1", "dra-operator.io/pending", None, "waits")


@pytest.fixture
def allocate():
    """A write of an allocation."""
    return AllocateWrite(*KEY, "uid", "1", (), drop_annotation=False, allocation={})


def test_one_write_a_claim_is_on_its_way(annotate, allocate):
    """A second would fail, since the first changes the version it was decided on."""
    flights = Flights()

    assert flights.start(annotate)
    assert not flights.start(allocate)
    assert flights.allocating(KEY)


def test_an_allocation_is_held_until_the_answer(annotate, allocate):
    """The answer to the first write brings the second one back."""
    flights = Flights()
    flights.start(annotate)
    flights.start(allocate)

    assert flights.finish(annotate) == (True, allocate)
    assert KEY not in flights


def test_an_annotation_is_not_held(annotate, allocate):
    """By the time the allocation is written, an annotation would be out of date."""
    flights = Flights()
    flights.start(allocate)
    flights.start(annotate)

    assert flights.finish(allocate) == (True, None)


def test_a_second_answer_to_one_write_does_not_end_the_next_one(annotate, allocate):
    """What was sent since then is still on its way."""
    flights = Flights()
    flights.start(annotate)
    flights.finish(annotate)
    flights.start(allocate)

    assert flights.finish(annotate) == (False, None)
    assert flights.allocating(KEY)


def test_an_answer_that_nobody_waits_for_is_known(annotate):
    """The answer to a write that was never started means nothing."""
    assert Flights().finish(annotate) == (False, None)
