// Table of kernels: products A B of sparse matrices with the bits of the host's loops: kernels/cpu/amg/products.py.
//
// A group of G lanes makes a row of the result, in step with the others of its warp. It takes up to G entries of one row of B at
// a time, so that every sum has the order of the row of A; no floating-point number is added by an atomic operation. Columns
// find their sums by a hash table in shared memory. How many columns a row has is not known before, so a pass counts them and a
// second one adds up.
//
// Passes are made of stages (stage.cuh) with larger and larger tables. What the last stage leaves is for wide_rows.cu.
#include "device.cuh"
#include "sparse/table.cuh"
#include "sparse/stages/stage.cuh"
#include "sparse/stages/rooms.cuh"

constexpr int LENGTH_SHIFT = 40;
constexpr i64 MOST_LENGTH = (1 << 23) - 1;   // a row of B that is longer fills any table anyway

constexpr int BLOCK = 256;          // lanes of a sampled row, which a block counts
constexpr int EVERY = -(1 << 30);   // a `diagonal` before all columns: every one is wanted

template <>
struct Group<BLOCK> {
    int lane;
    mutable int turn;

    DEVICE Group() : lane(threadIdx.x), turn(0) {}
    DEVICE void sync() const { __syncthreads(); }
    DEVICE bool any(bool flag) const { return flag; }   // no other thread is in step
    DEVICE int most(int value) const { return value; }
};

// How many lanes before this one have a flag. All that have one are added to `total`.
template <int G>
DEVICE int ranked(const Group<G>& group, bool flag, int& total) {
    const unsigned all = group.ballot(flag);
    total += __popc(all);
    return __popc(all & group.before());
}

template <>
DEVICE int ranked<BLOCK>(const Group<BLOCK>& group, bool flag, int& total) {
    __shared__ int counts[2][BLOCK / WARP];   // in turns: lanes that are late still read those of the call before
    const unsigned all = __ballot_sync(ALL_LANES, flag);
    const int warp = group.lane / WARP, lane = group.lane % WARP;
    int* const found = counts[group.turn ^= 1];
    if (lane == 0) found[warp] = __popc(all);
    __syncthreads();
    int rank = __popc(all & ((1u << lane) - 1u));
    for (int w = 0; w < BLOCK / WARP; ++w) {
        if (w < warp) rank += found[w];
        total += found[w];
    }
    return rank;
}

// Rows of B, packed, and factors that the lanes have read, for all lanes of the group.
template <int G>
struct Taken {
    const Group<G>& group;
    u64 row;
    double factor;

    DEVICE Taken(const Group<G>& of, u64 packed, double scale)
        : group(of), row(packed), factor(scale) {}
    DEVICE u64 row_of(int lane) const { return group.from(row, lane); }
    DEVICE double factor_of(int lane) const { return group.from(factor, lane); }
    DEVICE void stop() { row = 0; }
};

template <>
struct Taken<BLOCK> {
    u64* rows;
    double* factors;

    DEVICE Taken(const Group<BLOCK>& group, u64 packed, double scale) {
        __shared__ u64 all_rows[BLOCK];
        __shared__ double all_factors[BLOCK];
        rows = all_rows;
        factors = all_factors;
        __syncthreads();   // lanes that are late still read those before
        rows[group.lane] = packed;
        factors[group.lane] = scale;
        __syncthreads();
    }
    DEVICE u64 row_of(int lane) const { return rows[lane]; }
    DEVICE double factor_of(int lane) const { return factors[lane]; }
    DEVICE void stop() {}
};

// Forget all columns. The keys begin at a multiple of 16 bytes.
template <int G>
DEVICE void clear(const Group<G>& group, int* keys, int bits) {
    int4* quads = reinterpret_cast<int4*>(keys);
    for (int quad = group.lane; quad < 1 << (bits - 2); quad += G) quads[quad] = make_int4(NONE, NONE, NONE, NONE);
    group.sync();
}

