// Products of compressed rows whose entries come in full blocks of R x C: T threads for the R rows of a block. Values are where
// compressed rows have them; a block has one column, and each x that is read is multiplied by R entries: 4 + 4 / (R C) bytes an
// entry in float32 in place of 8. Sums of a row have the order of csr/rows.cu with as many threads.

#include "slices.cuh"
#include "sparse/finish.cuh"

constexpr int THREADS = 256;

#define BLOCKS In<i64> start, In<int> columns, In<real> values

// The sums of the rows of block row `node` over the entries of this lane of T.
template <int T, int R, int C, typename X>
DEVICE void node_part(BLOCKS, const X x, int node, int lane, real (&sum)[R]) {
    constexpr int FLIGHT = R > 3 ? 2 : 3;
    const i64 first = __ldg(start + node);
    const int length = static_cast<int>(__ldg(start + node + 1) - first) * C;
    const int* const of_node = columns + first;
    const real* const mine = values + first * (R * C);
    for (int o = lane; o < length; o += FLIGHT * T) {
        int c[FLIGHT];
        real a[FLIGHT][R], b[FLIGHT];
        UNROLLED for (int k = 0; k < FLIGHT; ++k) {
            const int at = o + k * T;
            c[k] = at < length ? C * __ldg(of_node + at / C) + at % C : -1;
        }
        UNROLLED for (int k = 0; k < FLIGHT; ++k)
            UNROLLED for (int r = 0; r < R; ++r)
                a[k][r] = c[k] < 0 ? real(0) : __ldcs(mine + r * static_cast<i64>(length) + o + k * T);
        UNROLLED for (int k = 0; k < FLIGHT; ++k) b[k] = c[k] < 0 ? real(0) : x[c[k]];
        UNROLLED for (int k = 0; k < FLIGHT; ++k)
            UNROLLED for (int r = 0; r < R; ++r) sum[r] = fma(a[k][r], b[k], sum[r]);
    }
}

// Lane r finishes row r. Dot products are left to csr/rows.cu: their parts would be those of other rows.
template <int T, int R, int C, int KIND>
DEVICE void multiply(BLOCKS, const Finish finish, int nodes) {
    static_assert(T >= R, "a lane for each row");
    next_may_start();
    const i64 thread = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    const int lane = threadIdx.x % T;
    const bool mine = thread / T < nodes;
    const int node = mine ? static_cast<int>(thread / T) : nodes - 1;
    wait_for_last_launch();
    real sum[R] = {};
    node_part<T, R, C>(start, columns, values, finish.read<KIND>(), node, lane, sum);
    real own = 0;
    UNROLLED for (int r = 0; r < R; ++r) {
        UNROLLED for (int distance = T / 2; distance > 0; distance /= 2)
            sum[r] += __shfl_xor_sync(ALL_LANES, sum[r], distance);
        if (lane == r) own = sum[r];
    }
    if (mine && lane < R) finish.write<KIND>(static_cast<i64>(node) * R + lane, own);
}

#define FINISHED_BY(T, R, C, NAME, KIND)                                                                              \
    ENTRY __launch_bounds__(THREADS) NAME##_##T##_##R##_##C(BLOCKS, FINISH, int nodes) {                              \
        multiply<T, R, C, KIND>(start, columns, values, FINISHED, nodes);                                             \
    }

// What transfers need.
#define TRANSFER(T, R, C)                                                                                             \
    FINISHED_BY(T, R, C, spmv, PRODUCT)                                                                               \
    FINISHED_BY(T, R, C, sum, SUM)

#define MATRIX(T, B)                                                                                                  \
    TRANSFER(T, B, B)                                                                                                 \
    FINISHED_BY(T, B, B, residual, RESIDUAL)                                                                          \
    FINISHED_BY(T, B, B, sweep, SWEEP)                                                                                \
    FINISHED_BY(T, B, B, first, FIRST)

#define OF_THREADS(T)                                                                                                 \
    MATRIX(T, 3)                                                                                                      \
    TRANSFER(T, 3, 6)                                                                                                 \
    TRANSFER(T, 6, 3)

OF_THREADS(8)
OF_THREADS(16)
OF_THREADS(32)
