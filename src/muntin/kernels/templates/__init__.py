"""Algorithms over whole columns, as source that the generator fills in; never imported."""
