"""The other techniques of the papers behind one interface, for comparison with WindowOperator.

| class | stream | windows | combines per record | stored |
|---|---|---|---|---|
| Naive | any | any | one per window that holds it | the records of each query |
| TupleBuffer | any | any | one per window that holds it | the records, once |
| AggregateTree | any | any | log2 of the records held | records, and a tree over them |
| AggregateBuckets | any | any; out of order no counts | one per window that holds it | a partial per window |
| TupleBuckets | any | any; out of order no counts | one per window that holds it | records, per window |
| Panes | in order | one periodic query | one, and one per pane and window | a partial per pane |
| Pairs | in order | periodic | one, and one per slice and window | a partial per slice |
| PairsPlus | in order | periodic | one, and log2 of the slices per slice and window | a tree over slices |
| ReactiveAggregator | in order | any | log2 of the records held | records, and a tree over them |
| Cutty | in order | any | as Pairs or PairsPlus, with half the slices | a partial per begin of a window |
| Slicing | any | those of the operator | as WindowOperator | slices; records where queries need them |
"""

from muntin.techniques.base import Counts, Technique
from muntin.techniques.buckets import AggregateBuckets, TupleBuckets
from muntin.techniques.general import Slicing
from muntin.techniques.records import AggregateTree, Naive, ReactiveAggregator, TupleBuffer
from muntin.techniques.sliced import Cutty, Pairs, PairsPlus, Panes
from muntin.techniques.stream import Marked, Row, Stream, UnsupportedWorkload

__all__ = [
    "AggregateBuckets",
    "AggregateTree",
    "Counts",
    "Cutty",
    "Marked",
    "Naive",
    "Pairs",
    "PairsPlus",
    "Panes",
    "ReactiveAggregator",
    "Row",
    "Slicing",
    "Stream",
    "Technique",
    "TupleBuckets",
    "TupleBuffer",
    "UnsupportedWorkload",
]
