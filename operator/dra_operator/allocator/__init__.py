"""The decision: a pure function of inventory, ledger and claims."""
