"""Thresholds: from where on one way of doing a thing is cheaper than another. No result depends on them."""

from __future__ import annotations

# ---- batches ----

PART = (
    1 << 20
)  # records of a batch at once, scattered over cells: what they need stays in memory that is at hand
SMALL_PART = 1 << 16  # records: smaller batches are taken in whole; parts where each record is a cell
PART_QUERIES = 64  # with more queries, the rows of parts cost more than the parts save
BLOCK = 1 << 15  # records whose panes are still at hand when fields are folded
SORTED_KEYS = 256  # keys for each record of a batch: with more, it is faster to sort the records
SCATTERED_KEYS = 4  # with more keys, the next record is most often of another one

# ---- edges and windows on grids ----

FEW_GRIDS = 16  # up to so many, Python's numbers find an edge faster than arrays
EVEN = 64  # edges in one stretch of a look-up table, at most: else batches are cut by sorting
HANDFUL = 32  # windows that lists find faster than arrays
WINDOWS_AT_HAND = 1 << 12  # windows of a span that are put in order together

# ---- rows ----

MANY_ROWS = 4096  # for fewer, NumPy sorts as fast, and nothing has to be compiled
STREAKS = 8  # of rows in order: so many are merged
PAGE = 128  # rows that are written one by one into a table which is handed out in slices

# ---- folds ----

STACK_QUERIES = 16  # up to so many queries, stacks for each take fewer combines than pairs of pairs for all
SHORT_WINDOW = 3  # slices: where windows have no more, what is shared costs more than it saves

# ---- partials ----

FEW_SKETCHED = 32  # values that a sketch keeps as they are: rolling windows have a slice for each record
LONG_SEGMENT = 48  # values: NumPy sorts longer segments faster
WORTH_COMPACTING = 1 << 16  # entries of a pool that nobody needs, of numbers
WORTH_COMPACTING_OBJECTS = 1 << 8  # of objects, which may be large

# ---- slices that may be split ----

FIRST_SIZE, LARGEST_SIZE = 32, 1 << 16  # records; in between, what splits and merges have cost decides

# ---- retention and state ----

LOOK_AFTER = 64  # records, after which it is seen whether there is something to evict
FRESH_GROUPS = 16  # of cells with fresh records, before all cells are looked through
LIKE_CHUNKS = 4  # of records that are kept, of like size, before they become one
GRID_PARTS = 16  # of a grid's state, within the length of its longest window
