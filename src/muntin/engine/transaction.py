"""Transactions: a call changes all of an operator's state or none of it, without a copy of the state.

Whatever breaks a call off (a user's function, an overflow, Ctrl-C, a lack of memory), the state is rolled
back to what it was before. For that, state changes in two ways only:

- Attributes are set to new values. Values that others may hold (dicts, lists, arrays) are not changed in
  place. A call begins by saving the attributes that change often, which costs the same whatever the size of
  the state. An object that is about to set others calls `save` before.
- Arrays and dicts that grow with the state are written in place, after `overwrite` or `overwrite_item` has
  saved what is about to be overwritten.

A rollback puts all of that back, latest first. It can be broken off as well: it is then completed by the next
call, since each step only sets old values and may be done twice.
"""

from __future__ import annotations

import operator
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, ClassVar, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

P = ParamSpec("P")
T = TypeVar("T")
Steps = list[tuple[Any, ...]]  # functions and their arguments, which undo what was done, the first one last
_MISSING = object()
_RECOVERING = threading.RLock()  # of several threads that find a call broken off, one rolls it back


class Journal:
    """Where the objects of one state write down how to undo what they change, while a call runs."""

    def __init__(self) -> None:
        self.steps: Steps | None = None  # None: no call is running, or nobody would undo it
        self.stale = False  # whether the state is made of other objects by now


_NOBODY = Journal()


class Transactional:
    """State that calls change, and that is as before if a call is broken off."""

    often: ClassVar[tuple[str, ...] | None] = None  # attributes that most calls set; None: all there are
    _journal: Journal = _NOBODY

    def parts(self) -> Iterable[Transactional]:
        """Return the state that this state is made of; whoever changes that calls `parts_changed`."""
        return ()

    def parts_changed(self) -> None:
        """Let the next call look for the parts of all state again."""
        self._journal.stale = True

    def leave_transaction(self) -> None:
        """Save nothing any more: this is a copy, which is dropped with the call that made it."""
        self._journal = _NOBODY

    def begin(self, steps: Steps) -> None:
        """Write down, as a call begins, what it may change beside attributes without saying so before."""

    def rolled_back(self) -> None:
        """Drop what was derived from state that is no more: called after all else has been put back."""

    def save(self) -> None:
        """Save all attributes, before some are set that change seldom."""
        self.undo_by(put_attributes, self, vars(self).copy())

    def overwrite(self, array: NDArray[Any], at: Any) -> None:
        """Save the entries of an array, at an index, a slice or an array of indices, before they are set."""
        steps = self._journal.steps
        if steps is None:
            return
        if isinstance(at, np.ndarray) and len(at) >= len(array):
            at = slice(None)  # no more than all of them
        old = array[at]
        steps.append((put_entries, array, at, old.copy() if isinstance(at, slice) else old))

    def overwrite_item(self, mapping: MutableMapping[Any, Any], key: Any) -> None:
        """Save an item of a mapping before it is set or removed."""
        self.undo_by(_put_item, mapping, key, mapping.get(key, _MISSING))

    def undo_by(self, function: Callable[..., None], *arguments: Any) -> None:
        """Add a step to a rollback."""
        if self._journal.steps is not None:
            self._journal.steps.append((function, *arguments))


def put_attributes(holder: object, old: dict[str, Any]) -> None:
    """Set the attributes of an object to old values, and drop others."""
    attributes = vars(holder)
    for name in attributes.keys() - old.keys():
        del attributes[name]
    attributes.update(old)


