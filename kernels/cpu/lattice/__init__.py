"""Set-up of lattices on a CPU: loops along lines of points."""
