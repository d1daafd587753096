"""Slices: cut the stream once, share the pieces among all windows of all queries."""
