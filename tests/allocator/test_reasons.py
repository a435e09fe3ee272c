"""The closed list of reasons and its page."""

import re
from pathlib import Path

from dra_operator.allocator.reasons import Reason


def test_the_page_lists_exactly_the_reasons_there_are(repository: Path) -> None:
    """A new reason needs its row, and a row its reason, in the same order."""
    page = (repository / "docs" / "reasons.md").read_text()

    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [reason.value for reason in Reason]
