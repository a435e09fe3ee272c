"""The common parts of the programs that run the operator beside kube-scheduler.

`fleet` is the cluster and says which of its devices the operator owns, `ownership` makes rules and reads them, `reader`
judges each event of the watches that `observer` follows, `truth` says whether a claim waits rightly, `workload` creates
and deletes claims and pods, and `stage` starts all that decide about them.
"""
