"""Random claims that do not fit, and what would make them fit: each change that is named is applied and decided again.

`cluster` makes the cases in wire form; `brute_force` finds the smallest change of each kind by trying all single edits
of that form on allocators without a past, and shares no code with the package but the exhaustive search. `python -m
changefuzz` runs as many cases as one likes, `tests/pods/test_smallest_change.py` a few.
"""

from changefuzz.brute_force import find_differences
from changefuzz.cluster import Case, make_case

__all__ = ["Case", "find_differences", "make_case"]
