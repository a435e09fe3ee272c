"""An outage of the API server: the log tells of it once, and of its end."""

import time


def test_an_outage_and_its_end_are_few_lines_of_the_log(control_plane, operator):
    """Seven watches meet a cut connection, then nobody, then a server that permits nothing and knows no old version."""

    def is_over():
        """Whether an outage before this one has been told to its end."""
        told = [line["event"] for line in operator.lines() if "kinds" in line]
        return not told or told[-1] == "watching again"

    operator.wait_until(is_over)
    earlier, begun = len(operator.lines()), time.monotonic()
    with control_plane.outage():
        time.sleep(5)
    operator.wait_ready()

    def kinds(event):
        """The kinds that lines of an event name, sorted."""
        found = [line for line in operator.lines()[earlier:] if line["event"] == event]
        return sorted(kind for line in found for kind in line["kinds"].split(", "))

    # Few lines, one each as a rule: a look may fall into the moment in which connections are cut, or come back.
    operator.wait_until(lambda: len(kinds("watching again")) >= 7)
    told = [line for line in operator.lines()[earlier:] if "kinds" in line]
    assert len({*kinds("watching again")}) == 7
    assert kinds("watch interrupted") == kinds("watching again")
    assert len(told) <= 7
    end = told[-1]
    assert 4 <= end["seconds"] <= time.monotonic() - begun + 1
