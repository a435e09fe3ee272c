"""Conclusions: yes, no, or that it cannot be said (three-valued logic), of each question that docs/kubectl.md lists."""

from enum import StrEnum


class Conclusion(StrEnum):
    """What an answer comes to: `kubectl dra` ends with 0, 1 and 2."""

    YES = "yes"
    NO = "no"
    CANNOT_SAY = "cannot say"


def conclude(*, is_yes: bool, may_be_no: bool, may_be_yes: bool) -> Conclusion:
    """Return what an answer comes to, given whether it may be a no instead of a yes, or a yes instead of a no."""
    if is_yes:
        return Conclusion.CANNOT_SAY if may_be_no else Conclusion.YES
    return Conclusion.CANNOT_SAY if may_be_yes else Conclusion.NO
