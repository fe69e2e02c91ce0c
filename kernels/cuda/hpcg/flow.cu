// Small levels: a smoother's two half sweeps in one launch. A launch a color costs 3 to 4 us on a level whose color is a
// microsecond of work, and every color waits for the memory in its turn. Here the matrix is on its way into shared memory
// from the start (104 entry columns a warp and half sweep, 27 MB of a level of 64^3 points), and rows wait for the very
// values that they read and for nothing else:
//
// A value that is not known yet has the bits UNKNOWN, a NaN that no arithmetic leaves. A thread that needs it looks again
// until it is there. So there is no barrier and no flag, and no fence between data and flag: a color costs one store and
// one load through L2. Half sweeps have a vector each; each has two copies, used in turn, of which a launch clears the one
// that the next launch will use (`epoch` counts launches on the device, so a replayed graph goes on counting).
//
// A warp has one slice of every color, and works on them in the order of the sweeps. All blocks must run at once:
// the launch is a cooperative one (streams.py).
//
// Sums are formed as in sweeps.cu: the same bits.

#include "slices.cuh"
#include "hpcg/header.cuh"

constexpr int MOST_WARPS = 8;      // of a block (flow.py)
constexpr int MOST_COLUMNS = 26;   // of half a slice: those of a row of 27 points

template <int BYTES> struct WordOf;
template <> struct WordOf<8> { using type = unsigned long long; };
template <> struct WordOf<4> { using type = unsigned; };
using word = WordOf<sizeof(real)>::type;
constexpr word UNKNOWN = ~word(0);

__device__ __forceinline__ double value_of(unsigned long long bits) {
    return __longlong_as_double(static_cast<long long>(bits));
}

__device__ __forceinline__ float value_of(unsigned bits) { return __uint_as_float(bits); }

__device__ __forceinline__ unsigned long long bits_of(double value) {
    return static_cast<unsigned long long>(__double_as_longlong(value));
}

__device__ __forceinline__ unsigned bits_of(float value) { return __float_as_uint(value); }

// The part of a value that tells whether it is known: no arithmetic leaves a NaN with all of these bits.
__device__ __forceinline__ unsigned mark(unsigned long long bits) { return static_cast<unsigned>(bits >> 32); }

__device__ __forceinline__ unsigned mark(unsigned bits) { return bits; }

constexpr unsigned UNKNOWN_MARK = ~0u;

// Look again if the value is unknown. From L2: what others tell while this kernel runs is not in L1. One instruction to
// decide and one to load, no branch: a warp is nearly alone here, and its time is the number of its instructions.
__device__ __forceinline__ void look(unsigned long long& bits, const unsigned long long* where) {
    asm volatile(
        "{\n.reg .pred p;\n.reg .b32 low, high;\nmov.b64 {low, high}, %0;\nsetp.eq.u32 p, high, 0xffffffff;\n"
        "@p ld.relaxed.gpu.global.u64 %0, [%1];\n}" : "+l"(bits) : "l"(where));
}

__device__ __forceinline__ void look(unsigned& bits, const unsigned* where) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %0, 0xffffffff;\n@p ld.relaxed.gpu.global.u32 %0, [%1];\n}"
        : "+r"(bits) : "l"(where));
}

__device__ __forceinline__ void put(unsigned long long* where, unsigned long long bits) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(where), "l"(bits) : "memory");
}

__device__ __forceinline__ void put(unsigned* where, unsigned bits) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(where), "r"(bits) : "memory");
}

__device__ __forceinline__ void tell(word* where, real value) {
    const word bits = bits_of(value);
    put(where, mark(bits) == UNKNOWN_MARK ? bits >> 1 : bits);  // another NaN
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ unsigned shared_address(const void* where) {
    return static_cast<unsigned>(__cvta_generic_to_shared(where));
}

// The room of a warp in shared memory: values, then the bases of run slices, then a barrier for each step.
struct Room {
    real* values;
    int* bases;
    unsigned long long* arrived;
};

// One slice of a step as all lanes see it.
struct Part {
    unsigned start, columns;   // as in `Header`
    int first, count;          // entry columns of the slice: from first on so many
    int at;                    // where they begin in the room
    bool run;
};

__device__ __forceinline__ Part part_of(unsigned start, unsigned columns, unsigned shape, int at, bool lower) {
    const Header found = {start, columns, 0, shape};
    const int upper = found.upper(), width = found.width();
    return {start, columns, lower ? 0 : upper, lower ? upper : width - upper, at, found.run()};
}

// Ask for a part's values, by one bulk copy, and for its bases.
__device__ __forceinline__ void ask(
    const Part& part, const Room& room, int step, const real* values, const int* columns, int lane
) {
    if (part.count == 0) return;
    if (lane == 0) {
        const unsigned bytes = part.count * SLICE * static_cast<unsigned>(sizeof(real));
        const unsigned arrived = shared_address(room.arrived + step);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(arrived), "r"(bytes) : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
            :: "r"(shared_address(room.values + part.at * SLICE)),
               "l"(values + (static_cast<long long>(part.start) + part.first) * SLICE), "r"(bytes), "r"(arrived)
            : "memory");
    }
    if (part.run && lane < part.count)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
            :: "r"(shared_address(room.bases + part.at + lane)), "l"(columns + part.columns + part.first + lane)
            : "memory");
}

