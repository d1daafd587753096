"""The drawings of the documentation, made from what the library itself answers: `python -m drawings`."""
