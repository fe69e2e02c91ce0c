"""Operations on the rows of complex matrices, where their arrays lie."""

from dsolver.kernels.cpu.csr import complex_look, gauge
from dsolver.kernels.cpu.loops.team import Team, of_team


class ComplexRows:
    """Operations on rows, complex128, on the host. Methods are the functions of their names."""

    def __init__(self, team: Team) -> None:
        self.team = team

    mirrors = of_team(complex_look.mirrors)
    row_sums = of_team(complex_look.row_sums)
    row_parts = of_team(complex_look.row_parts)
    largest_squares = of_team(gauge.largest_squares)
    relaxed = of_team(gauge.relaxed)
    turned_rows = of_team(gauge.turned_rows)
    collapsed = of_team(gauge.collapsed)
