"""Selectors of owned devices: the names of their rules, and what they have in common."""

import re

import pytest

from dra_operator.kinds.selector import Selector

GPU = "gpu.example.com"


@pytest.mark.parametrize(
    ("selector", "begins"),
    [
        (Selector(GPU), "dra-operator-owned-gpu.example.com-"),
        (Selector(GPU, "node-1", "gpu-0"), "dra-operator-owned-gpu.example.com-node-1-gpu-0-"),
        (Selector(GPU, "rack/7"), "dra-operator-owned-gpu.example.com-rack-7-"),
        (Selector("GPU.example.com", "a" * 253), "dra-operator-owned-gpu.example.com-aaa"),
        (Selector(GPU, ("a" * 84) + "." + "b" * 100), "dra-operator-owned-gpu.example.com-aaa"),
    ],
)
def test_name_says_what_is_owned_and_is_a_name(selector, begins):
    """Whatever a pool is called; it ends in a hash."""
    name = selector.rule_name

    assert name.startswith(begins)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name)
    assert len(name) <= 130


def test_no_two_selectors_have_one_name():
    """Also where their parts read alike when they are put together."""
    alike = [Selector(GPU, "a-b"), Selector(GPU, "a", "b"), Selector(GPU, "a/b"), Selector(GPU, None, "a-b")]

    assert len({each.rule_name for each in alike}) == len(alike)


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        (Selector(GPU), Selector(GPU, "a"), True),
        (Selector(GPU, "a"), Selector(GPU), True),
        (Selector(GPU, "a"), Selector(GPU, None, "0"), True),
        (Selector(GPU, "a"), Selector(GPU, "b"), False),
        (Selector(GPU, "a", "0"), Selector(GPU, "a", "1"), False),
        (Selector(GPU), Selector("nic.example.com"), False),
    ],
)
def test_selectors_are_compared_by_what_they_select(one, other, overlaps):
    """There can be a device that both select, or none."""
    assert one.overlaps(other) is overlaps
