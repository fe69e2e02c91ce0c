// Interpolation where every axis is halved, from rows below stars that were made coarser along one axis.

#include "device.cuh"
#include "lattice/lattice.cuh"
#include "lattice/halving/halving.cuh"
#include "lattice/halving/cells.cuh"

INTERPOLATE(slab_x, SLAB_X)
INTERPOLATE(slab_y, SLAB_Y)
INTERPOLATE(slab_z, SLAB_Z)
