"""Labels of tasks, which Dask's dashboard groups and colors them by."""

from typing import Final

from dsolver.kernels.contract import Kernel

# The dashboard groups tasks by the words before the first digit. It also ends a name at a later word of eight letters
# that begins with a to f, which it takes for a hash: hence `halo-exchanges`, and `coarsest` as a first word.
LABELS: Final = {
    "dense_solve": "coarsest-direct",
    "direct_part": "whole-part",
    "direct_solve": "solve-by-factors",
    "dot": "dot-partial",
    "forward": "forward-half-sweep",
    "load": "load-block",
    "move": "move-rows",
    "pack": "halo-pack",
    "prolong_add": "prolong",
    "add_halo_dot": "boundary-spmv",
    "sweep_backward": "backward-seidel",
    "times_halo": "boundary-residual",
    "times_halo_dot": "boundary-spmv",
    "restrict_full": "full-restrict",
    "spmv": "inner-spmv",
    "spmv_dot": "inner-spmv",
    "spmv_halo": "boundary-spmv",
    "subtract_halo": "boundary-postsmooth",
    "update_x_r": "update-iterate",
    "upper_residual": "upper-sum",
}
"""Names of tasks on the dashboard, by kernel; others have the label of their description, or their name with hyphens.

A name's color is a hash of it, one of 19. These names are chosen so that all operations of an iteration with the same
preconditioner have different ones (a test knows which). Boundary rows come in two steps of one name: times the halo,
which may run beside the inner rows, and added.
"""


def label_of(kernel: Kernel) -> str:
    """The name of a kernel's tasks."""
    return kernel.label or LABELS.get(kernel.name, kernel.name.replace("_", "-"))


EXCHANGE: Final = "halo-exchanges"
MESSAGE: Final = "message"
DELIVER: Final = "messages-received"
REDUCE: Final = "dot-reduce"
PARTIAL: Final = LABELS["dot"]
KEPT: Final = "kept-values"
