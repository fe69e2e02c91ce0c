// Looks at rows of a lattice, each in one pass: what they have in common, how strongly they lean towards an axis or couple along it, what is
// wrong with coefficients. Counts are whole numbers, so their order does not matter; sums are of parts, a block each, in a fixed order.

#include "device.cuh"

constexpr int THREADS = 256, PAIRS = 3;
constexpr double LARGEST = 1.7976931348623157e308;

using Word = u64;

DEVICE i64 item() { return thread_number(); }
DEVICE i64 items() { return static_cast<i64>(gridDim.x) * blockDim.x; }

// -- what the rows of a box have in common ----------------------------------------------------------------------------------

constexpr int GAINS = 6;
constexpr Word VARY = 1, MISFIT = 2;
// Words behind two for each offset.
constexpr int FLAGS = 0, WRAPS = 1, BASE = 2, GAIN = 3;

// Larger for larger numbers, none of which is 0.
DEVICE Word key_of(double value) {
    const i64 bits = __double_as_longlong(value + 0.0);   // one zero
    return bits < 0 ? ~static_cast<Word>(bits) : static_cast<Word>(bits) | 1ULL << 63;
}

DEVICE void largest(Word key, Word* out) {
    for (int lane = WARP / 2; lane > 0; lane /= 2) {
        const Word other = __shfl_xor_sync(ALL_LANES, key, lane);
        key = other > key ? other : key;
    }
    if (threadIdx.x % WARP == 0 && key) atomicMax(out, key);
}

// found: zeros at first. Words 2 k and 2 k + 1: the keys of the largest entry of offset k and of the smallest, that one with all bits
// turned; the rest as above. offsets (K, 3). Blocks are numbered by offset along y. The entries probe[0], [1], [2] of offset `probed`
// are read before all others: where they differ nothing else is read. 8 K bytes a row, and numbers beside the box.
ENTRY alike(
    In<double> weights, In<int> numbering, In<int> offsets, int diagonal, int nx, int ny, int nz, int probed, int first,
    int middle, int last, double rounding, double canceled, Word* found
) {
    const int rows = nx * ny * nz, size[3] = {nx, ny, nz}, k = blockIdx.y;
    const i64 line = nx + 2, plane = line * (ny + 2), origin = 1 + line + plane;
    Word* const rest = found + 2 * gridDim.y;
    if (probed >= 0) {
        const double* const values = weights + static_cast<i64>(probed) * rows;
        const double a = __ldg(values + first), b = __ldg(values + middle), c = __ldg(values + last);
        if (!(a == b && b == c)) {
            if (item() == 0 && k == 0) rest[FLAGS] = VARY;
            return;
        }
    }
    const double* const values = weights + static_cast<i64>(k) * rows;
    if (k != diagonal) {
        const int di = __ldg(offsets + 3 * k), dj = __ldg(offsets + 3 * k + 1), dk = __ldg(offsets + 3 * k + 2);
        const i64 step = di + line * dj + plane * dk;
        Word high = 0, low = 0;
#pragma unroll 4
        for (unsigned n = item(); n < rows; n += items()) {
            const int row = n, along = row / nx, x = row - along * nx, y = along % ny, z = along / ny;
            const bool inside = x + di >= 0 && x + di < nx && y + dj >= 0 && y + dj < ny && z + dk >= 0 && z + dk < nz;
            if (!inside && __ldg(numbering + origin + x + line * y + plane * z + step) < 0) continue;
            const Word key = key_of(__ldg(values + row)), turned = ~key;
            high = key > high ? key : high;
            low = turned > low ? turned : low;
        }
        largest(high, found + 2 * k);
        largest(low, found + 2 * k + 1);
        return;
    }
    // What the diagonal gains at each face, beside the point that stands for the inside.
    __shared__ double gains[GAINS];
    const i64 stride[3] = {1, nx, static_cast<i64>(nx) * ny};
    i64 inner = 0;
    for (int a = 0; a < 3; ++a) inner += size[a] > 2 ? stride[a] : 0;
    const double base = __ldg(values + inner);
    if (threadIdx.x < GAINS) {
        const int a = threadIdx.x / 2, side = threadIdx.x % 2, n = size[a];
        const i64 place = inner + stride[a] * ((side ? n - 1 : 0) - (n > 2 ? 1 : 0));
        gains[threadIdx.x] = (side ? n > 1 : n > 2) ? __ldg(values + place) - base : 0.0 * base;
    }
    __syncthreads();
    bool misfits = false;
#pragma unroll 4
    for (unsigned n = item(); n < rows; n += items()) {
        const int row = n, along = row / nx, at[3] = {row - along * nx, along % ny, along / ny};
        const double value = __ldg(values + row), allowed = rounding * fabs(value), most = canceled * fabs(value);
        double left = value - base;
        for (int a = 0; a < 3; ++a) {
            if (at[a] == 0) left -= gains[2 * a];
            if (at[a] == size[a] - 1) left -= gains[2 * a + 1];
        }
        misfits |= !(fabs(left) <= allowed && fabs(base) <= most);
    }
    if (__ballot_sync(ALL_LANES, misfits) && threadIdx.x % WARP == 0) atomicMax(rest + FLAGS, MISFIT);
    if (item() == 0) {
        Word wraps = 0;
        for (int a = 0; a < 3; ++a) {
            const int number = __ldg(numbering + origin - (a == 0 ? 1 : a == 1 ? line : plane));
            wraps |= number >= 0 && number < rows ? 1ULL << a : 0;
        }
        rest[WRAPS] = wraps;
        rest[BASE] = __double_as_longlong(base);
        for (int i = 0; i < GAINS; ++i) rest[GAIN + i] = __double_as_longlong(gains[i]);
    }
}

