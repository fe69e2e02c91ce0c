// Products of slices of 32 rows of blocks: a warp a slice, a thread a row of blocks. The kernels of a size of blocks: SPMV.
// Bytes an entry: 8 and a column's 4, 2 or 1/8 shared by the B x B entries of a block.
constexpr int WARPS = 4;   // of a block
constexpr int AT_ONCE[] = {0, 32 / sizeof(real), 2, 2, 1, 1, 1};   // blocks that a thread requests at a time, by B

// sum += COUNT blocks of this lane, whose columns are c.
template <int B, int COUNT, typename X>
DEVICE void add_blocks(real* sum, const real* values, const int* c, const X x) {
    real a[COUNT][B * B], b[COUNT][B];
    UNROLLED for (int k = 0; k < COUNT; ++k)
        UNROLLED for (int e = 0; e < B * B; ++e) a[k][e] = __ldcs(values + (k * B * B + e) * SLICE);
    UNROLLED for (int k = 0; k < COUNT; ++k)
        UNROLLED for (int j = 0; j < B; ++j) b[k][j] = x[static_cast<i64>(c[k]) * B + j];
    UNROLLED for (int k = 0; k < COUNT; ++k)
        UNROLLED for (int i = 0; i < B; ++i)
            UNROLLED for (int j = 0; j < B; ++j) sum[i] = fma(a[k][i * B + j], b[k][j], sum[i]);
}

// The last entry columns k .. width - 1 of single entries, at most COUNT, in one round of memory's latency.
template <int COUNT, typename Column>
DEVICE real add_last(real sum, const real* values, int k, int width, const real* x, const Column& column) {
    int c[COUNT];
    real a[COUNT], b[COUNT];
    UNROLLED for (int n = 0; n < COUNT; ++n) if (k + n < width) c[n] = column(k + n);
    UNROLLED for (int n = 0; n < COUNT; ++n) a[n] = k + n < width ? __ldcs(values + n * SLICE) : real(0);
    UNROLLED for (int n = 0; n < COUNT; ++n) b[n] = k + n < width ? x[c[n]] : real(0);
    UNROLLED for (int n = 0; n < COUNT; ++n) if (k + n < width) sum = fma(a[n], b[n], sum);
    return sum;
}

// Entry columns k .. width - 1, COUNT at a time and what is left in powers of two; column(k) is of this lane.
template <int B, int COUNT, typename X, typename Column>
DEVICE void add_in_powers(real* sum, const real*& values, int& k, int width, const X x, const Column& column) {
    for (; k + COUNT <= width; k += COUNT, values += COUNT * B * B * SLICE) {
        int c[COUNT];
        UNROLLED for (int n = 0; n < COUNT; ++n) c[n] = column(k + n);
        add_blocks<B, COUNT>(sum, values, c, x);
    }
    if constexpr (COUNT > 1) add_in_powers<B, COUNT / 2>(sum, values, k, width, x, column);
}

// The same of WIDE slices of single entries, which take what is left, up to LAST, in one round: on the second level of a
// 7-point lattice, 36 a row, products took 0.83 so. Lattices of 7 points and P, of up to 4, took 1.03 and 1.3.
template <int B, int COUNT, bool WIDE, typename X, typename Column>
DEVICE void add_columns(real* sum, const real*& values, int& k, int width, const X x, const Column& column) {
    constexpr int LAST = 8;
    if constexpr (WIDE) {
        for (; k + LAST < width; k += COUNT, values += COUNT * SLICE) {
            int c[COUNT];
            UNROLLED for (int n = 0; n < COUNT; ++n) c[n] = column(k + n);
            add_blocks<B, COUNT>(sum, values, c, x);
        }
        sum[0] = add_last<LAST>(sum[0], values, k, width, x, column);
        values += (width - k) * SLICE;
        k = width;
    } else {
        add_in_powers<B, COUNT>(sum, values, k, width, x, column);
    }
}

