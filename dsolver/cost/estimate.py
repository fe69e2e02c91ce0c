"""Forecast of a solve: memory of each worker and a rough time, told before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Final, Literal

import numpy as np

from dsolver.cluster import default_client, devices, host_memory
from dsolver.cluster.runtime import DeviceName, Runtime, check_device, connect
from dsolver.cost import bandwidth as copies
from dsolver.cost import scaling
from dsolver.cost.forecast import Estimate, of_spec
from dsolver.cost.links import Fabric
from dsolver.dask_types import Client
from dsolver.errors import InputError, check_tolerance, float_of, in_a_line
from dsolver.grid.coloring import Order
from dsolver.matrices.composed.grids import as_matrix
from dsolver.matrices.matrix import is_matrix, matrix
from dsolver.preconditioners.registry import AUTO, check_dtype, chosen_for
from dsolver.problems import Problem
from dsolver.problems.problem import check_problem
from dsolver.program.batches.batch import AT_ONCE, most_columns
from dsolver.program.plan import Wishes, check_value_type

REACHED: Final = 0.85  # the part of a GPU's nominal bandwidth that these kernels reach
H200: Final = 4.8e12  # nominal bytes per second of an NVIDIA H200, for plans where no GPU is there


def estimate(
    problem: Problem | Any,
    *,
    client: Client | Literal[False] | None = None,
    device: DeviceName = "auto",
    workers: int | None = None,
    order: str = "color8",
    M: Any = AUTO,
    precond_dtype: str = AUTO,
    dtype: str = "float64",
    method: str | None = None,
    restart: int | None = None,
    together: int = 1,
    rtol: float = 1e-8,
    bandwidth: float | None = None,
    per_host: int | None = None,
) -> Estimate:
    """Forecast of `dsolver.solve`, on the devices that are there or on a number of workers that are not.

    Nothing is allocated but a few megabytes to measure a CPU. Masks and coefficients are not looked at. Where "auto"
    takes "amg", ask with M="amg": it keeps a quarter more than "mg", up to twice as much where couplings differ most,
    and its set-up takes up to twice as much as that of "mg", with several chunks on GPUs up to five times. So does "mg"
    where it leaves the lattice. Cells that are left out take less than is counted, and so do coefficients that vary but
    not roughly, on GPUs two thirds of it: ``M=Multigrid(sweeps=1, visits=1)`` says that they do.

    Args:
        problem: the system; see `dsolver.problems`; or a sparse matrix, as in `dsolver.solve`.
        client: as of `dsolver.solve`: a Dask cluster's, by default the one that is open; False for this process.
        device: "cuda", "cpu", or "auto" for "cuda" where every worker has a GPU.
        workers: to plan for a cluster that is not there: how many workers it would have. With device="cuda" its GPUs
            are taken to be like this machine's, if it has one.
        order: of the smoother.
        M: the preconditioner; by default what `dsolver.solve` takes.
        precond_dtype: its value type, as of `dsolver.solve`.
        dtype: that of the whole system, as of `dsolver.solve`.
        method: of the solve, by default what `dsolver.solve` takes.
        restart: vectors of its basis, where it has one.
        together: right-hand sides that are given together. The memory of as many is counted as `dsolver.Solver` solves
            at once: up to `dsolver.program.batches.batch.AT_ONCE`, and one with a function for M. Solutions of others
            that stay on GPUs are not; the time is that of one by itself.
        rtol: the tolerance of the solve.
        bandwidth: of each device's memory, bytes per second; by default what the GPU's driver says, less what is never
            reached, or a copy measured on this machine's CPU.
        per_host: for a plan on GPUs, how many of them a host has. The estimate then has curves of weak and strong
            scaling up to `workers`, as ``estimate(...).scaling``. Without `bandwidth` and a GPU here, H200s are meant.

    Returns:
        An `Estimate`, to be printed: bytes of each worker, iterations, and seconds of set-up and of the iterations.

    Raises:
        InputError: an argument cannot be right.
        DeviceError: "cuda" was asked for where there is none.
        ClusterError: the cluster cannot be reached.
    """
    problem = as_matrix(problem) if isinstance(problem, Problem) or not is_matrix(problem) else matrix(problem)
    check_problem(problem)
    m, chosen = chosen_for(M, problem, method, "cpu", precond_dtype), Order.parse(order)  # refused here
    if client and workers is not None:
        raise InputError("workers plans for a cluster that is not there, and a client is one: give only one of them")
    _check_counts(
        workers=1 if workers is None else workers, together=together, per_host=1 if per_host is None else per_host
    )
    check_device(device)
    check_dtype(None if isinstance(M, str) and M == AUTO else m, m.precision or precond_dtype)
    check_tolerance("rtol", rtol)
    _check_bandwidth(bandwidth)
    if per_host is not None and (workers is None or device != "cuda"):
        raise InputError("per_host is for plans of GPUs: give workers= and device='cuda', too")
    gpu = devices.find_gpu()
    client = default_client.meant(client)
    runtime = connect(client, device=device) if workers is None else _planned_runtime(device, workers, gpu)
    m = chosen_for(M, problem, method, runtime.device, precond_dtype)
    precond_dtype = m.precision or precond_dtype
    on_gpus, there = runtime.device == "cuda", workers is None
    check_value_type(dtype, precond_dtype, problem)
    wishes = Wishes(m=m, method=method, restart=restart, order=chosen, dtype=dtype, precond_dtype=precond_dtype)
    spec = wishes.plan(problem, max(1, len(runtime.workers)), cuda=on_gpus).spec
    batched = m.can.batched and spec.traits.batched
    at_once = min(int(together), AT_ONCE, most_columns(spec.partition, 1 + problem.complex)) if batched else 1
    nominal = REACHED * gpu.bandwidth if isinstance(gpu, devices.Gpu) and gpu.bandwidth else None
    bandwidth = bandwidth or (nominal if on_gpus else copies.of_cpu())
    if bandwidth is None and per_host is not None:
        bandwidth = REACHED * H200
    found = of_spec(
        spec,
        runtime,
        available=_memory(runtime, gpu, there=there) if on_gpus else (),
        supplies=host_memory.supplies_of(client, runtime.workers) if there and not on_gpus else (),
        together=at_once if at_once > 1 else 0,
        rtol=rtol,
        bandwidth=bandwidth,
    )
    if per_host is None or bandwidth is None:
        return found
    fabric = Fabric(per_host=int(per_host))
    return replace(found, scaling=scaling.of_spec(spec, len(runtime.workers), fabric, bandwidth))


def _check_counts(**counts: object) -> None:
    """Refuse what is no count from 1 on; raises InputError."""
    for name, count in counts.items():
        if not (isinstance(count, Integral) and int(count) >= 1):
            raise InputError(f"{name} must be an integer >= 1, not {in_a_line(count)}")


def _check_bandwidth(bandwidth: object) -> None:
    """Refuse what is no bandwidth; None stands for that of this machine. Raises InputError."""
    real = isinstance(bandwidth, float | int | np.number)
    if bandwidth is not None and not (real and 0.0 < float_of(bandwidth) < math.inf):
        raise InputError(f"bandwidth must be bytes per second, more than 0, not {in_a_line(bandwidth)}")


def _memory(runtime: Runtime, gpu: devices.Gpu | str, *, there: bool) -> Sequence[int]:
    """Bytes of each worker's GPU that are free; of those that are not there, as many as this machine's has."""
    if there:
        return devices.free_memory_of(runtime.client, runtime.workers)
    return (gpu.memory,) * len(runtime.workers) if isinstance(gpu, devices.Gpu) else ()


def _planned_runtime(device: DeviceName, workers: int, gpu: devices.Gpu | str) -> Runtime:
    """A cluster that is not there."""
    found = devices.planned(device, gpu)
    crew = tuple(map(str, range(workers)))
    return Runtime(engine="resident", device=found, kernels=found, client=None, workers=crew)