__device__ __forceinline__ void await_values(const Room& room, int step) {
    const unsigned arrived = shared_address(room.arrived + step);
    unsigned done;
    do {
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
            : "=r"(done) : "r"(arrived) : "memory");
    } while (!done);
}

// The product of up to COLUMNS entry columns with a vector that is being told, in order. All that does not depend on
// others is at hand before the first look. A hole has value 0 and waits for nothing: it reads the guard, where a 0 is.
template <int COLUMNS>
__device__ __forceinline__ real told_columns(
    const Part& part, const Room& room, int step, const int* columns, const word* told, int lane
) {
    const int base = part.run && lane < part.count ? room.bases[part.at + lane] : 0;
    int from[COLUMNS];
    if (part.run) {
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k) from[k] = __shfl_sync(ALL_LANES, base, k) + lane;
    } else {
        const int* const own = columns + part.columns + part.first * SLICE + lane;
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k) from[k] = k < part.count ? __ldg(own + k * SLICE) : 0;
    }
    await_values(room, step);
    const real* const values = room.values + part.at * SLICE + lane;
    real a[COLUMNS];
    word x[COLUMNS];
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k) a[k] = k < part.count ? values[k * SLICE] : real(0);
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k) {
        if (a[k] == real(0)) from[k] = 0;
        x[k] = UNKNOWN;
    }
    unsigned worst;
    do {
        worst = 0u;
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k) look(x[k], told + from[k]);
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k) worst = max(worst, mark(x[k]));
    } while (__any_sync(ALL_LANES, worst == UNKNOWN_MARK));
    real sum = 0;
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k) if (k < part.count) sum = fma(a[k], value_of(x[k]), sum);
    return sum;
}

__device__ __forceinline__ real told_product(
    const Part& part, const Room& room, int step, const int* columns, const word* told, int lane
) {
    if (part.count == 0) return 0;
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
    if (part.count <= 2) return told_columns<2>(part, room, step, columns, told, lane);
    if (part.count <= 8) return told_columns<8>(part, room, step, columns, told, lane);
    if (part.count <= 14) return told_columns<14>(part, room, step, columns, told, lane);
    if (part.count <= 20) return told_columns<20>(part, room, step, columns, told, lane);
    return told_columns<MOST_COLUMNS>(part, room, step, columns, told, lane);
}

#endif

// Forward:  w = (r - L f)/d,  f = w, or w - e - t after a coarse correction (`kept` = e, `tail` = t, which may lie in x).
// Backward: x = w - (U x)/d, and what it subtracts in `change`, if that is wanted.
//
// `plan`: first slice and number of slices of each color, in order. `told`: 4 vectors of `size`, all UNKNOWN at first but
// for a 0 in item 0, which is of the guard.
// `count`: {launches until now, blocks that know of it}.
extern "C" __global__ void __launch_bounds__(MOST_WARPS * SLICE, 1) flow(
    const Header* __restrict__ headers, const real* __restrict__ values, const int* __restrict__ columns,
    const real* __restrict__ diagonal, const real* __restrict__ r, const real* __restrict__ kept,
    const real* tail, real* w, real* change, real* x, const int* __restrict__ plan, int steps,
    int columns_of_room, word* told, int size, unsigned* count
) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) unsigned char shared[];
    next_may_start();
    const int lane = lane_number(), number = warp_number(), warp = threadIdx.x / SLICE;
    const int bytes_of_values = columns_of_room * SLICE * static_cast<int>(sizeof(real));
    const int bytes_of_bases = (columns_of_room * 4 + 15) / 16 * 16;
    unsigned char* const mine = shared + warp * (bytes_of_values + bytes_of_bases + 2 * steps * 8);
    const Room room = {
        reinterpret_cast<real*>(mine), reinterpret_cast<int*>(mine + bytes_of_values),
        reinterpret_cast<unsigned long long*>(mine + bytes_of_values + bytes_of_bases)
    };
    // Lane i knows this warp's slice of color i.
    int first = 0;
    Header own = {0, 0, 0, 0};
    bool there = false;
    if (lane < steps) {
        first = __ldg(plan + 2 * lane) + number;
        there = number < __ldg(plan + 2 * lane + 1);
        if (there) own = load_header(headers + first);
    }
    if (lane < 2 * steps)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(room.arrived + lane)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    // Where each part begins in the room: lower ones in the order of colors, upper ones in the reverse order, behind them
    // or over those that are done with.
    const int lower = own.upper(), upper = own.width() - lower;
    int lower_end = lower, upper_before = upper;
#pragma unroll
    for (int distance = 1; distance < SLICE; distance *= 2) {
        const int l = __shfl_up_sync(ALL_LANES, lower_end, distance), u = __shfl_up_sync(ALL_LANES, upper_before, distance);
        if (lane >= distance) {
            lower_end += l;
            upper_before += u;
        }
    }
    const int lower_total = __shfl_sync(ALL_LANES, lower_end, SLICE - 1);
    const int upper_total = __shfl_sync(ALL_LANES, upper_before, SLICE - 1);
    const int lower_at = lower_end - lower;
    const int upper_at = min(columns_of_room - upper_total, lower_total) + upper_total - upper_before;

