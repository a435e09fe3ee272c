"""Gangs in random worlds, decided by the library and by brute force. `python -m gangfuzz` runs it.

- `world`: up to four nodes and six devices, partitions and shares among them, and a gang of up to four pods.
- `brute_force`: all ways to place the first pods, and whether a way that is given is one.
"""
