"""Code is loaded only from where nobody else could have put it."""

import os
import pickle
import tempfile
from pathlib import Path

import pytest

from muntin.cli.commands import doctoring
from muntin.kernels import modules
from muntin.kernels.trust import doubt, make_private
from tests.kernels.test_generator import SLIDE, SQUARES, copy_of, filled, process

__all__ = ["filled"]  # a fixture
SOMEBODY = 54321  # a user who is neither root nor the one who runs this


class Payload:
    """What makes a directory when it is unpickled."""

    def __init__(self, directory):
        self.directory = directory

    def __reduce__(self):
        return os.mkdir, (str(self.directory),)


def plant(cache, directory):
    """Put code into all index files of a cache."""
    files = list(cache.rglob("*.nbi"))
    assert files
    for path in files:
        path.write_bytes(pickle.dumps(Payload(directory)))


def give_away(path, monkeypatch):
    """Let a path belong to another user than the one who runs this."""
    if os.geteuid() == 0:
        os.chown(path, SOMEBODY, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)


@pytest.fixture
def cache(tmp_path):
    directory = tmp_path / "above" / "cache"
    make_private(directory / "__pycache__")
    return directory


# ---- which directories are safe ----


def test_a_directory_of_ones_own_is_safe(cache):
    (cache / "__pycache__" / "a.nbi").touch()
    assert doubt(cache) is None
    assert doubt(cache / "__pycache__") is None
    assert doubt(cache / "not" / "yet") is None


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o707, 0o1777])
@pytest.mark.parametrize("which", ["above/cache", "above/cache/__pycache__"])
def test_others_can_write(tmp_path, cache, which, mode):
    (tmp_path / which).chmod(mode)
    assert doubt(tmp_path / which) == f"others can write to {tmp_path / which}"


def test_others_can_swap_a_directory(tmp_path, cache):
    (tmp_path / "above").chmod(0o777)
    assert doubt(cache) == f"others can write to {tmp_path / 'above'}"
    assert doubt(tmp_path / "above" / "new") == f"others can write to {tmp_path / 'above'}"
    (tmp_path / "above").chmod(0o1777)  # as /tmp is: what is there stays its owner's
    assert doubt(cache) is None
    assert doubt(tmp_path / "above" / "new") is None


@pytest.mark.parametrize("which", ["above", "above/cache", "above/cache/__pycache__/a.nbc"])
def test_what_belongs_to_another_user(tmp_path, cache, which, monkeypatch):
    (cache / "__pycache__" / "a.nbc").touch()
    give_away(tmp_path / which, monkeypatch)
    assert "belongs to another user" in doubt(cache / "__pycache__")


def test_files_that_others_can_write(cache):
    file = cache / "__pycache__" / "a.nbi"
    file.touch()
    file.chmod(0o664)
    assert doubt(file.parent) is None  # nobody else gets that far
    file.parent.chmod(0o755)
    assert doubt(file.parent) == f"others can write to {file}"
    file.chmod(0o644)
    assert doubt(file.parent) is None
    file.unlink()
    file.symlink_to("/dev/null")
    assert doubt(file.parent) == f"{file} is a link"


def test_a_link_is_judged_by_where_it_leads(tmp_path, cache, monkeypatch):
    link = tmp_path / "link"
    link.symlink_to(cache)
    assert doubt(link) is None
    cache.chmod(0o777)
    assert doubt(link) == f"others can write to {cache}"
    cache.chmod(0o700)
    relative = tmp_path / "above" / "relative"
    relative.symlink_to("../above/cache/__pycache__")
    assert doubt(relative) is None
    (tmp_path / "above").chmod(0o777)  # others can let both lead elsewhere
    assert doubt(relative) == doubt(link) == f"others can write to {tmp_path / 'above'}"


def test_a_link_of_another_user(tmp_path, cache, monkeypatch):
    link = tmp_path / "link"
    link.symlink_to(cache)
    give_away(link, monkeypatch)
    assert "belongs to another user" in doubt(link)


