"""Benchmarks: ratios within one run, answers checked, combine calls counted."""
