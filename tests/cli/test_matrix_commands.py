"""`dsolver solve --matrix` and `dsolver info FILE`."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from distributed import LocalCluster
from scipy.sparse.linalg import spsolve

from dsolver.cluster.devices import Gpu
from dsolver.errors import InputError
from tests.support.commands import call, good, refused
from tests.support.petsc import write_petsc


def laplacian(*shape: int) -> sp.csr_array:
    out = sp.csr_array((1, 1))
    for n in shape:
        line = sp.diags_array([-np.ones(n - 1), 2.0 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
        out = sp.kronsum(line, out, format="csr") if out.shape[0] > 1 or out.nnz else line.tocsr()
    return sp.csr_array(out)


A = laplacian(8, 7, 6)
N = A.shape[0]
B = np.random.default_rng(0).standard_normal(N)
X = spsolve(A.tocsc(), B)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in a folder with the matrix, on a machine that shows no GPU."""
    monkeypatch.chdir(tmp_path)
    for module in ("cluster.devices", "session.arguments"):
        monkeypatch.setattr(f"dsolver.{module}.find_gpu", lambda: "no GPU")
    scipy.io.mmwrite("a.mtx", A, symmetry="symmetric", precision=17)
    Path("a.mtx.gz").write_bytes(gzip.compress(Path("a.mtx").read_bytes()))
    write_petsc("a.petsc", A)
    sp.save_npz("a.npz", A)
    np.save("b.npy", B)
    np.save("column.npy", B[:, None])
    scipy.io.mmwrite("b.mtx", B[:, None], precision=17)
    return tmp_path


@pytest.mark.parametrize(("more", "device"), [("", "cuda"), ("--device cpu", "cpu"), ("--kernels numpy", "cpu")])
def test_a_matrix_is_looked_at_where_it_is_solved(more: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def matrix(*_: object, **options: object) -> None:
        raise InputError(f"checked on {options['device']}")

    gpu = Gpu(name="A GPU", bus="0000:01:00.0", memory=2**34)
    monkeypatch.setattr("dsolver.session.arguments.find_gpu", lambda: gpu)
    monkeypatch.setattr("dsolver.matrix", matrix)
    assert f"checked on {device}" in refused("solve", "--matrix", "a.npz", *more.split())


@pytest.mark.parametrize(
    ("file", "rhs", "more"),
    [
        ("a.mtx", "b.npy", ""),
        ("a.mtx.gz", "b.mtx", "--precond jacobi --engine reference --method minres"),
        ("a.npz", "column.npy", "--chunks 3 1 1 --precond none"),
        ("a.petsc", "b.npy", "--grid 8 7 6 --chunks 2 1 1"),
    ],
)
def test_a_matrix_from_a_file_is_solved_with(file: str, rhs: str, more: str) -> None:
    good("solve", "--matrix", file, "--rhs", rhs, "--out", "x.npy", "--rtol", "1e-11", *more.split())
    x = np.load("x.npy")
    assert x.shape == (N,)
    assert np.linalg.norm(x - X) <= 1e-9 * np.linalg.norm(X)


def test_a_circuit_with_voltage_sources() -> None:
    """A net of 105² nodes, of which 55 have sources: fields are found in the file's matrix."""
    net, count = laplacian(105, 105), 55
    held = sp.eye_array(105**2).tocsr()[:, :: 105**2 // count][:, :count]
    sp.save_npz("circuit.npz", sp.block_array([[net, held], [held.T, None]]).tocsr())
    out = good("solve", "--matrix", "circuit.npz", "--out", "x.npy")
    assert "solved by: minres with BlockDiagonal(Algebraic(), Jacobi())" in out
    np.testing.assert_allclose(np.load("x.npy"), 1.0, rtol=1e-5)
    found = told("circuit.npz", "--workers", "2")
    assert found["solved by"] == "minres with M='block-diagonal'"
    assert found["memory"].startswith("2 workers, ")


def test_without_a_right_hand_side_the_solution_is_ones() -> None:
    pytest.importorskip("pymetis")
    good("solve", "--matrix", "a.mtx", "--partition", "graph", "--chunks", "3", "1", "1", "--out", "x.npy")
    np.testing.assert_allclose(np.load("x.npy"), np.ones(N), rtol=1e-6)


@pytest.mark.filterwarnings("error")
def test_without_a_right_hand_side_the_solution_of_a_complex_matrix_is_ones() -> None:
    scipy.io.mmwrite("absorbing.mtx", A + 0.5j * sp.eye_array(N))
    good("solve", "--matrix", "absorbing.mtx", "--out", "x.npy")
    np.testing.assert_allclose(np.load("x.npy"), np.ones(N), rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--matrix a.mtx --problem hpcg", "give one of them"),
        ("", "give --grid NX NY NZ, or --matrix FILE"),
        ("--grid 8 8 8 --partition graph", "--partition is for the rows of a --matrix"),
        ("--matrix a.mtx --chunks 2 2 1", "rows of a matrix are cut as P 1 1"),
        ("--matrix a.mtx --grid 6 7 8", "A does not fit grid=(6, 7, 8): entry A[0, 6]"),
        ("--matrix none.mtx", "there is no file none.mtx"),
        ("--matrix b.npy", "ends in none of .mtx"),
        ("--matrix a.mtx --rhs short.npy", "short.npy has shape (9,), but b of this matrix is (336,)"),
        (
            "--matrix a.mtx --rhs a.mtx",
            "a.mtx cannot be read as an array of numbers: it holds coordinates in 336 columns",
        ),
        ("--matrix a.mtx --precond mg", "M='mg' coarsens a grid"),
    ],
)
def test_bad_input_is_refused_in_a_line(arguments: str, message: str) -> None:
    np.save("short.npy", np.ones(9))
    assert message in refused("solve", *arguments.split())


def told(*arguments: str) -> dict[str, str]:
    lines = good("info", *arguments).splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition("  ") for line in lines)}


