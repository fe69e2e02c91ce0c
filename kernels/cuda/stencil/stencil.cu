// SpMV with constant stencils, for any grid and device: no matrix is read, so x is read and y written once, 16 bytes a row.
// march.cu does the same faster where lines are long and even.
//
// A block owns a tile of W * BX points along x and R * BY lines along y, and walks along z. Planes of the tile, with one
// more vector at each end of a line and one more line on each side, come into shared memory by asynchronous copies, SLOTS - 1
// planes ahead: that is what keeps enough bytes in flight, with no register waiting for them. Outside the domain they write
// zeros. A plane is read once and adds to the sums of the planes before, at and after it, so entries are added in lattice
// order. Blocks run x first, then y, then z, so that what one block reads is in L2 when its neighbor asks for it.

#include "slices.cuh"
#include "stencil/stencil.cuh"
#include "stencil/products.cuh"

#define FOLLOW_LAST() next_may_start(); wait_for_last_launch();

// The best of 70 shapes measured for 512^3 (bench/stencil.py).
constexpr int BX = 64, BY = 8, ROWS = 2, SLOTS = 3;
constexpr int WIDE = 16 / sizeof(real);   // values of a vector where lines begin at multiples of it

// Where a block and a thread are, and the ring of planes in shared memory: BYTES of it in kernels/cuda/stencil/setup.py.
template <int W, int R> struct Tile {
    static constexpr int PITCH = BX + 2, LINES = BY * R + 2, VECTORS = PITCH * LINES, THREADS = BX * BY;
    static constexpr int COPIES = (LINES + BY - 1) / BY, ENDS = (2 * LINES + THREADS - 1) / THREADS;

    const Stencil& a;
    Values<W>* const ring;
    int thread, column, line;   // of the tile, in vectors
    int i, j;                   // of the box
    int from[COPIES], ends[ENDS];   // what this thread copies of each plane, -1 for zeros
    real gain_x[W], gain_y[R];  // what the diagonal gains at the faces along x and y

    DEVICE Tile(const Stencil& stencil, char* memory)
        : a(stencil), ring(reinterpret_cast<Values<W>*>(memory)) {
        thread = threadIdx.x;
        column = thread % BX;
        line = thread / BX * R;
        const int i0 = blockIdx.x * BX * W, j0 = blockIdx.y * BY * R;
        i = i0 + column * W;
        j = j0 + line;
        const int x = inside(i, a.nx, a.wraps & 1);
        UNROLLED for (int c = 0; c < COPIES; ++c) {
            const int y = inside(j0 + thread / BX + c * BY - 1, a.ny, a.wraps & 2);
            from[c] = x < 0 || y < 0 ? -1 : y * a.nx + x;
        }
        UNROLLED for (int c = 0; c < ENDS; ++c) {
            const int end = thread + c * THREADS;
            const int beyond = inside(i0 + (end & 1 ? BX : -1) * W, a.nx, a.wraps & 1);
            const int y = inside(j0 + end / 2 - 1, a.ny, a.wraps & 2);
            ends[c] = beyond < 0 || y < 0 ? -1 : y * a.nx + beyond;
        }
        UNROLLED for (int v = 0; v < W; ++v)
            gain_x[v] = (i + v == 0 ? a.faces[0] : 0) + (i + v == a.nx - 1 ? a.faces[1] : 0);
        UNROLLED for (int l = 0; l < R; ++l)
            gain_y[l] = (j + l == 0 ? a.faces[2] : 0) + (j + l == a.ny - 1 ? a.faces[3] : 0);
    }

    // Starts to copy plane k into a slot. Every call counts as one group of copies, even if it copies nothing.
    DEVICE void fetch(const real* x, int k, int slot) const {
        k = inside(k, a.nz, a.wraps & 4);
        const real* plane = x + static_cast<i64>(k < 0 ? 0 : k) * (a.ny * a.nx);
        Values<W>* const lines = ring + slot * VECTORS;
        UNROLLED for (int c = 0; c < COPIES; ++c) {
            const int to = thread / BX + c * BY;
            const bool there = k >= 0 && from[c] >= 0;
            if (LINES % BY == 0 || to < LINES)
                copy_ahead(lines + to * PITCH + column + 1, plane + (there ? from[c] : 0), there);
        }
        UNROLLED for (int c = 0; c < ENDS; ++c) {
            const int end = thread + c * THREADS;
            const bool there = k >= 0 && ends[c] >= 0;
            if (end < 2 * LINES)
                copy_ahead(lines + end / 2 * PITCH + (end & 1 ? BX + 1 : 0), plane + (there ? ends[c] : 0), there);
        }
        end_group();
    }

    // Vectors of a slot around this thread's own: dx vectors right, l lines from its first.
    DEVICE const Values<W>& at(int slot, int l, int dx) const {
        return ring[slot * VECTORS + (line + l + 1) * PITCH + column + dx + 1];
    }

    DEVICE const Values<W>& here(int slot, int l) const { return at(slot, l, 0); }
    DEVICE real left(int slot, int l) const { return at(slot, l, -1).at[W - 1]; }
    DEVICE real right(int slot, int l) const { return at(slot, l, 1).at[0]; }

    DEVICE bool holds(int l) const { return i < a.nx && j + l < a.ny; }

    DEVICE i64 place(int l, int k) const { return (static_cast<i64>(k) * a.ny + j + l) * a.nx + i; }
};

