"""Explanations: why a claim waits, in one line. Nobody asks before the searches have said no.

- `explain`: the line, found by asking smaller questions (`reduced`) of the same searches
- `published`, `census`, `parts`, `tally`: the devices that count, in groups that look the same, and how many are left
  after each obstacle
- `obstacles`: those obstacles, in order; `tainted` and `holders` put two of them in words
- `absent`, `disagreement`, `hints`: names and values that no device has, whoever uses them
- `values_left`, `contention`: what requests leave each other; `overlap`: what each of them could take
- `idle`: what would fit if no device were in use and none tainted; `never` puts it in words, `left` beside what is left
- `aside`: attempts that an incomplete pool has ended
- `partly_failing`: selectors that fail on devices which the search of an allocated claim did not reach
- `phrases`: texts that need no look at devices
"""