// Go through the products of a row of A, entries begin .. end, with rows of B, in the order of the host's loops.
// visit(column, value) is called by all lanes, with NONE by those that have no product: the columns of a group are distinct
// then. It says whether the row goes on. Values are made only where they are wanted. Groups are in step: those that are
// done wait until the last one of the warp is.
template <int G, bool VALUES, typename Visit>
DEVICE void walk(
    const Group<G>& group, i64 begin, i64 end, In<int> a_columns, In<double> a_values, const RightRows& b,
    In<double> b_values, Visit visit
) {
    while (true) {
        const int count = static_cast<int>(end - begin < G ? end - begin : G), most = G < WARP ? group.most(count) : count;
        if (most == 0) return;
        u64 row_of_b = 0;   // where it begins, and its length in the upper bits
        double factor = 0.0;
        if (group.lane < count) {
            i64 from, length;
            b.find(a_columns[begin + group.lane], from, length);
            row_of_b = from | (length < MOST_LENGTH ? length : MOST_LENGTH) << LENGTH_SHIFT;
            if (VALUES) factor = a_values[begin + group.lane];
        }
        begin += count;
        Taken<G> taken(group, row_of_b, factor);
        for (int q = 0; q < most; ++q) {
            const u64 packed = taken.row_of(q);
            const double scale = VALUES ? taken.factor_of(q) : 0.0;
            const i64 row = packed & (1ull << LENGTH_SHIFT) - 1ull;
            int size = static_cast<int>(packed >> LENGTH_SHIFT);
            for (int base = 0; G < WARP ? group.any(base < size) : base < size; base += G) {
                const int m = base + group.lane;
                const int column = m < size ? b.columns[row + m] : NONE;
                const double value = VALUES && m < size ? __dmul_rn(scale, b_values[row + m]) : 0.0;
                if (!visit(column, value)) {
                    if (G >= WARP) return;   // no other thread is in step
                    size = 0;
                    taken.stop();
                    begin = end;
                }
            }
        }
    }
}

// Columns of a row of A B from `least` on, or more than `most` where there are so many, or where the row of A is longer than
// `longest`.
template <int G>
DEVICE int columns_of(
    const Group<G>& group, const Table& table, int i, In<i64> a_start, In<int> a_columns, const RightRows& b,
    int most, i64 longest, int least
) {
    i64 begin = 0, end = 0;
    int found = 0;
    if (i >= 0) {
        begin = a_start[i];
        end = a_start[i + 1];
        if (end - begin > longest) {
            found = most + 1;
            begin = end;
        }
    }
    clear(group, table.keys, table.bits);
    walk<G, false>(
        group, begin, end, a_columns, nullptr, b, nullptr,
        [&](int column, double) {
            ranked(group, column != NONE && column >= least && table.enter(column), found);
            return found <= most;
        }
    );
    return found;
}

// counts[i] of rows of A B. Tables have 1 << bits slots, for `most` columns; longer rows are passed on.
EACH(G, 4, 8, 16, 32) ENTRY count_##G(
    STAGE, In<i64> a_start, In<int> a_columns, RIGHT, int bits, int most, i64 longest, Out<i64> counts
) {
    const Stage stage = THIS_STAGE;
    const RightRows b RIGHT_ROWS;
    extern __shared__ __align__(16) char memory[];
    const Group<G> group;
    const Table table{reinterpret_cast<int*>(memory) + (threadIdx.x / G << bits), nullptr, bits};
    Turns<G> turns(stage);
    while (turns.next()) {
        const int i = turns.row(), found = columns_of(group, table, i, a_start, a_columns, b, most, longest, EVERY);
        if (i >= 0 && group.lane == 0) {
            if (found <= most) counts[i] = found;
            else {
                counts[i] = 0;
                stage.pass_on(i);
            }
        }
        group.sync();   // before the next rows clear the tables
    }
}