// The sum of a value over the block, for its first thread: a fixed tree.
DEVICE double block_sum(double value) {
    __shared__ double of_warp[SLICE];
    value = warp_sum(value);
    if (threadIdx.x % SLICE == 0) of_warp[threadIdx.x / SLICE] = value;
    __syncthreads();
    return threadIdx.x < SLICE ? warp_sum(threadIdx.x < blockDim.x / SLICE ? of_warp[threadIdx.x] : 0.0) : 0.0;
}

// y = A x, and the block's part of x . y where there is room for it.
template <typename Points, int W, int R>
DEVICE void spmv(const Stencil& a, const real* x, real* y, int planes, double* partials) {
    extern __shared__ __align__(16) char memory[];
    const Tile<W, R> tile(a, memory);
    Points points;
    const int first = blockIdx.z * planes, last = min(first + planes, a.nz);
    double dot = 0.0;
    UNROLLED for (int s = 0; s < SLOTS - 1; ++s) tile.fetch(x, first - 1 + s, s);
    int slot = 0;
    for (int k = first - 1; k <= last; ++k) {
        await_groups<SLOTS - 2>();
        __syncthreads();   // plane k is here for all, and plane k - 1 is not read any more
        const int before = slot == 0 ? SLOTS - 1 : slot - 1;
        tile.fetch(x, k + SLOTS - 1, before);
        Values<W> out[R], own[R];
        points.add(tile, k, slot, out, own);
        if (k > first) {
            UNROLLED for (int l = 0; l < R; ++l) {
                if (!tile.holds(l)) continue;
                *reinterpret_cast<Values<W>*>(y + tile.place(l, k - 1)) = out[l];
                UNROLLED for (int v = 0; v < W; ++v) dot = fma(double(out[l].at[v]), double(own[l].at[v]), dot);
            }
        }
        slot = slot == SLOTS - 1 ? 0 : slot + 1;
    }
    if (partials == nullptr) return;
    dot = block_sum(dot);
    if (threadIdx.x == 0) partials[blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)] = dot;
}

#define KERNEL(name, Points, W)                                                                                           \
    ENTRY __launch_bounds__(BX * BY) name(                                                                                \
        const __grid_constant__ Stencil a, int planes, In<real> x, Out<real> y, double* partials                          \
    ) {                                                                                                                   \
        FOLLOW_LAST()                                                                                                     \
        spmv<Points<W, ROWS>, W, ROWS>(a, x, y, planes, partials);                                                        \
    }

KERNEL(star_wide, Star, WIDE)
KERNEL(star_narrow, Star, 1)
KERNEL(box_wide, Box, WIDE)
KERNEL(box_narrow, Box, 1)

// What of a color's classes a pass uses.
struct Part {
    unsigned kept[4];   // bit q: whether entry q counts
    int classes[4];     // parities (i & 1) + 2 (j & 1) + 4 (k & 1) of points of the box
    int count;
};

// out = scale r - the sum of the kept entries times x, at the points of one color; divided by the diagonal if `solve`.
// A thread a point, and a launch a color: x comes from the caches, of which a color's launch uses every second value.
template <bool STAR>
DEVICE void color(const Stencil& a, const Part& part, real scale, int solve, const real* r, const real* x, real* out) {
    const int parity = part.classes[blockIdx.z % part.count];
    const unsigned kept = part.kept[blockIdx.z % part.count];
    const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + (parity & 1);
    const int j = 2 * (blockIdx.y * blockDim.y + threadIdx.y) + (parity >> 1 & 1);
    const int k = 2 * (blockIdx.z / part.count) + (parity >> 2);
    if (i >= a.nx || j >= a.ny || k >= a.nz) return;
    const i64 here = (static_cast<i64>(k) * a.ny + j) * a.nx + i;
    real sum = scale == real(0) ? real(0) : scale * r[here];
    UNROLLED for (int q = 0; q < 27; ++q) {
        const int dx = q % 3 - 1, dy = q / 3 % 3 - 1, dz = q / 9 - 1;
        if (q == CENTER || (STAR && dx * dx + dy * dy + dz * dz > 1) || !(kept >> q & 1u)) continue;
        const int x0 = inside(i + dx, a.nx, a.wraps & 1), y0 = inside(j + dy, a.ny, a.wraps & 2);
        const int z0 = inside(k + dz, a.nz, a.wraps & 4);
        if (x0 >= 0 && y0 >= 0 && z0 >= 0)
            sum = fma(-a.weights[q], x[(static_cast<i64>(z0) * a.ny + y0) * a.nx + x0], sum);
    }
    out[here] = solve ? sum * inverse_at(a, i, j, k) : sum;
}

#define COLOR(name, STAR)                                                                                                \
    ENTRY name(                                                                                                           \
        const __grid_constant__ Stencil a, const __grid_constant__ Part part, double scale, int solve, const real* r,     \
        const real* x, real* out                                                                                          \
    ) {                                                                                                                   \
        FOLLOW_LAST()                                                                                                     \
        color<STAR>(a, part, scale, solve, r, x, out);                                                                    \
    }

COLOR(star_color, true)
COLOR(box_color, false)
