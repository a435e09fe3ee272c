"""What a scraper, or a person with curl, gets."""

import re

from dra_operator.controller.metrics import Metrics


def test_every_metric_is_explained_once():
    """No explanation stands twice, and no metric is only there because of the library."""
    metrics = Metrics()
    metrics.allocations.inc()
    metrics.pass_seconds.observe(0.1)
    text = metrics.text().decode()

    explained = re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE)
    assert {name.partition("_")[0] for name, _ in explained} == {"dra"}
    assert len({explanation for _, explanation in explained}) == len(explained)
    assert "_created" not in text
    assert "dra_operator_allocations_total 1.0\n" in text
