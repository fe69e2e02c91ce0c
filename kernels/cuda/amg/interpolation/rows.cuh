// Rows of sums over two matrices, term by term in the host's order: what extended_interpolation.cu and paths.cu share.
// Needs sparse/table.cuh, sparse/staged.cuh and terms.cuh beside it.
//
// A *task* tells of row p which entries of its left matrix it has (`first`, `last`, `entry`), to what one leads (`terms`), columns
// and values of the right matrix (`column`, `product`), and what becomes of the sums (`finish`). Groups are in step; those
// that have no row call `finish` with NO_ROW.
// Rows in which few columns are found are made by a thread each (`finish_alone`), others by 8 lanes and a list of their terms,
// or by a warp and a hash table. Rows that are too long for a kernel wait for a later one: in an array with short ones in
// front and long ones at the end. How many there are only the device knows: the host launches all kernels and reads nothing.
#pragma once

constexpr int ALONE = 16;           // a thread finds fewer columns; a multiple of 4
constexpr int ALONE_BLOCKS = 8;     // on a multiprocessor: nine would have room, but threads too few registers
constexpr int LIST = 64;            // most terms of rows with 8 lanes
constexpr int WARP_ROOM = 256;      // columns that a warp finds at most in shared memory
constexpr int WARP_BITS = 9;        // its table has 1 << WARP_BITS slots
constexpr i64 NO_ROW = -1;

// Rows that wait: `rows` is the number of all.
struct Waiting {
    int* list;
    u64* counters;   // of waiting short and long rows, of those without room, and the most terms of these
    i64 rows;

    DEVICE void add(i64 p, bool is_long) const {
        const i64 at = static_cast<i64>(atomicAdd(counters + is_long, 1ull));
        list[is_long ? rows - 1 - at : at] = static_cast<int>(p);
    }
};

// All rows, with a thread each. Where a thread finds too many columns the row waits. STAGED: where rows have many entries.
template <bool STAGED, typename Task>
DEVICE void make_alone(const Task& task, const Waiting& others) {
    extern __shared__ double memory[];
    double* const sums = memory + threadIdx.x;
    int* const columns = reinterpret_cast<int*>(memory + ALONE * THREADS) + threadIdx.x;
    using Entry = typename Task::Entry;
    const Staged<Entry> staged{reinterpret_cast<Entry*>(reinterpret_cast<int*>(memory + ALONE * THREADS) + ALONE * THREADS)
        + threadIdx.x / WARP * (WARP * AT_ONCE)};
    const i64 p = static_cast<i64>(blockIdx.x) * THREADS + threadIdx.x;
    const bool mine = p < others.rows && !task.done(0, p);
    if (!STAGED && !mine) return;
    Center center;
    int n = 0, count = 0;
    const int skipped = mine ? task.skipped(p) : NONE;   // a column that is not kept
    const i64 last = mine ? task.last(p) : 0;
    i64 k = mine ? task.first(p) : 0;
    while (true) {
        const bool more = k < last && n < ALONE;
        if (STAGED ? !__any_sync(ALL_LANES, more) : !more) break;
        Entry entries[AT_ONCE];
        if constexpr (STAGED) {
            staged.read(k, more ? last : k, [&](i64 from) { return task.entry(from); });
        }
        UNROLLED for (int q = 0; q < AT_ONCE; ++q)
            if (k + q < (STAGED && !more ? k : last)) entries[q] = STAGED ? staged.at(threadIdx.x % WARP, q) : task.entry(k + q);
        const i64 end = min(last, k + AT_ONCE);
        for (int turn = 0; k < end && n < ALONE; ++turn, ++k) {
            Entry entry = entries[0];
            UNROLLED for (int q = 1; q < AT_ONCE; ++q)
                if (turn == q) entry = entries[q];
            const Terms terms = task.terms(entry);
            count = min(count + terms.count(), LONG);
            if constexpr (Task::CENTERED) {
                center.size = __dadd_rn(center.size, terms.size);
                center.center = __dadd_rn(center.center, terms.center);
            }
            if (terms.own != NONE && terms.own != skipped) add_alone(columns, sums, n, terms.own, terms.value);
            for (int m = 0; m < terms.length && n < ALONE; m += 2) {   // two at a time are on their way
                const i64 at = terms.begin + m, next = at + (m + 1 < terms.length);
                const double value = task.product(terms.factor, at), other = task.product(terms.factor, next);
                const int column = task.column(at, value), second = task.column(next, other);
                if (column != NONE && column != skipped) add_alone(columns, sums, n, column, value);
                if (next == at || second == NONE || second == skipped || n == ALONE) continue;
                add_alone(columns, sums, n, second, other);
            }
        }
    }
    if (!mine) return;
    if (n < ALONE) {
        task.finish_alone(p, columns, sums, n, center);
        return;
    }
    for (; k < last; ++k) count = min(count + task.terms(task.entry(k)).count(), LONG);
    others.add(p, count > LIST);
}

