"""dra-operator: the control plane of Dynamic Resource Allocation, with a reason for every claim that waits.

The packages, from the bottom up: `api`, `cel`, `inventory`, `ledger`, `allocator`, `explain`, `pods`, `questions`,
`cluster`, `controller`, `cli`; `testing` stands beside them. docs/architecture.md says what each is for and which way
data flows. The names below are the library, docs/library.md; each is imported when it is used.
The names below are the library, docs/library.md; each is imported when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dra_operator._version import __version__

if TYPE_CHECKING:
    from dra_operator.questions.allocate import AllocateAnswer, ClaimAnswer
    from dra_operator.questions.answers import (
        Amount,
        ChangeAnswer,
        Conclusion,
        DeviceAnswer,
        LargestDevice,
        QuestionError,
        Sort,
        UnknownObjectError,
    )
    from dra_operator.questions.audit import AuditReport, Finding, UncheckedSort
    from dra_operator.questions.claims import Consumer, Use
    from dra_operator.questions.cluster import Cluster
    from dra_operator.questions.device_table import HolderQuery
    from dra_operator.questions.explain import (
        ClaimReason,
        ExplainAnswer,
        FunnelStep,
        NearMiss,
        RequestFunnel,
    )
    from dra_operator.questions.fit import CopyAnswer, FitAnswer, NodeCopies
    from dra_operator.questions.headroom import HeadroomAnswer, StrandedDevices
    from dra_operator.questions.impact import ClaimImpact, Effect, ImpactReport, PodImpact, RequestImpact
    from dra_operator.questions.lint import (
        ExpressionReport,
        LintFinding,
        LintReport,
        LintRule,
        Severity,
        lint,
    )
    from dra_operator.questions.selectors import SelectorError, SelectorProgram, selector
    from dra_operator.questions.usage import Grouping, HeldDevice, Holder, HolderReport, UsageReport, UsageRow

__all__ = [
    "AllocateAnswer",
    "Amount",
    "AuditReport",
    "ChangeAnswer",
    "ClaimAnswer",
    "ClaimImpact",
    "ClaimReason",
    "Cluster",
    "Conclusion",
    "Consumer",
    "CopyAnswer",
    "DeviceAnswer",
    "Effect",
    "ExplainAnswer",
    "ExpressionReport",
    "Finding",
    "FitAnswer",
    "FunnelStep",
    "Grouping",
    "HeadroomAnswer",
    "HeldDevice",
    "Holder",
    "HolderQuery",
    "HolderReport",
    "ImpactReport",
    "LargestDevice",
    "LintFinding",
    "LintReport",
    "LintRule",
    "NearMiss",
    "NodeCopies",
    "PodImpact",
    "QuestionError",
    "RequestFunnel",
    "RequestImpact",
    "SelectorError",
    "SelectorProgram",
    "Severity",
    "Sort",
    "StrandedDevices",
    "UncheckedSort",
    "UnknownObjectError",
    "UsageReport",
    "UsageRow",
    "Use",
    "__version__",
    "lint",
    "selector",
]
_QUESTIONS = {
    "allocate": ("AllocateAnswer", "ClaimAnswer"),
    "answers": (
        "Amount",
        "ChangeAnswer",
        "Conclusion",
        "DeviceAnswer",
        "LargestDevice",
        "QuestionError",
        "Sort",
        "UnknownObjectError",
    ),
    "audit": ("AuditReport", "Finding", "UncheckedSort"),
    "claims": ("Consumer", "Use"),
    "cluster": ("Cluster",),
    "device_table": ("HolderQuery",),
    "explain": ("ClaimReason", "ExplainAnswer", "FunnelStep", "NearMiss", "RequestFunnel"),
    "fit": ("CopyAnswer", "FitAnswer", "NodeCopies"),
    "headroom": ("HeadroomAnswer", "StrandedDevices"),
    "impact": ("ClaimImpact", "Effect", "ImpactReport", "PodImpact", "RequestImpact"),
    "lint": ("ExpressionReport", "LintFinding", "LintReport", "LintRule", "Severity", "lint"),
    "selectors": ("SelectorError", "SelectorProgram", "selector"),
    "usage": ("Grouping", "HeldDevice", "Holder", "HolderReport", "UsageReport", "UsageRow"),
}
_MODULES = {
    name: f"dra_operator.questions.{module}" for module, names in _QUESTIONS.items() for name in names
}


def __getattr__(name: str) -> Any:
    """Return a name of the library (PEP 562): commands that need none of it start without it."""
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