def _put_values(holder: object, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
    for name, value in zip(names, values, strict=True):
        setattr(holder, name, value)


def put_entries(array: NDArray[Any], at: Any, old: Any) -> None:
    """Set entries of an array."""
    array[at] = old


def _put_item(mapping: MutableMapping[Any, Any], key: Any, old: Any) -> None:
    if old is _MISSING:
        mapping.pop(key, None)
    else:
        mapping[key] = old


class _Objects:
    """The objects of a state, by what a call has to do for them as it begins."""

    def __init__(self, state: Transactional) -> None:
        self.journal = Journal()
        objects = list(_within(state))
        for each in objects:
            each._journal = self.journal
        self.changing = [(each, each.often, _values_of(each.often)) for each in objects if each.often]
        self.whole = [each for each in objects if each.often is None]
        self.beginning = [o for o in objects if type(o).begin is not Transactional.begin]
        self.deriving = [o for o in objects if type(o).rolled_back is not Transactional.rolled_back]

    def hold(self, steps: Steps) -> None:
        """Save what changes often, and let the objects write to these steps."""
        steps.append((_rolled_back, self.deriving))
        for each, names, values in self.changing:
            steps.append((_put_values, each, names, values(each)))
        for each in self.whole:
            steps.append((put_attributes, each, vars(each).copy()))
        for each in self.beginning:
            each.begin(steps)
        self.journal.steps = steps


def _values_of(names: tuple[str, ...]) -> Callable[[object], tuple[Any, ...]]:
    """Return what reads these attributes."""
    if len(names) == 1:
        read = operator.attrgetter(*names)  # gives the value by itself
        return lambda holder: (read(holder),)
    return operator.attrgetter(*names)


def _within(state: Transactional) -> Iterator[Transactional]:
    yield state
    for part in state.parts():
        yield from _within(part)


def _rolled_back(objects: Iterable[Transactional]) -> None:
    for each in objects:
        each.rolled_back()


class Exclusive(Transactional):
    """State with methods that are called from outside, one at a time and each all or nothing."""

    _call: Call  # that is running, or was broken off
    _objects: _Objects | None = None  # found when a call begins


class Call:
    """One call: it has the state for itself, and what it takes to undo it."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.steps: Steps = []
        self.result: Any = None

    def running(self) -> bool:
        """Tell whether the call is still on the stack of its thread; if not, it was broken off."""
        frame = sys._current_frames().get(self.thread)
        while frame is not None:
            if frame.f_code is run.__code__ and frame.f_locals.get("call") is self:
                return True
            frame = frame.f_back
        return False


def run(state: Exclusive, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Do the work of a call; if it is broken off, the state is as it was before.

    The state holds the call while it runs, so that calls of other threads wait for it. A call of the same
    thread, from within a user's function, is refused.
    """
    call = Call()
    _wait_for_turn(state, call)
    try:
        objects = state._objects
        if objects is None or objects.journal.stale:
            objects = state._objects = _Objects(state)
        objects.hold(call.steps)
        call.result = work(*arguments, **named)
        objects.journal.steps = None
    except BaseException:
        _roll_back(state, call)
        raise
    # The commit: this line lets the state go and returns, and nothing can break off in between.
    return vars(state).pop("_call").result  # type: ignore[no-any-return]


def trial(state: Transactional, work: Callable[[], T]) -> T:
    """Do some work and undo it: return what would come of it, and leave the state as it is.

    It may be part of a call. If the trial is broken off, it is undone before the rest of the call is.
    """
    journals = [(each, each._journal) for each in _within(state)]
    steps: Steps = []
    outer = state._journal.steps
    if outer is not None:
        outer.append((_end_trial, steps, journals))
    try:
        _Objects(state).hold(steps)
        return work()
    finally:
        _end_trial(steps, journals)
        steps.clear()


def _end_trial(steps: Steps, journals: list[tuple[Transactional, Journal]]) -> None:
    """Undo a trial, and let its objects write to the journal of the call again."""
    for function, *arguments in reversed(steps):
        function(*arguments)
    for each, journal in journals:
        each._journal = journal


def _wait_for_turn(state: Exclusive, call: Call) -> None:
    """Let the state hold this call, once it holds no other; undo one that was broken off."""
    while (other := _holder(state, call)) is not call:
        if not other.running():
            with _RECOVERING:
                if vars(state).get("_call") is other and not other.running():
                    _roll_back(state, other)
        elif other.thread == call.thread:
            raise RuntimeError(
                "a call of this operator is running, and its own function called the operator again: calls "
                "must follow one another."
            )
        else:
            time.sleep(0.0005)  # no lock: one that Ctrl-C hits while it is taken would be taken for ever


def _holder(state: Exclusive, call: Call) -> Call:
    """Return the call that the state holds: this one, if it held none."""
    holder: Call = vars(state).setdefault("_call", call)
    return holder


def _roll_back(state: Exclusive, call: Call) -> None:
    """Undo a call. If that is broken off, it may be done again from the start."""
    for function, *arguments in reversed(call.steps):
        function(*arguments)
    vars(state).pop("_call", None)
