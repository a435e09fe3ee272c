"""The benchmark against kube-scheduler, small and without it."""

import asyncio
import sys
from argparse import Namespace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import end_to_end


def test_every_claim_gets_a_device_of_its_own(access, namespace, capsys):
    """The bare client and the operator allocate twenty claims both ways, and nobody gets what another has."""
    arguments = Namespace(
        deciders=["bare", "operator"], claims=20, nodes=3, devices=8, rounds=1, against=None
    )

    assert asyncio.run(end_to_end.run(arguments, access))

    assert capsys.readouterr().out.count("0 not allocated, 0 devices given twice") == 4
