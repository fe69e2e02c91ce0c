// Interpolation and Galerkin operators where every axis is halved and no seam lies between two coarse points: everything that
// galerkin.cu asks tables for is known at compile time. Along each axis a cell is three places: a coarse point, the point between,
// a coarse point. Rows have 7 or 27 entries, in the order of dsolver.kernels.lattice.coarsening.COARSE_OFFSETS.
//
// Sums run in the order of the NumPy text, one thread a coarse row or cell. What the text passes over because it is zero is added
// here: that changes no bit.

constexpr int CORNERS = 8;

// Entries that rows have, a bit for each of 27: of stars, of all, and of stars that were made coarser along one axis.
constexpr unsigned STAR = 0x417410u, BOX = 0x7ffffffu, SLAB_X = 0xe3fe38u, SLAB_Y = 0x24bfe92u, SLAB_Z = 0x2e974bau;

// How many of them there are.
__device__ constexpr int count(unsigned bits) {
    bits -= bits >> 1 & 0x55555555u;
    bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
    return (bits + (bits >> 4) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

// Whether rows have entry o, and which one it is.
template <unsigned KIND>
__device__ constexpr bool has(int o) { return KIND >> o & 1u; }
template <unsigned KIND>
__device__ constexpr int slot_of(int o) { return count(KIND & ((1u << o) - 1u)); }

// The first of a block's X x Y x Z items of nx x ny x ... ones. A grid's blocks are counted along x alone, where there may be more of them.
template <int X, int Y, int Z>
DEVICE int3 tile_of(int nx, int ny) {
    const unsigned along = (nx + X - 1) / X, lines = (ny + Y - 1) / Y, block = blockIdx.x;
    return make_int3(block % along * X, block / along % lines * Y, block / along / lines * Z);
}

// A chunk alone in a grid without periodic axes may come without ghost layers: bare is how many there would be then, else 0. Points
// of these layers are not read.
#define HALVED int nx, int ny, int nz, In<double> weights, i64 weight_stride, int weight_step, int bare
#define FORWARDED nx, ny, nz, weights, weight_stride, weight_step, bare
