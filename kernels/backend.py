"""A backend: memory of a device, and where its kernels and its set-up are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from dsolver.kernels.batched import Batched
from dsolver.kernels.contract import OF_VECTORS
from dsolver.kernels.deferred import Agree, Foresight
from dsolver.kernels.formats.layout import Array
from dsolver.kernels.vectors import Vectors

if TYPE_CHECKING:
    from dsolver.kernels.colorings.setup import SweepSetup
    from dsolver.kernels.cpu.amg.setup import AmgKernels
    from dsolver.kernels.cpu.csr.complex_rows import ComplexRows
    from dsolver.kernels.formats.dense import DenseSetup
    from dsolver.kernels.formats.stencil.constant import StencilSetup
    from dsolver.kernels.general.setup import GeneralSetup
    from dsolver.kernels.lattice.setup import LatticeSetup
    from dsolver.kernels.layout_setup import LayoutSetup


T = TypeVar("T")


class Backend(ABC):
    """Memory of a device and look-up of what runs there. Array arguments live on that device."""

    name: ClassVar[str]  # "numpy", "cpu" or "cuda"
    guard: ClassVar[int]  # number of zero items before the first and after the last item of vectors in storage order
    xp: Any  # the array module (numpy or cupy)
    formats: ClassVar[str]  # the module of a format's set-up, with {} for the format's name
    # the value type of vectors and of what is stored of matrices. Scalars, partial dot products, weights and blocks of
    # values are float64 whatever it is.
    dtype: np.dtype[Any]
    threads: int = 1  # that share a chunk's loops
    vectors: Vectors  # the vector kernels
    layouts: LayoutSetup  # set-up of storage orders and exchanges
    lattice: LatticeSetup  # set-up of lattices
    amg: AmgKernels  # set-up of levels without a lattice
    dense: DenseSetup  # set-up of small matrices and their inverses
    stencil: StencilSetup  # set-up of constant stencils
    general: GeneralSetup  # set-up of general matrices
    complex_rows: ComplexRows  # what is looked for in complex ones; the reference has none
    sweeps: SweepSetup  # set-up of sweeps over their rows

    def kernel(self, name: str) -> Callable[..., None]:
        """The kernel of this name: brought by its first argument, such as a matrix, or one of `vectors`."""
        return getattr(self.vectors, name) if name in OF_VECTORS else _carried(name)

    def batched(self, width: int) -> Batched:
        """The kernels for vectors of so many columns."""
        return Batched(self.vectors, width)

    def format(self, name: str) -> Any:
        """The set-up of the format of this name, mostly a `FormatBuilder`: see `dsolver.kernels.formats`."""
        return import_module(self.formats.format(name)).ASSEMBLY(self.vectors)

    @property
    def sparse(self) -> Any:
        """The module of sparse matrices: `scipy.sparse`, or CuPy's."""
        return import_module("scipy.sparse")

    # -- memory --------------------------------------------------------------------------------------------------------

    def zeros(self, size: int, dtype: str | None = None) -> Array:
        """A vector (size,) of zeros on the device, in the backend's value type or another."""
        return self.xp.zeros(size, dtype or self.dtype)

    def scalars(self, count: int) -> Array:
        """float64 (count,) of zeros on the device: room for scalars and partial dot products."""
        return self.xp.zeros(count)

    def asarray(self, values: Any) -> Array:
        """The values as an array on the device; no copy when they are one already."""
        return self.asarrays(values)[0]

    def asarrays(self, *values: Any) -> list[Array]:
        """Several as of `asarray`, which travel together where the device is another one than the host."""
        return [self.xp.asarray(one) for one in values]

    def table(self, values: npt.NDArray[Any]) -> Array:
        """Values on the device, not to be written to: there may be one copy for all who bring the same."""
        return self.asarray(values)

    def to_host(self, values: Array, room: Any = None) -> npt.NDArray[Any]:
        """The values as a NumPy array; room: a `host_room` for them."""
        return np.asarray(values)

    def host_room(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Memory of the host that is made ready for an array which the device will have made; None for none."""
        return None

    def answer(self, decide: Callable[..., T], numbers: Sequence[Array]) -> T:
        """Result of decide(*numbers), of float64 (1,) arrays as Python numbers; foreseen where this thread foresees."""
        return decide(*(float(self.to_host(number)[0]) for number in numbers))

    def answer_of_all(self, ask: Callable[[], T], decide: Callable[..., T], numbers: Mapping[int, Sequence[Any]]) -> T:
        """Result of decide(*sums over all chunks), which `ask` gets from the other ranks; foreseen as `answer` is.

        `numbers`: float64 (1,) each, of the chunks of this rank.
        """
        return ask()

    def foreseeing(
        self, key: Hashable, owned: Sequence[int] = (), agree: Agree | None = None
    ) -> AbstractContextManager[Foresight]:
        """Context of a set-up on this thread that may go on with the answers of an earlier one instead of waiting.

        What it makes is void unless these are confirmed: see `Foresight`. Until then `synchronize` does not wait.

        `key`: all that the set-up depends on, beside numbers on the device. `agree`: of several ranks, which foresee
        together or not at all; None for one chunk.
        """
        return nullcontext(Foresight())

    def in_order(self) -> AbstractContextManager[None]:
        """Context in which this thread's kernels start one after the other; `synchronize` waits at its end alone."""
        return nullcontext()

    def deferring(self, *, together: bool = False) -> AbstractContextManager[None]:
        """Context in which `defer` may put work off; what is left of it in the end is not done.

        together: whether other ranks wait for this one meanwhile, which do it in the same waits.
        """
        return nullcontext()

    def defer(self, work: Callable[[], object], *, brief: bool = False) -> None:
        """Do some work without a waiter, now or while this thread waits for a device; brief: one in each wait."""
        work()

    def confirming(self) -> AbstractContextManager[Callable[[], bool]]:
        """Context around a set-up that foresees: its answers are confirmed at the end of this context, not at its own.

        Meanwhile the host may do what needs no numbers. It gives a function that tells whether anything is open.
        UnforeseenError at its end.
        """
        return nullcontext(lambda: False)

    def reusing(self) -> AbstractContextManager[None]:
        """Context of a set-up: memory of the host that it frees serves what it makes next."""
        return nullcontext()

    def give_back(self) -> None:  # noqa: B027  # a GPU's kernels leave none
        """Return memory of the host that was freed to the system, where it is much."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all kernels launched by this thread have run."""

    def tidy(self, rows: int, *, always: bool = False) -> None:  # noqa: B027  # a CPU's memory needs none
        """Return memory that set-up has freed to the device, where that is much of what is left there.

        A pool would cut it for smaller arrays that stay; the rest of it then serves no larger one.

        `always`: however little it is.
        """


@cache
def _carried(name: str) -> Callable[..., None]:
    def call(carrier: Any, *operands: Any) -> None:
        getattr(carrier, name)(*operands)

    return call
