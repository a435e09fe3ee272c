"""Values: what an expression computes with.

`values` has the types that Python lacks, and what equality and order are; `golang` how Go writes and reads plain
values, and what `value.key` and `value[key]` give.
"""
