// Interpolation where every axis is halved, from rows of 7 and of 27 entries.

#include "device.cuh"
#include "lattice/lattice.cuh"
#include "lattice/halving/halving.cuh"
#include "lattice/halving/cells.cuh"

INTERPOLATE(star, STAR)
INTERPOLATE(box, BOX)