#define LOWER(i) part_of(                                                                                           \
    __shfl_sync(ALL_LANES, own.start, i), __shfl_sync(ALL_LANES, own.columns, i), __shfl_sync(ALL_LANES, own.shape, i), \
    __shfl_sync(ALL_LANES, lower_at, i), true)
#define UPPER(i) part_of(                                                                                           \
    __shfl_sync(ALL_LANES, own.start, i), __shfl_sync(ALL_LANES, own.columns, i), __shfl_sync(ALL_LANES, own.shape, i), \
    __shfl_sync(ALL_LANES, upper_at, i), false)

    for (int i = 0; i < steps; ++i) ask(LOWER(i), room, i, values, columns, lane);
    int asked = steps - 1;  // upper parts of later colors than this one are on their way
    const auto ask_more = [&](int done) {  // columns of lower parts that are done with
        while (asked >= 0) {
            const Part part = UPPER(asked);
            if (part.at + part.count > done && part.at < lower_total) break;
            ask(part, room, steps + asked, values, columns, lane);
            --asked;
        }
    };
    ask_more(0);
    const auto place = [&](int i) { return (__shfl_sync(ALL_LANES, first, i) + 1) * SLICE + lane; };
    const unsigned present = __ballot_sync(ALL_LANES, there);
    const auto has = [&](int i) { return i >= 0 && i < steps && (present >> i & 1u) != 0u; };

    real d = has(0) ? __ldg(diagonal + place(0)) : real(1);
    wait_for_last_launch();
    const unsigned epoch = *reinterpret_cast<volatile unsigned*>(count);
    __syncthreads();
    // When all blocks have read it, it may change. No block waits for that.
    if (threadIdx.x == 0 && atomicAdd(count + 1, 1u) == gridDim.x - 1) {
        count[1] = 0u;
        count[0] = epoch + 1u;
    }
    word* const forward = told + static_cast<long long>(epoch & 1u) * 2 * size;
    word* const backward = forward + size;
    word* const cleared = told + static_cast<long long>(~epoch & 1u) * 2 * size;

    real right = 0, old = 0, correction = 0;
    const auto load_right = [&](int p) {
        right = __ldcs(r + p);
        if (kept) {
            old = __ldcs(kept + p);
            correction = __ldcs(tail + p);
        }
    };
    if (has(0)) load_right(place(0));
    for (int i = 0; i < steps; ++i) {
        const real own_right = right, own_old = old, own_correction = correction, own_d = d;
        const int p = place(i), next = i + 1 < steps ? place(i + 1) : 0;
        if (has(i + 1)) {
            load_right(next);
            d = __ldg(diagonal + next);
        }
        if (has(i)) {
            const Part part = LOWER(i);
            const real sum = told_product(part, room, i, columns, forward, lane);
            const real fresh = quotient(own_right - sum, own_d);
            tell(forward + p, kept ? fresh - own_old - own_correction : fresh);
            if (w) __stcg(w + p, fresh);
            __syncwarp();
            ask_more(part.at + part.count);
        }
    }
    ask_more(lower_total + columns_of_room);  // all the rest
    const auto load_own = [&](int p) {
        old = w ? __ldcg(w + p) : value_of(__ldcg(forward + p));
        d = __ldg(diagonal + p);
    };
    if (has(steps - 1)) load_own(place(steps - 1));
    for (int i = steps - 1; i >= 0; --i) {
        const real own_old = old, own_d = d;
        const int p = place(i), next = i > 0 ? place(i - 1) : 0;
        if (has(i - 1)) load_own(next);
        if (has(i)) {
            const real sum = told_product(UPPER(i), room, steps + i, columns, backward, lane);
            const real minus = quotient(sum, own_d), result = own_old - minus;
            tell(backward + p, result);
            x[p] = result;
            if (change) __stcs(change + p, minus);
            cleared[p] = UNKNOWN;
            cleared[size + p] = UNKNOWN;
        }
    }
#endif
}

// t = (U c)/d with a c that is zero but at coarse points, for all slices: what the forward sweep after a coarse correction
// subtracts.
extern "C" __global__ void __launch_bounds__(WIDEST * SLICE) coarse_change(
    SMOOTHED_MATRIX, const real* __restrict__ diagonal, const real* __restrict__ c, real* __restrict__ t, int count
) {
    next_may_start();
    const int s = warp_number();
    if (s >= count) return;
    const int lane = lane_number(), p = (s + 1) * SLICE + lane;
    const auto found = load_header(headers + s);
    const Slice slice = slice_of(found, values, columns, lane);
    const real d = __ldcs(diagonal + p);
    const Ahead ahead = request(slice, found.coarse(), slice.width, lane);
    wait_for_last_launch();
    t[p] = quotient(products(slice, ahead, found.coarse(), slice.width, c, lane), d);
}
