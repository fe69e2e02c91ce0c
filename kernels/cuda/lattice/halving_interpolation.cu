// Interpolation where every axis is halved, from rows of 7 and of 27 entries.

#include "lattice/lattice.cuh"
#include "lattice/halving.cuh"
#include "lattice/halving_cells.cuh"

INTERPOLATE(star, STAR)
INTERPOLATE(box, BOX)
