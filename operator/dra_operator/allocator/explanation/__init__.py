"""Explanations: why a claim waits, in one line. Nobody asks before the searches have said no.

- `explain`: the line, found by asking smaller questions (`relaxation`) of the same searches
- `pool_records`, `device_counts`: the devices that count, and how many are left after each obstacle; `obstacles` are
  those, in order
- `suggestions`: names, values and tolerations that were probably meant
- `contention`: what requests leave each other
- `idle_cluster`: what would fit if no device were in use and none tainted
- `incomplete_pools`: attempts that an incomplete pool has ended
- `failing_selectors`: selectors that fail on devices which the search of an allocated claim did not reach
- `text`: parts that need no look at devices; `answer_cache`: what is kept, and for how long
"""
