"""Operators of a complex system: its matrix of two parts, and a real preconditioner on both parts of vectors."""

from dataclasses import replace

from dsolver.distributed.complex_matrix import ComplexMatrix, OnBothParts
from dsolver.distributed.gauge import InGauge
from dsolver.distributed.matrix import Matrix
from dsolver.engines.complex import ComplexEngine
from dsolver.krylov.method import ApproximateInverse
from dsolver.preconditioners.base import Site, make
from dsolver.program.spec import SolveSpec


def complex_matrix(engine: ComplexEngine, site: Site) -> ComplexMatrix:
    """A on complex vectors."""
    view = engine.wide or engine.real
    parts = (Matrix(view, *part) for part in zip(site.parts, site.part_senders, strict=True))
    return ComplexMatrix(engine, *parts)


def complex_inverse(engine: ComplexEngine, site: Site, spec: SolveSpec) -> ApproximateInverse | None:
    """M on an engine's complex vectors: both parts at once where it can be made for several; site: of one real one."""
    m, dtype = spec.preconditioner, spec.precond_dtype
    site = replace(site, method=None)
    if m.can.complex or any(getattr(level, "complex_part", None) is not None for level in site.levels):
        return make(m, replace(site, engine=engine), dtype)
    single = site.single.inner if isinstance(site.single, InGauge) else site.single
    made = single.inner if isinstance(single, OnBothParts) else make(m, site, dtype)
    if made is None:
        return None
    both = _on_both_parts(engine, site, spec, made)
    return InGauge(both, engine, site.engine, site.matrix.layout, site.phases) if site.phases else both


def _on_both_parts(engine: ComplexEngine, site: Site, spec: SolveSpec, made: ApproximateInverse) -> OnBothParts:
    """A real M, which is made for one vector, on both parts."""
    m = spec.preconditioner
    if engine.wide is None or not m.can.batched:
        return OnBothParts(made, wide=False)
    matrix = Matrix(engine.wide, site.chunks, spec.problem.senders)
    both = make(m, replace(site, engine=engine.wide, matrix=matrix, single=made), spec.precond_dtype)
    return OnBothParts(both, wide=True)
