"""Set-up on several GPUs on paper: seconds until all levels are there, by what takes them.

Kernels move bytes, by the largest chunk; where the host leads, launches and waits count, as many as were counted on 2,
4 and 8 ranks. Whatever comes from all ranks is counted for each of them. See docs/decisions/setup-on-many-gpus.md.
"""

import math
from typing import Final

from dsolver.cost import traffic
from dsolver.cost.links import Fabric
from dsolver.cost.memory import part_of
from dsolver.cost.seconds import Seconds, call_seconds
from dsolver.distributed.forecast import F64
from dsolver.grid.box import three
from dsolver.program.spec import SolveSpec

CALLS: Final = 2  # of all ranks through Dask: they are opened, and join each other
MESSAGE: Final = 0.13e-3  # seconds of the host: six launches and copies of 22 µs
ROUND: Final = 0.4e-3  # seconds that the slower one of two ranks lets the other wait in a round of messages
FRAME: Final = 0.1e-3  # seconds of a number that each rank of a host asks of each other one
PAIR: Final = 20e-9  # seconds of the host for two chunks in a table, made by Python: 4096 chunks on one core


def of_setup(spec: SolveSpec, gpus: int, fabric: Fabric, bandwidth: float) -> Seconds:
    """Seconds of set-up with a chunk of the partition on each of so many GPUs, of this bandwidth each."""
    number = spec.partition.number(three("place", (count // 2 for count in spec.partition.counts)))
    made = spec.preconditioner.forecast(part_of(spec, number, cuda=True)).making
    control = CALLS * call_seconds(gpus) + fabric.link(gpus).start
    if made is None:
        moved = traffic.of_chunk(spec, number) / spec.traits.products
        work = spec.preconditioner.setup_seconds(spec.problem, moved / bandwidth)
        return Seconds(work=work, control=control)
    (cut, alone), (host, beside), late = made.levels, made.host, ROUND * math.log2(gpus)
    work, small = made.moved / bandwidth + host * cut, made.whole / bandwidth + host * alone
    if not cut:
        work, small = work + small, 0.0
    halo = beside * cut + late * made.rounds + MESSAGE * made.messages
    if cut:
        halo += fabric.exchange(made.sent, gpus)
        small += fabric.gather(made.gathered, gpus) + MESSAGE * (gpus - 1) * bool(alone)
    asked = FRAME * (gpus - 1) if gpus <= fabric.per_host else fabric.sum(gpus) + gpus * F64 / fabric.network.bandwidth
    sums = made.questions * (late + asked)
    control += PAIR * gpus**2 * made.tables
    return Seconds(work=work, halo=halo, sums=sums, small=small, control=control)
