"""What a scraper, or a person with curl, gets."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from cycle_bench import FITS

from cluster import claim
from dra_operator import __version__
from dra_operator.cluster.reflector import Counters
from dra_operator.controller.metrics import Metrics


def series_of(metrics, beginning):
    """Return the lines of the metrics whose names begin so."""
    return [line for line in metrics.text().decode().splitlines() if line.startswith(beginning)]


def test_every_metric_is_explained_once():
    """No explanation stands twice, and of what the library would add there is only what the process uses."""
    metrics = Metrics()
    metrics.allocations.inc()
    metrics.pass_seconds.observe(0.1)
    text = metrics.text().decode()

    explained = re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE)
    assert {name.partition("_")[0] for name, _ in explained} <= {"dra", "process"}
    assert len({explanation for _, explanation in explained}) == len(explained)
    assert "_created" not in text
    assert "dra_operator_allocations_total 1.0\n" in text


def test_every_metric_that_the_page_names_is_there(repository: Path):
    """Whoever writes an alert by the page gets one that can fire."""
    metrics = Metrics()
    metrics.register_reflectors(lambda: {"Node": SimpleNamespace(counters=Counters(), silence=0.0)})
    metrics.register_events(dict)
    told = set(re.findall(r"^# HELP (\S+)", metrics.text().decode(), re.MULTILINE))
    named = set(re.findall(r"dra_operator_\w+", (repository / "docs" / "operator.md").read_text()))

    assert named
    assert named <= told


def test_which_version_runs_is_told():
    """Of two replicas in the middle of an update, whoever is on call sees which is which."""
    (told,) = series_of(Metrics(), "dra_operator_build_info")

    assert f'version="{__version__}"' in told
    assert told.endswith("} 1.0")


@pytest.mark.parametrize(
    "series",
    [
        'decisions_total{result="failed"}',
        'errors_total{place="pass"}',
        'passes_total{outcome="error"}',
        'writes_total{kind="allocate",outcome="refused"}',
        'writes_total{kind="deallocate",outcome="conflict"}',
        'writes_total{kind="nominate",outcome="unknown"}',
    ],
)
def test_what_did_not_happen_yet_is_zero(series):
    """Of a series that begins with its first error Prometheus sees no increase, and an alert would miss that one."""
    assert series_of(Metrics(), f"dra_operator_{series}") == [f"dra_operator_{series} 0.0"]


def test_what_reflectors_count_is_told_by_kind():
    """As it is when somebody asks; how long a kind was not heard of, too, but not of one that never was."""
    metrics, found = Metrics(), {}
    metrics.register_reflectors(lambda: found)
    counted = Counters(lists=1, events=20, repaired=3, failures=2)
    found["Node"] = SimpleNamespace(counters=counted, silence=7.5)
    found["Pod"] = SimpleNamespace(counters=Counters(), silence=None)

    assert series_of(metrics, "dra_operator_reflector") == [
        'dra_operator_reflector_lists_total{kind="Node"} 1.0',
        'dra_operator_reflector_lists_total{kind="Pod"} 0.0',
        'dra_operator_reflector_events_total{kind="Node"} 20.0',
        'dra_operator_reflector_events_total{kind="Pod"} 0.0',
        'dra_operator_reflector_repaired_total{kind="Node"} 3.0',
        'dra_operator_reflector_repaired_total{kind="Pod"} 0.0',
        'dra_operator_reflector_failures_total{kind="Node"} 2.0',
        'dra_operator_reflector_failures_total{kind="Pod"} 0.0',
        'dra_operator_reflector_last_contact_seconds{kind="Node"} 7.5',
    ]


def test_a_pass_is_measured(bench, clock):
    """How long it took and each decision in it, what came of it, and what there is."""
    bench.allocator.takes = lambda: setattr(clock, "now", clock.now + 0.25)
    bench.allocator.answers = {"a": FITS}
    bench.run(bench.delta(claim("a")), bench.delta(claim("b")))
    registry = bench.metrics.registry

    def read(name, **labels):
        return registry.get_sample_value(f"dra_operator_{name}", labels)

    assert (read("pass_seconds_sum"), read("decision_seconds_sum")) == (0.5, 0.5)
    assert [read("decisions_total", result=name) for name in ("allocated", "unsatisfied")] == [1, 1]
    assert (read("writes_in_flight"), read("claims", standing="ours")) == (2, 2)