// Rows of at most CAP terms, with G lanes each. waiting: of the short rows that wait, else of all, of which others are made
// to wait unless they do already (`again`). stride: bytes of a group's memory.
template <int G, int CAP, typename Task>
DEVICE void make_listed(const Task& task, const Waiting& others, bool waiting, bool again, int most_kept, int stride) {
    extern __shared__ double memory[];
    constexpr int GROUPS = THREADS / G;
    const Group<G> group;
    const Room room(reinterpret_cast<char*>(memory) + threadIdx.x / G * stride, CAP, most_kept);
    const i64 count = waiting ? static_cast<i64>(others.counters[0]) : others.rows;
    for (i64 q = static_cast<i64>(blockIdx.x) * GROUPS; q < count; q += gridDim.x * GROUPS) {
        const i64 mine = q + threadIdx.x / G;
        i64 p = mine >= count ? NO_ROW : waiting ? others.list[mine] : mine;
        if (p != NO_ROW && task.done(group.lane, p)) p = NO_ROW;
        Center sums;
        const i64 first = p == NO_ROW ? 0 : task.first(p), last = p == NO_ROW ? 0 : task.last(p);
        int n = list_terms<CAP>(group, task, first, last, room, sums);
        if (n > CAP) {
            if (!again && group.lane == 0) others.add(p, n > LIST);
            n = 0;
            p = NO_ROW;
        }
        task.finish(group, p, room, add_list(group, room, n), sums);
        group.sync();
    }
}

// Rows with a warp each: the long rows that wait, or all. Those without room are counted, and have the length -1.
template <typename Task>
DEVICE void make_tabled(const Task& task, const Waiting& others, bool waiting, bool again, int most_kept, int stride) {
    extern __shared__ double memory[];
    const Group<WARP> group;
    const Room room(reinterpret_cast<char*>(memory) + threadIdx.x / WARP * stride, WARP_ROOM, most_kept);
    const Table table{room.after, room.after + (1 << WARP_BITS), WARP_BITS};
    const i64 count = waiting ? static_cast<i64>(others.counters[1]) : others.rows;
    const i64 warps = static_cast<i64>(gridDim.x) * (THREADS / WARP);
    for (i64 q = static_cast<i64>(blockIdx.x) * (THREADS / WARP) + threadIdx.x / WARP; q < count; q += warps) {
        const i64 p = waiting ? others.list[others.rows - 1 - q] : q;
        if (task.done(group.lane, p)) continue;
        Center sums;
        int found;
        const i64 first = task.first(p), last = task.last(p);
        if (add_terms(group, task, first, last, room, WARP_ROOM, table, found, sums)) {
            task.finish(group, p, room, found, sums);
        } else if (!again) {
            u64 terms = 0;
            for (i64 k = first + group.lane; k < last; k += WARP) terms += task.terms(task.entry(k)).count();
            terms = group.sum(terms);
            if (group.lane == 0) {
                task.lengths[p] = -1;
                atomicAdd(others.counters + 2, 1ull);
                atomicMax(others.counters + 3, terms);
            }
        }
        group.sync();
    }
}

// Rows of a list with a warp each, whose memory is in global memory: room for `most` columns, 1 << bits slots, which are
// enough for any of these rows.
template <typename Task>
DEVICE void make_far(
    const Task& task, const i64* list, int count, char* memory, i64 stride, int most, int bits, int most_kept
) {
    const Group<WARP> group;
    const Room room(memory + blockIdx.x * stride, most, most_kept);
    const Table table{room.after, room.after + (1 << bits), bits};
    for (int q = blockIdx.x; q < count; q += gridDim.x) {
        Center sums;
        int found;
        add_terms(group, task, task.first(list[q]), task.last(list[q]), room, most, table, found, sums);
        task.finish(group, list[q], room, found, sums);
        group.sync();
    }
}

// The kernels of a task: NAME_1 or NAME_staged, NAME_8, NAME_32 and NAME_far. ARGUMENTS: of its own; TASK: makes it of them.
#define ROWS(NAME, TASK, ...)                                                                                         \
    ENTRY __launch_bounds__(THREADS, ALONE_BLOCKS) NAME##_1(                                                          \
        int* list, u64* counters, i64 rows, __VA_ARGS__                                                               \
    ) {                                                                                                               \
        make_alone<false>(TASK, Waiting{list, counters, rows});                                                       \
    }                                                                                                                 \
    ENTRY __launch_bounds__(THREADS, ALONE_BLOCKS) NAME##_staged(                                                     \
        int* list, u64* counters, i64 rows, __VA_ARGS__                                                               \
    ) {                                                                                                               \
        make_alone<true>(TASK, Waiting{list, counters, rows});                                                        \
    }                                                                                                                 \
    ENTRY __launch_bounds__(THREADS) NAME##_8(                                                                        \
        int* list, u64* counters, i64 rows, int waiting, int again, int kept, int stride,                             \
        __VA_ARGS__                                                                                                   \
    ) {                                                                                                               \
        make_listed<8, LIST>(TASK, Waiting{list, counters, rows}, waiting, again, kept, stride);                    \
    }                                                                                                                 \
    ENTRY __launch_bounds__(THREADS) NAME##_32(                                                                       \
        int* list, u64* counters, i64 rows, int waiting, int again, int kept, int stride,                             \
        __VA_ARGS__                                                                                                   \
    ) {                                                                                                               \
        make_tabled(TASK, Waiting{list, counters, rows}, waiting, again, kept, stride);                               \
    }                                                                                                                 \
    ENTRY __launch_bounds__(WARP) NAME##_far(                                                                         \
        const i64* list, int count, char* memory, i64 stride, int room, int slots, int kept, __VA_ARGS__              \
    ) {                                                                                                               \
        make_far(TASK, list, count, memory, stride, room, slots, kept);                                               \
    }
