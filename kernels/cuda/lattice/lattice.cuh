// A lattice with ghost layers, as the kernels of interpolation and Galerkin operators get it.

constexpr int OUTSIDE = -1, FIRST = 0, SECOND = 1, BETWEEN = 2;   // kinds of dsolver.kernels.lattice.coarsening
constexpr int LOWER = 1, UPPER = 2;
constexpr int POINTS = 27, CENTER = 13;
constexpr double NEGLIGIBLE = 1e-13;

// A place along one axis.
struct __align__(16) Place {
    int kind, base, open, unused;
};

// Which step of an axis is numbered how: -1, 0, 1 along x, y, z as 0 .. 26.
__device__ constexpr int step_of(int number, int stride) { return number / stride % 3 - 1; }

DEVICE bool leaves(int step, int open) { return (step < 0 && !(open & LOWER)) || (step > 0 && !(open & UPPER)); }

struct Lattice {
    int nx, ny, nz;
    i64 points;        // of the ghosted box
    const int* slots;        // (27), place of each offset in the weights, or -1
    const double* weights;
    i64 weight_stride; // between two offsets
    int weight_step;         // 1 for a value per row, 0 for one for all

    __device__ i64 place(int x, int y, int z) const { return x + static_cast<i64>(nx) * (y + static_cast<i64>(ny) * z); }
    __device__ double weight(int slot, i64 point) const {
        return __ldg(weights + slot * weight_stride + weight_step * point);
    }
};

#define LATTICE int nx, int ny, int nz, In<int> slots, In<double> weights, \
    i64 weight_stride, int weight_step, In<Place> places
#define MAKE_LATTICE {nx, ny, nz, static_cast<i64>(nx) * ny * nz, slots, weights, weight_stride, weight_step}
