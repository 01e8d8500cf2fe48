"""What surrounds a run: canned policies, reading of traces, the demonstration."""
