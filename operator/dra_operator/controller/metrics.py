"""Metrics for Prometheus, in a registry of their own, which keeps two operators in one process apart, as in tests.

Of what the Python client adds by itself only the process metrics are kept: dashboards of other operators ask for
memory, processor time and start under the same names. Names follow Prometheus' rules: base units, counters `_total`.
"""

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dra_operator._version import __version__
from dra_operator.allocator.decision import Decision
from dra_operator.cluster.events import OUTCOMES
from dra_operator.cluster.faults import Defect, DefectLogger
from dra_operator.cluster.reflector import Reflector
from dra_operator.cluster.writes import WriteKind, WriteOutcome
from dra_operator.ledger import Cause

# Else each counter and histogram comes with a second one, its time of birth, under the same explanation.
disable_created_metrics()  # type: ignore[no-untyped-call]

_REFLECTORS = (
    ("lists", "Lists of all objects; one each is normal. It grows every hour: watches break."),
    ("events", "Changes that watches delivered."),
    (
        "repaired",
        "Changes that a watch missed and a list found. It grows: something in between loses events.",
    ),
    ("failures", "Lists and watches that failed. It grows: something cuts them off."),
)
"""The counters of a reflector, and what each counts."""
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LONG_SECONDS = (120, 300, 600, 1800, 3600, 10_800, 43_200, 86_400, 604_800)