// Row number `sample` of so many that are spread over all: one of each of equal stretches, at a place that differs from stretch
// to stretch (by the golden ratio). On a lattice, equal steps may hit the same side of it in each plane.
DEVICE int sampled_row(int sample, int samples, int rows) {
    const i64 first = static_cast<i64>(sample) * rows / samples;
    const i64 stretch = static_cast<i64>(sample + 1) * rows / samples - first;
    const unsigned turn = static_cast<unsigned>(sample) * 2654435769u;
    return static_cast<int>(min(first + (turn * stretch >> 32), rows - 1LL));
}

// Columns of sampled rows, of as many as there are blocks, from `diagonal` + i on in row i. Of longer rows than the table has
// room for it tells most + 1.
ENTRY count_some(
    int rows, In<i64> a_start, In<int> a_columns, RIGHT, int bits, int most, i64 longest, int diagonal, Out<int> counts
) {
    extern __shared__ __align__(16) char memory[];
    const Group<BLOCK> group;
    const RightRows b RIGHT_ROWS;
    const Table table{reinterpret_cast<int*>(memory), nullptr, bits};
    const int i = sampled_row(blockIdx.x, gridDim.x, rows);
    const int found = columns_of(group, table, i, a_start, a_columns, b, most, longest, i + diagonal);
    if (group.lane == 0) counts[blockIdx.x] = found <= most ? found : most + 1;
}

// Entries of sampled rows, of as many as there are threads.
ENTRY lengths_of_some(int rows, In<i64> start, Out<int> lengths) {
    const int samples = gridDim.x * blockDim.x, sample = blockIdx.x * blockDim.x + threadIdx.x;
    const int i = sampled_row(sample, samples, rows);
    lengths[sample] = static_cast<int>(start[i + 1] - start[i]);
}

// Columns and values of rows of A B, columns in the order in which they are found or ascending. Sums stand at the slots of
// the table, of which `order` tells who was found when. Rows whose numbers of entries are KNOWN go to their starts; others
// to rooms, and their numbers to `counts`: those of the first stage, of `most` entries at most, to their own ones, later ones
// to larger ones if they need them. Of row i of these the columns from `diagonal` + i on.
template <int G, bool KNOWN>
DEVICE void fill_rows(
    const Stage& stage, In<i64> a_start, In<int> a_columns, In<double> a_values, const RightRows& b,
    In<double> b_values, int bits, int most, i64 longest, bool ascending, In<i64> start, const Rooms& rooms,
    int diagonal, Out<i64> counts, Out<int> columns, Out<double> values
) {
    extern __shared__ __align__(16) char memory[];
    const Group<G> group;
    const int slots = blockDim.x / G << bits, first = threadIdx.x / G << bits;   // of the block; of this row
    double* sums = reinterpret_cast<double*>(memory) + first;
    int* keys = reinterpret_cast<int*>(memory + 8 * slots) + first;
    unsigned short* order = reinterpret_cast<unsigned short*>(memory + 12 * slots) + first;
    Turns<G> turns(stage);
    while (turns.next()) {
        const int i = turns.row();
        i64 begin = 0, end = 0, out = 0;
        int size = 0;
        bool passed = false;
        if (i >= 0) {
            begin = a_start[i];
            end = a_start[i + 1];
            out = KNOWN ? start[i] : static_cast<i64>(i) * rooms.room;
            const i64 wanted = KNOWN ? start[i + 1] - out : most;
            passed = wanted > most || end - begin > longest || (!KNOWN && stage.number && turns.at() >= rooms.count);
            if (passed) begin = end;
            else size = static_cast<int>(wanted);
        }
        const int wanted = WARP - __clz(size + size / 2);   // slots for one and a half times as many columns, if there are
        const Table table{keys, nullptr, !KNOWN ? bits : wanted < 2 ? 2 : wanted < bits ? wanted : bits};
        clear(group, keys, table.bits);
        int found = 0;
        walk<G, true>(
            group, begin, end, a_columns, a_values, b, b_values,
            [&](int column, double value) {
                if (!KNOWN && diagonal != EVERY) {
                    if (column < i + diagonal) column = NONE;
                    if (!group.any(column != NONE)) return true;
                }
                unsigned slot = 0;
                const bool fresh = column != NONE && table.look(column, slot);
                const int before = found, rank = ranked(group, fresh, found);
                if (fresh) order[before + rank] = static_cast<unsigned short>(slot);
                if (column != NONE) sums[slot] = fresh ? value : __dadd_rn(sums[slot], value);
                group.sync();
                return KNOWN || found <= most;
            }
        );
        if (!KNOWN) {
            passed = passed || found > most;
            size = passed ? 0 : found;
            if (i >= 0 && group.lane == 0) counts[i] = size;
            if (size > rooms.room) {   // to a larger room
                if (group.lane == 0) columns[out] = static_cast<int>(turns.at());
                out = rooms.behind + turns.at() * rooms.larger;
            }
        }
        if (passed && group.lane == 0) stage.pass_on(i);
        const int4* quads = reinterpret_cast<const int4*>(keys);
        for (int n = group.lane; n < size; n += G) {
            const int slot = order[n], column = keys[slot];
            int to = n;
            if (ascending) {   // as many as there are smaller ones; an empty slot is none of them
                const unsigned mine = column;
                to = 0;
                for (int quad = 0; quad < 1 << (table.bits - 2); ++quad) {
                    const int4 four = quads[quad];
                    to += (static_cast<unsigned>(four.x) < mine) + (static_cast<unsigned>(four.y) < mine)
                        + (static_cast<unsigned>(four.z) < mine) + (static_cast<unsigned>(four.w) < mine);
                }
            }
            columns[out + to] = column;
            values[out + to] = sums[slot];
        }
        group.sync();   // before the next rows clear the tables
    }
}

