"""The operator: the Kopf shell, the loop of passes, health, metrics and logs."""
