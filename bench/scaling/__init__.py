"""The parts of `bench/scale.py`: a large cluster, the server that holds it, the operator as a process."""
