"""What is used: exclusive devices, shares and counters, and our own decisions that are not yet written."""
