"""The numbers this package has to reach, each measured beside its peer in the same run.

`python -m benchmarks` (or `make bench`) runs all of them; README.md says what each one means.
"""
