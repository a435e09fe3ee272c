"""Left: how many devices are left for a request, and how many it could have at the most.

Each may be left for itself, and not together; and too few may be left, or too few be there, whoever uses them.
"""

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.explanation.never import Most, Never
from dra_operator.allocator.explanation.phrases import rivals, tell_left_of_all
from dra_operator.allocator.explanation.reduced import Fit, most_that_fit
from dra_operator.allocator.explanation.tally import Tally
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.reasons import Reason


def tell_left(
    plan: ClaimPlan, tally: Tally, last: Reason | None, *, fit: Fit, never: Never, budget: Budget
) -> tuple[Reason, str]:
    """Return why what is left for a plan of one alternative is too little, and what it is.

    `last` is the last obstacle, if there is one.
    """
    count = plan.requests[0].alternatives[0].count
    vain = never.most(plan, tally, budget)
    if count is None:
        return tell_left_of_all(tally, last, vain.when if vain else "")
    if not tally.left and last is not None and vain is None:
        return last, ""
    text, behind = _tell_most(plan, tally, count, fit, vain)
    return Reason.NOT_ENOUGH_DEVICES, f"{text}, {count} requested{behind}"


def _tell_most(plan: ClaimPlan, tally: Tally, count: int, fit: Fit, vain: Most | None) -> tuple[str, str]:
    """Return how many are left and could be had at the most, and what is said behind the number requested."""
    if not tally.left:
        return "", vain.clauses(tally, 0)[1] if vain else ""
    now, node, together = tally.most_on_a_node, tally.node, ""
    if tally.rivals or now >= count:
        # Those that are left on a node need not be left together.
        most, node = most_that_fit(plan, fit)
        if most is not None and most < now:
            now, node = most, ""
            together = f", but only {most} of them together{f' {rivals(tally)}' if tally.rivals else ''}"
    even, behind = vain.clauses(tally, now) if vain else ("", "")
    where = f" ({node})" if node else ""
    return f", {tally.left} left, at most {tally.most_on_a_node} on one node{where}{together}{even}", behind