// Rows from their rooms to their places; those that have none are another kernel's. `width` threads a row.
ENTRY move_rows(
    int rows, int width, ROOMS, In<int> from_columns, In<double> from_values, In<i64> start, Out<int> columns,
    Out<double> values
) {
    const i64 thread = thread_number(), i = thread / width;
    if (i >= rows) return;
    const i64 to = start[i], length = start[i + 1] - to;
    if (length > max(room, larger)) return;
    const i64 from = (THESE_ROOMS).begin(i, length, from_columns);
    for (int n = static_cast<int>(thread % width); n < length; n += width) {
        columns[to + n] = from_columns[from + n];
        values[to + n] = from_values[from + n];
    }
}

#define LEFT In<i64> a_start, In<int> a_columns, In<double> a_values

EACH(G, 4, 8, 16, 32) ENTRY fill_##G(
    STAGE, LEFT, RIGHT, In<double> b_values, int bits, int most, i64 longest, int ascending, In<i64> start,
    Out<int> columns, Out<double> values
) {
    const RightRows b RIGHT_ROWS;
    fill_rows<G, true>(
        THIS_STAGE, a_start, a_columns, a_values, b, b_values, bits, most, longest, ascending != 0, start,
        Rooms{0, 0, 0, 0}, EVERY, nullptr, columns, values
    );
}

EACH(G, 4, 8, 16, 32) ENTRY make_##G(
    STAGE, LEFT, RIGHT, In<double> b_values, int bits, int most, i64 longest, int ascending, ROOMS, int diagonal,
    Out<i64> counts, Out<int> columns, Out<double> values
) {
    const RightRows b RIGHT_ROWS;
    fill_rows<G, false>(
        THIS_STAGE, a_start, a_columns, a_values, b, b_values, bits, most, longest, ascending != 0, nullptr, THESE_ROOMS,
        diagonal, counts, columns, values
    );
}

// Sums of products that were sorted by row and column: of sum s those at order[begin[s]] .. order[begin[s + 1] - 1].
ENTRY add_sorted(In<i64> begin, i64 sums, In<i64> order, In<double> products, Out<double> out) {
    const i64 s = thread_number();
    if (s >= sums) return;
    double sum = products[order[begin[s]]];
    for (i64 k = begin[s] + 1; k < begin[s + 1]; ++k) sum = __dadd_rn(sum, products[order[k]]);
    out[s] = sum;
}