// -- how strongly rows lean towards an axis ---------------------------------------------------------------------------------

// See dsolver.kernels.lattice.statistics.leanings. both (3, 2): the offsets to the next point and to the last one along each axis.
DEVICE void leanings_of(In<double> weights, In<int> both, i64 rows, i64 row, double (&lean)[PAIRS]) {
    double size[3];
    UNROLLED for (int a = 0; a < 3; ++a) {
        const double ahead = fabs(__ldg(weights + __ldg(both + 2 * a) * rows + row));
        const double behind = fabs(__ldg(weights + __ldg(both + 2 * a + 1) * rows + row));
        size[a] = log(fmax(ahead, behind));   // no finite number where there are no couplings
    }
    lean[0] = size[0] - size[1];
    lean[1] = size[0] - size[2];
    lean[2] = size[1] - size[2];
}

template <int COUNT>
DEVICE void sum_block(double (&sum)[COUNT], double* out, int stride) {
    __shared__ double shared[COUNT][THREADS];
    for (int i = 0; i < COUNT; ++i) shared[i][threadIdx.x] = sum[i];
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            for (int i = 0; i < COUNT; ++i) shared[i][threadIdx.x] += shared[i][threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        for (int i = 0; i < COUNT; ++i) out[i * stride] = shared[i][0];
}

// parts (6, blocks): for each pair of axes the sum of leanings and their number. 48 bytes a row.
ENTRY leanings(In<double> weights, In<int> both, i64 rows, Out<double> parts) {
    double sum[2 * PAIRS] = {};
    for (i64 row = item(); row < rows; row += items()) {
        double lean[PAIRS];
        leanings_of(weights, both, rows, row, lean);
        for (int i = 0; i < PAIRS; ++i)
            if (fabs(lean[i]) <= LARGEST) {
                sum[2 * i] += lean[i];
                sum[2 * i + 1] += 1.0;
            }
    }
    sum_block(sum, parts + blockIdx.x, gridDim.x);
}

// out (n) of parts (n, count): their sums, a block each.
ENTRY totals(In<double> parts, int count, Out<double> out) {
    double sum[1] = {};
    for (int i = threadIdx.x; i < count; i += THREADS) sum[0] += parts[blockIdx.x * count + i];
    sum_block(sum, out + blockIdx.x, 1);
}

constexpr int LIMITS = 4;

// out (count), zeros at first: how many rows lean further from the means than each of at most LIMITS limits. sums (PAIRS, 2): of how
// far rows lean and of how many they are. 48 bytes a row.
ENTRY turns(In<double> weights, In<int> both, i64 rows, In<double> sums, In<double> limits, int count, double* out) {
    double means[PAIRS];
    for (int i = 0; i < PAIRS; ++i) means[i] = sums[2 * i + 1] > 0.0 ? sums[2 * i] / sums[2 * i + 1] : 0.0;
    double limit[LIMITS];
    int turned[LIMITS] = {};
    UNROLLED for (int i = 0; i < LIMITS; ++i) limit[i] = i < count ? __ldg(limits + i) : LARGEST;
    for (i64 row = item(); row < rows; row += items()) {
        double lean[PAIRS], far = 0.0;
        leanings_of(weights, both, rows, row, lean);
        for (int i = 0; i < PAIRS; ++i)
            if (fabs(lean[i]) <= LARGEST) far = fmax(far, fabs(lean[i] - means[i]));
        UNROLLED for (int i = 0; i < LIMITS; ++i) turned[i] += far > limit[i];
    }
    UNROLLED for (int i = 0; i < LIMITS; ++i) {
        const int all = __reduce_add_sync(ALL_LANES, turned[i]);
        if (all && threadIdx.x % WARP == 0) atomicAdd(out + i, static_cast<double>(all));
    }
}

// -- couplings along axes --------------------------------------------------------------------------------------------------

constexpr int AXES = 3;

// parts (3, blocks): for each axis the sum over rows of -w_o / w_0 over all offsets o that step along it; bit a of steps[k] says
// whether offset k steps along axis a.
ENTRY couplings(In<double> weights, In<int> steps, int entries, int diagonal, i64 rows, Out<double> parts) {
    double sum[AXES] = {0.0, 0.0, 0.0};
    for (i64 row = item(); row < rows; row += items()) {
        double across[AXES] = {0.0, 0.0, 0.0};
#pragma unroll 3
        for (int k = 0; k < entries; ++k) {   // the diagonal's, too, which adds nothing: so that loads need not wait for `along`
            const int along = __ldg(steps + k);
            const double weight = __ldg(weights + k * rows + row);
            for (int a = 0; a < AXES; ++a) across[a] -= along >> a & 1 ? weight : 0.0;
        }
        const double own = __ldg(weights + diagonal * rows + row);
        for (int a = 0; a < AXES; ++a) sum[a] += across[a] / own;
    }
    sum_block(sum, parts + blockIdx.x, gridDim.x);
}

// -- diagonals -------------------------------------------------------------------------------------------------------------

// out: 0 at first, 1 where the couplings of some row are together more than a part of its diagonal: `statistics.outweighed`.
ENTRY outweighed(In<double> weights, int offsets, int center, i64 rows, double part, double* out) {
    int found = 0;
    for (i64 row = item(); row < rows; row += items()) {
        double couplings = 0.0;
        for (int k = 0; k < offsets; ++k)
            if (k != center) couplings += fabs(__ldg(weights + k * rows + row));
        const double diagonal = __ldg(weights + center * rows + row);
        found |= !(couplings <= part * diagonal && diagonal > 0.0);
    }
    if (__any_sync(ALL_LANES, found) && threadIdx.x % WARP == 0) *out = 1.0;
}

// -- what is wrong with coefficients ----------------------------------------------------------------------------------------

// out: 0 at first, how many of the values are below `least`, or equal to it where it is left out, or infinite, or no number.
ENTRY unfit(In<double> values, i64 count, double least, int left_out, int* out) {
    int wrong = 0;
#pragma unroll 4
    for (i64 i = item(); i < count; i += items()) {
        const double value = __ldg(values + i);
        wrong += !((left_out ? value > least : value >= least) && value <= LARGEST);
    }
    wrong = __reduce_add_sync(ALL_LANES, wrong);
    if (wrong && threadIdx.x % WARP == 0) atomicAdd(out, wrong);
}
