"""What selectors can call: one module a group of functions, with a table of its rows: declaration, code, price.

Each function takes and returns run-time values (`cel.values`), raises CelError with upstream's text, and is
bounded (`limits`): what could grow or run without limit ends where Kubernetes' own cost limit would have ended it.
The groups: `conversions`, `formatting`, `lists`, `named_formats`, `network`, `optionals`, `quantities`, `regex`,
`semvers`, `sets`, `strings`, `times`, `urls`; `core` and `authorization` have no code here, and `older` has what old
versions have instead. What several of them need: `golang`, how Go writes and reads values.
"""
