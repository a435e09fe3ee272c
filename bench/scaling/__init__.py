"""What `bench/scale.py` is made of: a large cluster, the server that holds it, the operator as a process."""