class Metrics:
    """The metrics of one operator; an attribute is a metric's name without the prefix `dra_operator_`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.claims = self._gauge(
            "claims",
            "Claims now: `ours`, `gated` (decided with the gated pods that name it), or left alone as `opted-out`, "
            "`owned` (made for a pod), `reserved`, `pod` (a pod uses it) or `standalone` (no pod names it, and "
            "`claims` is `gated`).",
            "standing",
        )
        self.pending_claims = self._gauge(
            "pending_claims",
            "Claims of the operator that wait now: a reason of docs/reasons.md, or `AllocationRefused`, `Forbidden`, "
            "`InternalError`.",
            "reason",
        )
        self.waiting_pods = self._gauge(
            "waiting_pods",
            "Pods that wait for claims, whoever allocates these; with `explain` at `all`.",
            "reason",
        )
        self.pending_since_timestamp_seconds = self._gauge(
            "pending_since_timestamp_seconds",
            "Unix time at which the claim that has waited longest began to wait, as far as this operator saw it.",
            "reason",
        )
        self.allocations = self._counter(
            "allocations", "Allocations written. Stands still while claims wait?"
        )
        self.deallocations = self._counter("deallocations", "Deleted claims whose allocation was cleared.")
        self.allocation_seconds = self._histogram(
            "allocation_seconds",
            "From when a claim was seen until its allocation was written, with the waiting for devices.",
        )
        self._declare_passes()
        self._declare_requests()
        self._declare_states()
        self._begin_at_zero()
        self.defect_logger = DefectLogger(lambda defect: self.errors.labels(defect.place).inc())
        """Where each part of the operator reports its defects."""

    def _declare_passes(self) -> None:
        self.decisions = self._counter(
            "decisions",
            "Decisions: `allocated`, `unsatisfied` (not now), `failed` (wrong, or the search was given up). A "
            "waiting claim is decided again and again.",
            "result",
        )
        self.decision_seconds = self._histogram(
            "decision_seconds",
            "Time of a decision about a claim, pod or gang. Near `claim_deadline_seconds`: claims end as "
            "SearchAborted.",
        )
        self.passes = self._counter(
            "passes", "Passes, each over the claims that a change may help: `done` or `error`.", "outcome"
        )
        self.pass_seconds = self._histogram(
            "pass_seconds", "Duration of a pass; nothing else is decided meanwhile."
        )
        self.queue_depth = self._gauge(
            "queue_depth",
            "Changes that wait for the next pass. It grows for minutes: the passes take too long.",
        )

    def _declare_requests(self) -> None:
        self.writes = self._counter(
            "writes",
            "Writes, of one or two requests. To claims: `allocate`, `deallocate`, `withdraw` (the claim lives on), "
            "`reserve` (a shared claim, for a gated pod), `annotate`, `fence` (after a crash); to pods `nominate`, "
            "`gate`; to rules `mark`. Normal: `written`, `conflict` (changed or gone), and `unknown` at the end. Not "
            "normal: `refused`, by admission, for want of a right, or after several attempts.",
            "kind",
            "outcome",
        )
        self.writes_in_flight = self._gauge(
            "writes_in_flight",
            "Claims with a write under way. It stays up while claims are allocated late: the API server is the "
            "bottleneck.",
        )
        self.requests = self._counter(
            "requests",
            "Requests to the API server. `429`, `5xx` or `none` (no answer) grow: claims are allocated late; `403`: a "
            "right is missing. A single `401`, and `404` of kinds that are not served, are normal.",
            "verb",
            "resource",
            "status",
        )
        self.request_seconds = self._histogram(
            "request_seconds",
            "Time until the answer began, or the operator gave up; a claim takes two patches, 12 of them at once.",
            "verb",
        )

    def _declare_states(self) -> None:
        self.object_errors = self._counter(
            "object_errors",
            "Objects that could not be understood. It grows: a driver writes such objects again and again.",
            "kind",
        )
        self.problems = self._gauge(
            "problems", "Classes, slices, rules and nodes that have a problem now: see their Events."
        )
        self.collisions = self._gauge("device_collisions", "Devices that two claims hold now; should be 0.")
        self.broken_allocations = self._gauge(
            "broken_allocations",
            "Claims, whoever allocated them, whose allocation is broken now: `device-missing`, `node-gone`, `tainted`; "
            "should be 0.",
            "cause",
        )
        self.reallocations = self._counter(
            "reallocations",
            "Copies of DeviceReservations that get other devices, as their own are broken or `in-maintenance`.",
            "cause",
        )
        self.foreign_allocations = self._counter(
            "foreign_allocations",
            "Allocations of owned devices by somebody else. It grows: the policy is missing or exempts others.",
        )
        self.overcommitments = self._gauge(
            "overcommitments",
            "Counters, and capacities of shared devices, of which more is in use than published.",
        )
        self.errors = self._counter(
            "errors", "Defects of the operator, by place (docs/operator.md); should not grow.", "place"
        )
        self.objects = self._gauge(
            "objects",
            "What the operator knows now: `pools`, `incomplete_pools` (stays up: a driver stopped halfway), "
            "`invalid_pools`, `devices`, `slices`, `classes`, `nodes`, `usable_nodes`, `taint_rules`.",
            "what",
        )
        self.ready = self._gauge("ready", "1 if `/readyz` answers 200, else 0.")
        self.leading = self._gauge("leading", "1 for the operator that decides; exactly one should have it.")
        build = self._gauge("build_info", "Always 1; the labels say what runs.", "version", "python")
        build.labels(__version__, platform.python_version()).set(1)
        self.loop_lag_seconds = self._gauge(
            "loop_lag_seconds",
            "How late the last timer ran. Above a second: the process gets too little CPU time.",
        )
        self._declare_kinds()
        self._declare_gated_pods()

    def _declare_kinds(self) -> None:
        self.maintenance_safe_seconds = self._histogram(
            "maintenance_safe_seconds",
            "From the taint of a card in maintenance until it was safe to work on.",
            buckets=_LONG_SECONDS,
        )
        self.reservations = self._gauge(
            "reservations",
            "DeviceReservations: `Pending` (stays up: see their condition Ready), `Ready`, `Expiring`, `Expired`.",
            "phase",
        )
        self.maintenance_broken = self._counter(
            "maintenance_broken",
            "Cards in maintenance that were safe to work on, and came to be held by a claim. It grows: stop that work; "
            "the Event names the claim.",
        )

    def _declare_gated_pods(self) -> None:
        self.gated_pods = self._gauge(
            "gated_pods",
            "Gated pods without a node: `waiting`, `storing` (stays up: writes do not get through), `let go` (stays "
            "up: kube-scheduler does not place them), `handed back`.",
            "state",
        )
        self.gated_since_timestamp_seconds = self._gauge(
            "gated_since_timestamp_seconds",
            "Unix time at which the pod was created that the operator's gate has held longest; 0 if it holds none.",
        )
        self.let_go_since_timestamp_seconds = self._gauge(
            "let_go_since_timestamp_seconds",
            "Unix time at which the pod was let go that has been without a node longest; 0 if there is none.",
        )
        self.handed_back = self._counter(
            "handed_back_pods",
            "Pods that were let go, and that kube-scheduler could not place, counted again after a restart. It grows: "
            "ordinary pods take what gated ones were let go for.",
        )

    def _begin_at_zero(self) -> None:
        """Expose what has not happened yet as zero: a series that begins with its first error has no increase."""
        for defect in Defect:
            self.errors.labels(defect.place)
        for decision in get_args(Decision):
            self.decisions.labels(decision.__name__.lower())
        for cause in Cause:
            self.broken_allocations.labels(cause.value)
            self.reallocations.labels(cause.value)
        for outcome in ("done", "error"):
            self.passes.labels(outcome)
        for kind, outcome in product(get_args(WriteKind), get_args(WriteOutcome)):
            self.writes.labels(kind, outcome.result)

    def count_request(self, verb: str, resource: str, status: str, seconds: float) -> None:
        """Count a request to the API server."""
        self.requests.labels(verb, resource, status).inc()
        self.request_seconds.labels(verb).observe(seconds)

    def register_reflectors(self, reflectors: Callable[[], Mapping[str, Reflector]]) -> None:
        """Add the metrics of reflectors, by kind; `reflectors` is asked at each scrape."""
        self.registry.register(_OnDemand(lambda: _reflector_families(reflectors())))

    def register_events(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """Add what became of Events, by outcome; `counts` is asked at each scrape."""
        self.registry.register(_OnDemand(lambda: _event_families(counts())))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, namespace="dra_operator", registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, namespace="dra_operator", registry=self.registry)

    def _histogram(
        self, name: str, text: str, *labels: str, buckets: Sequence[float] = _SECONDS
    ) -> Histogram:
        return Histogram(
            name, text, labels, namespace="dra_operator", registry=self.registry, buckets=buckets
        )


class _OnDemand(Collector):
    """Metrics that are read when Prometheus asks, so that they are right while nobody answers us."""

    def __init__(self, read: Callable[[], Iterator[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield what is there now."""
        return self._read()


