"""The rehearsal: what it proves of an installation, and what it walks through."""

import pytest

from dra_operator.allocator.matching import selectors
from dra_operator.allocator.search import chain
from dra_operator.allocator.search.chain import HardestFirst
from dra_operator.allocator.search.exhaustive import ExhaustiveSearch
from dra_operator.allocator.self_check import ANSWERS, SCENARIO, SelfCheckError, run_self_check
from dra_operator.cel.errors import CelError
from dra_operator.inventory import Inventory


@pytest.fixture
def instead(monkeypatch):
    """Return what puts a function in the place of a method; it is given the method and its arguments."""

    def put(owner, name, function):
        original = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments: function(original, *arguments))

    return put


def test_it_passes():
    """The allocator decides the known claims as it is known to be right."""
    run_self_check()


def test_another_answer_is_told_with_the_known_one():
    """Claim, search, both answers and what to do."""
    with pytest.raises(SelfCheckError) as found:
        run_self_check({**ANSWERS, "pair": "amber: card-0, card-1"})

    assert str(found.value).startswith(
        'claim "pair" of the self-check, plain search: expected "amber: card-0, card-1", '
        'found "amber: card-2, card-3"; '
    )
    assert "install dra-operator anew" in str(found.value)


@pytest.mark.parametrize(
    ("owner", "method", "wrong", "search"),
    [
        pytest.param(ExhaustiveSearch, "run", False, "plain", id="plain"),
        pytest.param(chain, "count", None, "counting", id="counting"),
        pytest.param(HardestFirst, "solve", None, "counting", id="hardest"),
    ],
)
def test_a_broken_search_does_not_pass(instead, owner, method, wrong, search):
    """Whichever it is, it is found out by the claims that come to it, and the kind of search is named."""
    instead(owner, method, lambda *_: wrong)

    with pytest.raises(SelfCheckError, match=rf'{search} search: expected ".+", found "nothing"'):
        run_self_check()


def test_an_expression_that_does_not_compile_is_told(monkeypatch):
    """The answer is an error, and its text follows."""

    def refuse(expression, environment):
        raise CelError("compile", f"no grammar in {environment.expressions} for {expression}")

    monkeypatch.setattr(selectors, "compile_selector", refuse)

    with pytest.raises(SelfCheckError, match=r'claim "any" .+ found "fatal" \(.*no grammar in stored'):
        run_self_check()


def test_an_exception_is_told_with_its_cause(instead):
    """A library that does not do what it should ends the rehearsal like a wrong answer."""

    def break_down(*_):
        raise TypeError("unexpected keyword argument")

    instead(Inventory, "put", break_down)

    with pytest.raises(SelfCheckError, match="ended with TypeError: unexpected keyword argument") as found:
        run_self_check()

    assert isinstance(found.value.__cause__, TypeError)


def test_each_claim_has_an_answer():
    """None is decided and not looked at."""
    assert [claim["metadata"]["name"] for claim in SCENARIO["claims"]] == list(ANSWERS)
