"""The generator: the same kernels from text, from objects, in memory; and a cache that survives anything."""

import ast
import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import muntin as mt
from muntin.kernels import NotCompilableError, generator, instantiate, modules, templates
from muntin.kernels.inference import infer
from muntin.kernels.layout import Layout
from tests.aggregates import Affine, SumOfSquares, Union

VALUES = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])
SQUARES = [9.0, 10.0, 17.0, 17.0, 26.0, 106.0, 85.0, 40.0]


PATH = os.pathsep.join([os.path.join(os.getcwd(), "src"), os.getcwd()])


def process(code, cache, **environment):
    """Run code in a new process with this cache directory, and return what it prints, and warns of."""
    env = {**os.environ, "MUNTIN_CACHE_DIR": str(cache), "PYTHONPATH": PATH, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def fresh(code, cache, **environment):
    """Run code in a new process with this cache directory, and return what it prints."""
    return process(code, cache, **environment)[0]


SLIDE = """
import numpy as np, muntin as mt
from tests.aggregates import SumOfSquares
values = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])
print(mt.swag.Recalculate.slide(SumOfSquares(), values, window=2).tolist())
"""  # the kernel that compiles fastest


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that a process has left behind; tests damage copies of it."""
    cache = tmp_path_factory.mktemp("filled")
    assert fresh(SLIDE, cache) == str(SQUARES)
    return cache


def copy_of(filled, directory):
    return shutil.copytree(filled, directory, dirs_exist_ok=True)  # with times, which Numba looks at


def test_code_is_kept_and_loaded_by_the_next_process(filled):
    code = sorted(filled.glob("__pycache__/*.nbc"))
    assert code
    stamps = [path.stat().st_mtime_ns for path in code]
    hits = (
        SLIDE
        + """
from muntin.kernels.generator import instantiate
kernel = instantiate('recalculate', SumOfSquares().algebra(), ('f8',))
print(sum(kernel._code._namespace['slide'].stats.cache_hits.values()))
"""
    )
    assert fresh(hits, filled).splitlines() == [str(SQUARES), "1"]
    assert [path.stat().st_mtime_ns for path in sorted(filled.glob("__pycache__/*.nbc"))] == stamps


def test_many_processes_at_once(tmp_path):
    env = {**os.environ, "MUNTIN_CACHE_DIR": str(tmp_path), "PYTHONPATH": PATH}
    running = [
        subprocess.Popen([sys.executable, "-c", SLIDE], env=env, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [process.communicate()[0].strip() for process in running] == [str(SQUARES)] * 4
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("what", ["a file", "read-only", "no home"])
def test_without_a_place_to_keep_code(tmp_path, what):
    cache, environment = tmp_path / "cache", {}
    if what == "a file":
        cache.write_text("in the way")
    elif what == "read-only":
        cache = "/proc/muntin"  # nobody may write there, not even root
    else:
        environment = {"HOME": "/proc", "XDG_CACHE_HOME": "", "MUNTIN_CACHE_DIR": ""}
    assert fresh(SLIDE, cache, **environment) == str(SQUARES)


@pytest.mark.parametrize("ending", [".py", ".nbi", ".nbc"])
@pytest.mark.parametrize("kept", [0, 20])
def test_files_cut_short_by_a_crash(tmp_path, filled, ending, kept):
    copy_of(filled, tmp_path)
    files = list(tmp_path.rglob(f"*{ending}"))
    assert files
    for path in files:
        path.write_bytes(path.read_bytes()[:kept])
    assert fresh(SLIDE, tmp_path) == str(SQUARES)
    assert fresh(SLIDE, tmp_path) == str(SQUARES)


def test_a_function_without_source_compiles_as_an_object():
    namespace = {"mt": mt}
    exec(
        "class Hidden(mt.Aggregate):\n    def lift(v): return v * v\n    def combine(a, b): return a + b\n",
        namespace,
    )
    got = mt.swag.TwoStacksLite.slide(namespace["Hidden"](), VALUES, window=2)
    assert got.tolist() == SQUARES
    assert got.dtype == np.float64


def test_lambdas_and_numpy_in_user_code():
    class Norm(mt.Aggregate):
        commutative = True
        lift = staticmethod(lambda v: v * v)
        combine = staticmethod(lambda a, b: a + b)

        def lower(s):
            return np.sqrt(s)

    got = mt.swag.DabaLite.slide(Norm(), VALUES, window=2)
    assert np.allclose(got, np.sqrt(SQUARES))


def test_a_changed_constant_is_another_kernel():
    def make(k):
        class Scaled(mt.Aggregate):
            def lift(v):
                return v * k

            def combine(a, b):
                return a + b

        return Scaled()

    assert mt.swag.slide(make(2.0), VALUES, window=1).tolist() == (VALUES * 2).tolist()
    assert mt.swag.slide(make(3.0), VALUES, window=1).tolist() == (VALUES * 3).tolist()


def test_state_types_are_inferred():
    assert infer(Affine().algebra(), ("i8",)).fields == ("i8", "i8")

    class Widening(mt.Aggregate):  # lift gives an integer, combine a float
        def lift(v):
            return 1

        def combine(a, b):
            return a + b + 0.5

    signature = infer(Widening().algebra(), ("i8",))
    assert (signature.fields, signature.cast_lift) == (("f8",), True)
    assert mt.swag.DabaLite.slide(Widening(), [1, 1, 1], window=3).tolist() == [1.0, 2.5, 4.0]

    class Halves(mt.Aggregate):  # an answer that may be null
        def combine(a, b):
            return a + b

        def lower(s):
            if s % 2:
                return None
            return s // 2

    assert mt.swag.DabaLite.slide(Halves(), [1, 1, 4], window=2).tolist() == [None, 1, None]


def test_what_is_not_scalar_is_not_compiled():
    with pytest.raises(NotCompilableError):
        infer(Union().algebra(), ("i8",))

    class Nested(mt.Aggregate):
        def lift(v):
            return (v, (v, v))

        def combine(a, b):
            return (a[0] + b[0], b[1])

    with pytest.raises(NotCompilableError, match="a flat one would compile"):
        infer(Nested().algebra(), ("i8",))
    assert mt.swag.DabaLite.slide(Nested(), [1, 2], window=2).tolist() == [(1, (1, 1)), (3, (2, 2))]


def test_a_user_written_aggregate_has_the_layout_of_a_built_in_one():
    own = instantiate("two_stacks_lite", SumOfSquares().algebra(), ("f8",))
    built_in = instantiate("two_stacks_lite", mt.sum().algebra(("f8",)), ("f8",))
    assert (own.layout, own.result, own.misses) == (built_in.layout, built_in.result, built_in.misses)


def test_kernels_are_made_once_a_process():
    first = instantiate("daba_lite", mt.mean("a").algebra(("f8",)), ("f8",))
    assert instantiate("daba_lite", mt.mean("b").algebra(("f8",)), ("f8",)) is first


@pytest.mark.parametrize("fields", [("f8",), ("i8",), ("f8", "f8", "f8"), ("f8", "i8", "b1")])
def test_layouts_store_what_they_load(fields):
    from numba import njit

    layout = Layout(fields)
    namespace = {"njit": njit}
    exec(layout.source(), namespace)
    memory = layout.allocate(4)
    state = tuple({"f8": 1.5, "i8": 7, "b1": True}[code] for code in fields)
    state = state[0] if layout.scalar else state
    namespace["store"](memory, 2, state)
    assert namespace["load"](memory, 2) == state
    assert namespace["load"](memory, 1) == layout.zero()


def test_module_files_are_whole_or_absent(tmp_path, monkeypatch):
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path))
    text = "answer = 42\n"
    module = modules.load("probe", text)
    assert module.answer == 42
    assert modules.load("probe", text) is module
    assert [path.read_text() for path in tmp_path.glob("*.py")] == [text]


def _slide_in_child(queue):
    queue.put(mt.swag.DabaLite.slide(mt.max(), VALUES, window=3).tolist())


def test_after_a_fork():
    """Servers fork: kernels must still run in the child."""
    mt.swag.DabaLite.slide(mt.max(), VALUES, window=3)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_slide_in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == [3.0, 3.0, 4.0, 4.0, 5.0, 9.0, 9.0, 9.0]
    child.join()


def run_module(tmp_path, cache, scale, **environment):
    (tmp_path / "scales.py").write_text(f"SCALE = {scale}\n")
    code = """
import muntin as mt, scales
from math import sqrt
class Scaled(mt.Aggregate):
    def lift(v): return sqrt(v) * scales.SCALE
    def combine(a, b): return a + b
print(mt.swag.Recalculate.slide(Scaled(), [1.0, 4.0], window=1).tolist())
"""
    (tmp_path / "main.py").write_text(code)
    return fresh("import main", cache, PYTHONPATH=os.pathsep.join([str(tmp_path), PATH]), **environment)


def test_what_another_module_holds_is_never_frozen_into_kept_code(tmp_path):
    assert run_module(tmp_path, tmp_path / "cache", 2.0) == "[2.0, 4.0]"
    assert run_module(tmp_path, tmp_path / "cache", 3.0) == "[3.0, 6.0]"


def test_a_full_cache_that_is_read_only(filled):
    """As in an image that another user runs: there is code to read, but Numba insists on a place to write."""
    broken = """
import numba.core.caching as caching
caching._CacheLocator.ensure_cache_path = lambda self: (_ for _ in ()).throw(OSError("read-only"))
"""
    assert fresh(broken + SLIDE, filled) == str(SQUARES)


def test_code_cut_short_in_numbas_own_directory(tmp_path):
    elsewhere = {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    fresh(SLIDE, tmp_path / "cache", **elsewhere)
    for path in (tmp_path / "numba").rglob("*.nbc"):
        path.write_bytes(path.read_bytes()[:100])
    assert fresh(SLIDE, tmp_path / "cache", **elsewhere) == str(SQUARES)


def test_a_module_file_that_is_not_text(tmp_path, filled):
    copy_of(filled, tmp_path)
    for path in tmp_path.glob("*.py"):
        path.write_bytes(b"\xff\xfe\x00" + path.read_bytes()[:50])
    assert fresh(SLIDE, tmp_path) == str(SQUARES)


def test_with_numba_switched_off(tmp_path):
    assert fresh(SLIDE, tmp_path, NUMBA_DISABLE_JIT="1") == str(SQUARES)


def test_arrow_and_numpy_share_a_kernel():
    import pyarrow as pa

    kernel = instantiate("daba_lite", mt.max().algebra(("f8",)), ("f8",))
    mt.swag.DabaLite.slide(mt.max(), VALUES, window=3)
    mt.swag.DabaLite.slide(mt.max(), pa.array(VALUES), window=3)
    assert len(kernel._code._namespace["slide"].overloads) == 1


def test_functions_of_math_by_name_are_kept():
    from math import sqrt

    def lift(v):
        return sqrt(v) + np.abs(v)

    from muntin.kernels.source import write_out

    assert "from math import sqrt as sqrt" in write_out({"lift": lift}, "@njit")


def test_no_loop_is_written_in_two_templates():
    written = {}
    for path in sorted(Path(templates.__file__).parent.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(n, ast.For | ast.While) for n in ast.walk(node)
            ):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                text = "\n".join(map(ast.unparse, body))
                assert text not in written, f"{path.name} and {written[text]} both write {node.name}"
                written[text] = path.name


def test_a_template_has_the_functions_that_it_takes_from_another():
    body, _ = generator._template("slices")
    assert body.count("def flip(") == 1  # that of Two-Stacks Lite
    assert "import" not in body