def test_links_that_lead_nowhere(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "cannot be looked at" in doubt(tmp_path / "a" / "cache")


def test_what_is_made_is_private_whatever_the_umask(tmp_path):
    before = os.umask(0o002)
    try:
        make_private(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert doubt(tmp_path / "a" / "b") is None
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


# ---- where code is kept ----


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Directories for the cache that is named, that of the user, and for temporary files."""
    found = {name: tmp_path / name for name in ("named", "user", "temporary")}
    for path in found.values():
        path.mkdir(mode=0o700)
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(found["named"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(found["user"]))
    monkeypatch.setattr(tempfile, "tempdir", str(found["temporary"]))
    modules._first_safe.cache_clear()
    yield found
    modules._first_safe.cache_clear()


def test_the_first_safe_directory_is_chosen(places):
    assert modules.cache_directory() == places["named"]
    assert not any(places["user"].iterdir())


def test_a_directory_that_is_not_safe_is_warned_of(places):
    places["named"].chmod(0o777)
    with pytest.warns(UserWarning, match=f"not kept in {places['named']}.*instead") as told:
        assert modules.cache_directory() == places["user"] / "muntin"
    assert f"kept in {places['user'] / 'muntin'} instead" in str(told[0].message)


def test_a_home_of_another_user(places, monkeypatch):
    """As that of root may be, after sudo: nothing is loaded from there, and nothing is written."""
    monkeypatch.delenv("MUNTIN_CACHE_DIR")
    if os.geteuid() == 0:
        give_away(places["user"], monkeypatch)
        with pytest.warns(UserWarning, match=f"{places['user']} belongs to another user"):
            assert modules.cache_directory() == places["temporary"] / "muntin-0"
    else:
        monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY)
        with pytest.warns(UserWarning, match="belongs to another user"):
            assert modules.cache_directory() is None
    assert not any(places["user"].iterdir())


@pytest.mark.parametrize("home", ["/proc", "/nonexistent/home"])
def test_without_a_home_code_is_kept_in_a_private_directory(places, monkeypatch, home):
    """As workers of Spark may be."""
    monkeypatch.setenv("XDG_CACHE_HOME", f"{home}/cache" if home == "/proc" else "")
    monkeypatch.setenv("HOME", "~" if home != "/proc" else home)
    monkeypatch.delenv("MUNTIN_CACHE_DIR")
    directory = modules.cache_directory()
    assert directory == places["temporary"] / f"muntin-{os.geteuid()}"
    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_somebody_else_has_put_there(places, monkeypatch):
    places["named"].chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc")
    planted = places["temporary"] / f"muntin-{os.geteuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    with pytest.warns(UserWarning, match="kept in memory only"):
        assert modules.cache_directory() is None


def test_the_doctor_says_which_directory_is_not_safe(places):
    places["named"].chmod(0o770)
    check = doctoring._cache()
    assert check.state == "warning"
    assert f"others can write to {places['named']}" in check.found
    assert str(places["user"]) in check.found


# ---- planted code ----


def test_planted_code_is_not_run(tmp_path, filled):
    for name, mode in (("open", 0o777), ("group", 0o770)):
        cache, ran = copy_of(filled, tmp_path / name), tmp_path / f"{name} ran"
        plant(cache, ran)
        cache.chmod(mode)
        home = {"XDG_CACHE_HOME": str(tmp_path / "home")}
        printed, told = process(SLIDE, cache, **home)
        assert printed == str(SQUARES)
        assert not ran.exists()
        assert f"not kept in {cache}, since others can write to {cache}" in told
        assert f"kept in {tmp_path / 'home' / 'muntin'} instead" in told


def test_code_planted_in_numbas_own_directory_is_not_run(tmp_path, filled):
    """Numba keeps code elsewhere if it is told to."""
    numba, ran = tmp_path / "numba", tmp_path / "ran"
    elsewhere = {"NUMBA_CACHE_DIR": str(numba)}
    process(SLIDE, filled, **elsewhere)
    plant(numba, ran)
    numba.chmod(0o777)
    printed, told = process(SLIDE, filled, **elsewhere)
    assert printed == str(SQUARES)
    assert not ran.exists()
    assert f"where Numba would keep it, since others can write to {numba}" in told


def test_code_is_loaded_through_a_link_that_is_safe(tmp_path, filled):
    link = tmp_path / "link"
    link.symlink_to(filled)
    before = {path: path.stat().st_mtime_ns for path in Path(filled).rglob("*.nbc")}
    assert process(SLIDE, link) == (str(SQUARES), "")
    assert {path: path.stat().st_mtime_ns for path in Path(filled).rglob("*.nbc")} == before
