"""Which devices of a view a key admits, and which of them somebody had to ask about."""

from typing import Any

from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Failed, Unsatisfied

UUID = 'device.attributes["gpu.example.com"].uuid'


def gpus(*uuids: str, **fields: Any) -> list[dict[str, Any]]:
    """Return GPUs that differ in a value."""
    return [{"name": f"gpu-{uuid}", "attributes": {"uuid": {"string": uuid}}, **fields} for uuid in uuids]


def test_an_attempt_that_ran_out_of_time_goes_on_where_it_ended(ticking: Any, ask: Any) -> None:
    """With an expression that takes long, on one pool of many slices no two of which are alike."""
    scene = ticking(Limits(steps=None, seconds=100))
    scene.nodes("n")
    for number in range(15):
        devices = [{**gpus(f"{number}-{at}")[0], "name": f"d{number}-{at}"} for at in range(10)]
        scene.slice(f"s{number:02d}", *devices, pool="wide", count=15)
    texts = ", ".join(f'"{number}"' for number in range(32))
    slow = f"[{texts}].all(x, [{texts}].all(y, {UUID} != x + y))"
    claim = scene.claim(ask("r", 1, f'{slow} && {UUID} == ""'))

    assert [type(scene.decide(claim)) for _ in range(2)] == [Failed, Unsatisfied]
