"""The commands about devices that are the operator's: `own`, `disown`, and owned, which is `listing`.

`devices` reads what is published and held, `rules` makes the rules that own devices, and `policy` looks after the
admission policy that keeps others off. What owning hits is said in the package of questions.
"""
