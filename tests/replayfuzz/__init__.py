"""Replays of random small histories, and a simulation that tries everything at every event. `python -m replayfuzz`.

- `world`: up to four nodes with cards, partitions and shares that come, go and change, and jobs, as rows of a record.
- `naive`: what happens if at each event a state is made anew and all that waits is decided in it, one after the other.
"""
