"""The way in: a batch of any kind is read as columns of numbers, keys are numbered, times are judged.

What leaves this folder is a `Batch`: times, numbers of keys, and the values that each field reads.
"""

from muntin.engine.ingest.inputs import as_arrow
from muntin.engine.ingest.keys import KeyTable
from muntin.engine.ingest.reader import clock_of, read_times
from muntin.engine.ingest.reading import Batch, read_batch

__all__ = ["Batch", "KeyTable", "as_arrow", "clock_of", "read_batch", "read_times"]
