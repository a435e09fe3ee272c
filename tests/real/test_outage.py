"""An outage of the API server: the log tells of it once, and of its end."""

import time


def test_an_outage_is_one_line_in_the_log_and_its_end_another(control_plane, operator):
    """Seven watches meet a cut connection, then nobody, then a server that permits nothing and knows no old version."""

    def is_over():
        """Whether an outage before this one has been told to its end."""
        told = [line["event"] for line in operator.lines() if "kinds" in line]
        return not told or told[-1] == "watching again"

    operator.wait_until(is_over, seconds=30)
    earlier, begun = len(operator.lines()), time.monotonic()
    with control_plane.outage():
        time.sleep(5)
    operator.wait_ready()

    def lines():
        found = [line for line in operator.lines()[earlier:] if "kinds" in line]
        return found if found and found[-1]["event"] == "watching again" else []

    operator.wait_until(lines, seconds=30)
    *begins, end = lines()
    kinds = end["kinds"].split(", ")
    # Two, should the look fall into the moment in which the connections are cut.
    assert {line["event"] for line in begins} == {"watch interrupted"}
    assert sorted(kind for line in begins for kind in line["kinds"].split(", ")) == sorted(kinds)
    assert len(kinds) == 7
    assert 4 <= end["seconds"] <= time.monotonic() - begun + 1
