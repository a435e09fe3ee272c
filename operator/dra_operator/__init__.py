"""dra-operator: the control plane of Dynamic Resource Allocation, with a reason for every claim that waits.

The packages, from the bottom up: `api`, `cel`, `inventory`, `ledger`, `allocator`, `pods`, `questions`, `cluster`,
`controller`, `cli`; `sim` stands beside them. docs/architecture.md says what each is for and which way data flows.
The names below are the library, docs/library.md; each is imported when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dra_operator._version import __version__

if TYPE_CHECKING:
    from dra_operator.questions.allocate import AllocateAnswer, ClaimAnswer
    from dra_operator.questions.answers import Amount, DeviceAnswer
    from dra_operator.questions.attribute_use import AttributeUse, TypeCount
    from dra_operator.questions.cluster import Cluster
    from dra_operator.questions.errors import QuestionError, UnknownObjectError
    from dra_operator.questions.explain import (
        ChangeAnswer,
        ClaimReason,
        ExplainAnswer,
        FunnelStep,
        NearMiss,
        RequestFunnel,
    )
    from dra_operator.questions.fit import CopyAnswer, FitAnswer, NodeCopies
    from dra_operator.questions.headroom import HeadroomAnswer, LargestDevice, StrandedDevices
    from dra_operator.questions.lint import LintFinding, LintReport, SelectorReport, lint
    from dra_operator.questions.selector_checks import LintRule, Severity
    from dra_operator.questions.selectors import SelectorError, SelectorProgram, selector

__all__ = [
    "AllocateAnswer",
    "Amount",
    "AttributeUse",
    "ChangeAnswer",
    "ClaimAnswer",
    "ClaimReason",
    "Cluster",
    "CopyAnswer",
    "DeviceAnswer",
    "ExplainAnswer",
    "FitAnswer",
    "FunnelStep",
    "HeadroomAnswer",
    "LargestDevice",
    "LintFinding",
    "LintReport",
    "LintRule",
    "NearMiss",
    "NodeCopies",
    "QuestionError",
    "RequestFunnel",
    "SelectorError",
    "SelectorProgram",
    "SelectorReport",
    "Severity",
    "StrandedDevices",
    "TypeCount",
    "UnknownObjectError",
    "__version__",
    "lint",
    "selector",
]
_QUESTIONS = {
    "allocate": ("AllocateAnswer", "ClaimAnswer"),
    "answers": ("Amount", "DeviceAnswer"),
    "attribute_use": ("AttributeUse", "TypeCount"),
    "cluster": ("Cluster",),
    "errors": ("QuestionError", "UnknownObjectError"),
    "explain": ("ChangeAnswer", "ClaimReason", "ExplainAnswer", "FunnelStep", "NearMiss", "RequestFunnel"),
    "fit": ("CopyAnswer", "FitAnswer", "NodeCopies"),
    "headroom": ("HeadroomAnswer", "LargestDevice", "StrandedDevices"),
    "lint": ("LintFinding", "LintReport", "SelectorReport", "lint"),
    "selector_checks": ("LintRule", "Severity"),
    "selectors": ("SelectorError", "SelectorProgram", "selector"),
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