// sum += the products of a slice's entries, of this lane's row of blocks.
template <int B, bool WIDE, typename X>
DEVICE void add_slice(real* sum, const uint4 packed, const unsigned short* indices, const real* values, const X x) {
    const int lane = lane_number(), width = static_cast<int>(packed.z) >> 2, kind = packed.z & 3u;
    const int base = static_cast<int>(packed.w);
    const real* from = values + static_cast<i64>(packed.x) * (B * B * SLICE) + lane;
    const unsigned short* at = indices + static_cast<i64>(packed.y) * UNIT;
    int k = 0;
    if (kind == RUN) {
        const int* bases = reinterpret_cast<const int*>(at);
        for (int begin = 0; begin < width; begin += SLICE) {
            const int end = min(width - begin, SLICE);
            const int mine = lane < end ? __ldg(bases + begin + lane) : 0;
            k = 0;
            add_columns<B, AT_ONCE[B], WIDE>(
                sum, from, k, end, x, [&](int n) { return __shfl_sync(ALL_LANES, mine, n) + lane; });
        }
    } else if (kind == NEAR) {
        at += lane;
        add_columns<B, AT_ONCE[B], WIDE>(
            sum, from, k, width, x, [&](int n) { return base + static_cast<int>(__ldcs(at + n * SLICE)); });
    } else {
        const int* columns = reinterpret_cast<const int*>(at) + lane;
        add_columns<B, AT_ONCE[B], WIDE>(sum, from, k, width, x, [&](int n) { return __ldcs(columns + n * SLICE); });
    }
}

DEVICE uint4 packed_slice(const BlockSlice* slice) { return __ldg(reinterpret_cast<const uint4*>(slice)); }

template <int B, bool WIDE, int KIND, bool WITH_DOT>
DEVICE void multiply(
    const BlockSlice* slices, const unsigned short* indices, const real* values, const int* row, const Finish finish,
    double* partials, int count, int rows
) {
    next_may_start();
    const int s = warp_number(), lane = lane_number();
    if (s >= count) return;
    const uint4 packed = packed_slice(slices + s);
    const int own = row ? __ldg(row + s * SLICE + lane) : s * SLICE + lane;
    const bool there = row ? own >= 0 : own < rows;
    // A FIRST of single entries takes 0.92 to 0.94 of its time if it requests its own items before the sum is made; a product or
    // sweep that does so takes 1.07 to 1.3.
    constexpr bool EARLY = KIND == FIRST && B == 1;
    real own_r = 0, own_w = 0;
    wait_for_last_launch();
    if (EARLY && there) { own_r = finish.r[own]; own_w = finish.w[own]; }
    real sum[B] = {};
    add_slice<B, WIDE>(sum, packed, indices, values, finish.read<KIND>());
    double part = 0.0;
    if (EARLY && there) finish.write_first(own, sum[0], own_r, own_w);
    if (!EARLY && there) {
        UNROLLED for (int i = 0; i < B; ++i) {
            const i64 p = static_cast<i64>(own) * B + i;
            const real result = finish.write<KIND>(p, sum[i]);
            if constexpr (WITH_DOT) part = fma(finish.beside<KIND>(p), static_cast<double>(result), part);
        }
    }
    if constexpr (WITH_DOT) {
        part = warp_sum(part);
        if (lane == 0) partials[s] = part;
    }
}

#define SLICES In<BlockSlice> slices, In<unsigned short> indices, In<real> values, In<int> row
#define GIVEN slices, indices, values, row
#define KERNEL(NAME) ENTRY __launch_bounds__(WARPS * SLICE) NAME

#define FINISHED_BY(B, END, WIDE, NAME, KIND)                                                                         \
    KERNEL(NAME##_##B##END)(SLICES, FINISH, int count, int rows) {                                                    \
        multiply<B, WIDE, KIND, false>(GIVEN, FINISHED, nullptr, count, rows);                                        \
    }

#define WITH_DOT(B, END, WIDE, NAME, KIND)                                                                            \
    KERNEL(NAME##_##B##END)(SLICES, FINISH, double* partials, int count, int rows) {                                  \
        multiply<B, WIDE, KIND, true>(GIVEN, FINISHED, partials, count, rows);                                        \
    }

#define SPMV(B, END, WIDE)                                                                                            \
    FINISHED_BY(B, END, WIDE, spmv, PRODUCT)                                                                          \
    WITH_DOT(B, END, WIDE, spmv_dot, PRODUCT)                                                                         \
    WITH_DOT(B, END, WIDE, sweep_dot, SWEEP)                                                                          \
    FINISHED_BY(B, END, WIDE, sum, SUM)                                                                               \
    FINISHED_BY(B, END, WIDE, residual, RESIDUAL)                                                                     \
    FINISHED_BY(B, END, WIDE, sweep, SWEEP)                                                                           \
    FINISHED_BY(B, END, false, first, FIRST)
