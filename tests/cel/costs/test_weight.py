"""Weight: how much is passed over at most, by sizes that are declared or written."""

import pytest

from dra_operator.cel import STORED, compile_program
from dra_operator.cel.costs.weight import HEAVY, weight
from dra_operator.cel.program import checked

DRA = "device.attributes['dra.example.com']"
DOUBLED = "".join(f"cel.bind(v{index + 1}, [v{index}, v{index}], " for index in range(14))
TWENTY = ", ".join(map(str, range(20)))

CHEAP = [
    f"{DRA}.model.replace('-', '') == 'h100'",
    "device.driver == 'a' && device.attributes['a'].b.matches('^a')",
    "['a', 'b'].exists(x, x == device.driver)",
    "[1, 2].filter(x, x + 1 > 2).size() == 1",
    "[[1]].flatten().size() == 1",
    "cel.bind(v, [1], v + v) == [1, 1]",
    f"{DRA}.vendor + '-' + {DRA}.model + '-' + device.driver == 'a-b-c'",
    f"'%s-%s'.format([{DRA}.model, device.driver]) == 'a-b'",
    "optional.none().orValue(lists.range(3)) == [0]",
    "isURL(device.driver) || ip.isCanonical(device.driver)",
    "quantity(device.driver).isInteger()",
    f"{DRA}.model.split('-').exists(x, x == 'a')",
    f"({DRA}.healthy ? {DRA}.model : device.driver).lowerAscii() == 'h100'",
    f"{{'a': {DRA}.model}}['a'] == 'h100'",
]
HEAVIES = [
    "lists.range(device.driver.size()).size() > 3",
    f"cel.bind(v0, [1], {DOUBLED}[{TWENTY}].all(x, [{TWENTY}].all(y, v14.flatten(20).size() > 0)){')' * 15}",
    "cel.bind(a, 'abcdefghij', " + "cel.bind(a, a + a, " * 17 + "a.size() > 0" + ")" * 18,
    f"[{TWENTY}].all(i, [{TWENTY}].all(j, quantity('1e99999').add(quantity('1n')).isInteger() || true))",
    "lists.range(1000000).size() > 0",
]


@pytest.mark.parametrize("text", CHEAP)
def test_what_works_on_small_values_is_light_whatever_it_calls(text):
    """The sizes say it, not the names of functions, and such an expression has code that counts nothing."""
    assert weight(checked(text, STORED)) < HEAVY
    assert compile_program(text).is_cheap


@pytest.mark.parametrize("text", HEAVIES, ids=range(len(HEAVIES)))
def test_what_may_work_on_large_values_is_heavy(text):
    """What doubles, what is as long as a number says, and amounts of many digits."""
    assert weight(checked(text, STORED)) > HEAVY
    assert not compile_program(text).is_cheap


def test_a_loop_weighs_as_much_as_its_rounds():
    """Ten rounds are ten times as much as one, but for what stands outside."""
    one, ten = (
        weight(checked(f"[{', '.join(['1'] * rounds)}].all(x, 'abcdefgh'.contains(device.driver))", STORED))
        for rounds in (1, 10)
    )

    assert 5 * one < ten < 10 * one