def _reflector_families(reflectors: Mapping[str, Reflector]) -> Iterator[Metric]:
    """Yield a metric for each counter of reflectors, and one for how long nothing was heard."""
    for name, text in _REFLECTORS:
        family = CounterMetricFamily(f"dra_operator_reflector_{name}", text, labels=["kind"])
        for kind, reflector in reflectors.items():
            family.add_metric([kind], getattr(reflector.counters, name))
        yield family
    silence = GaugeMetricFamily(
        "dra_operator_reflector_last_contact_seconds",
        "Time since anything was heard of this kind; up to 75 s is normal, not two minutes.",
        labels=["kind"],
    )
    for kind, reflector in reflectors.items():
        if (seconds := reflector.silence) is not None:
            silence.add_metric([kind], seconds)
    yield silence


def _event_families(counts: Mapping[str, int]) -> Iterator[Metric]:
    """Yield what became of Events. Outcomes that did not happen yet are zero, so that a rate can be told of them."""
    family = CounterMetricFamily(
        "dra_operator_events",
        "Events: `created`, `refreshed`, `dropped` (too many at once), `refused`. Annotations say the same.",
        labels=["outcome"],
    )
    for outcome in OUTCOMES:
        family.add_metric([outcome], counts.get(outcome, 0))
    yield family
