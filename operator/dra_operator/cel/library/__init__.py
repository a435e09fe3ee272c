"""What selectors can call: one module a group of functions, with a table of its rows: declaration, code, price.

Each function takes and returns run-time values (`cel.values`), raises CelError with upstream's text, and is
bounded: what could grow or run without limit ends where Kubernetes' own cost limit would have ended it.
The groups: `core`, the operators; `conversions`, `formatting`, `lists`, `named_formats`, `network`, `optionals`,
`quantities`, `regex`, `strings`, `times`, `urls`. Some have a table of what old versions have instead.
"""
