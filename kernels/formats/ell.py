"""Matrix rows in ELL form: as many entries in every row, without a grid."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dsolver.kernels.formats.layout import Array


@dataclass(frozen=True, kw_only=True)
class Ell:
    """Entries of matrix rows, K in every row."""

    # int32 (K, rows), the number of each entry's column: an own one, own columns + s for halo slot s, or -1 for none.
    columns: Array
    values: Array  # float64 (K, rows)
    halo: bool = True  # whether there may be halo slots among the columns

    @property
    def numbering(self) -> Array:
        """The columns, line after line: see `CandidateRows`."""
        return self.columns.reshape(-1)

    @property
    def weights(self) -> Array:
        """The values."""
        return self.values

    @property
    def walk(self) -> tuple[int, int, int, int, int]:
        """One line of rows."""
        return self.columns.shape[1], 1, 0, 0, 0

    @property
    def star(self) -> None:
        """Nothing is known of these rows."""
        return None

    @property
    def box_offsets(self) -> None:
        """Nothing is known of these rows."""
        return None

    def steps(self) -> npt.NDArray[np.int64]:
        """First item of each line: int64 (K,)."""
        count, rows = self.columns.shape
        return np.arange(count, dtype=np.int64) * int(rows)