def test_info_tells_of_a_matrix() -> None:
    found = told("a.mtx.gz")
    assert found["rows"] == "336"
    assert found["entries"].startswith(f"{A.nnz}, ")
    assert found["entries of a row"] == f"4 at least, {A.nnz / N:.3g} on average, 7 at most"
    assert found["bandwidth"] == "42"
    assert found["format on GPUs"] == "slices (rows of a lattice)"
    assert found["symmetric"] == "yes"
    assert found["diagonal"] == "positive"
    assert found["solved by"] == "fgmres with M='direct'"
    assert found["constants"] == "do not solve A x = 0"
    assert found["memory"].startswith("1 worker, ")
    two = told("a.mtx", "--workers", "2")
    assert two["memory"].startswith("2 workers, ")
    assert two["format on GPUs"].startswith("slices")


def test_info_finds_blocks_and_a_null_space() -> None:
    line = sp.diags_array([-np.ones(39), np.r_[1.0, 2.0 * np.ones(38), 1.0], -np.ones(39)], offsets=[-1, 0, 1])
    scipy.io.mmwrite("blocks.mtx", sp.kron(line, np.ones((3, 3)) + np.eye(3)))
    assert told("blocks.mtx")["blocks"] == "3 x 3, 100 % full"
    scipy.io.mmwrite("closed.mtx", line)
    assert told("closed.mtx")["constants"] == "solve A x = 0: solutions have mean zero"


def test_info_of_what_is_not_symmetric_and_what_cannot_be_solved_with() -> None:
    a = A.tolil()
    a[3, 4] = -7.0
    a[9, 9] = 0.0
    scipy.io.mmwrite("skewed.mtx", a)
    found = told("skewed.mtx")
    assert found["symmetric"] == "no: A[3, 4] = -7, but A[4, 3] = -1"
    assert found["diagonal"] == "A has 1 zeros on its diagonal, the first in row 9"
    assert found["solved by"] == "fgmres with M='direct'"
    a[5, :] = 0.0
    scipy.io.mmwrite("empty.mtx", sp.csr_array(a))
    assert "entries of a row  0 at least" in good("info", "empty.mtx")
    assert "there is no file none.mtx" in refused("info", "none.mtx")
    assert call("info", "--workers", "0").exit_code == 2


def test_the_workers_of_a_cluster_read_the_matrix() -> None:
    with LocalCluster(n_workers=2, processes=False, protocol="tcp://", dashboard_address=":0") as cluster:
        where = ("--scheduler", cluster.scheduler_address, "--device", "cpu", "--rtol", "1e-11", "--precond", "jacobi")
        good("solve", "--matrix", "a.mtx", "--rhs", "b.npy", "--out", "x.npy", *where)
        assert np.linalg.norm(np.load("x.npy") - X) <= 1e-9 * np.linalg.norm(X)
        good("solve", "--matrix", "a.npz", "--chunks", "3", "1", "1", "--out", "ones.npy", *where)
        assert np.allclose(np.load("ones.npy"), 1.0)
        result = call("solve", "--matrix", "none.mtx", *where)  # a worker in this process writes what it raises, too
        assert result.exit_code == 2
        assert result.stderr.splitlines()[-1].startswith("error: there is no file ")
