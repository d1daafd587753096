"""Windows on a grid of time: which have ended, and which of them hold no record."""
