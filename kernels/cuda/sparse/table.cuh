// Sums by column, at places in the order in which columns are found: the order, and so the bits, of a loop on the host.
//
// A group of G lanes (1, 2, 4 ... 32) has one row of the result, and takes the terms of its sums in the order of the loop, G
// at a time. A table tells the place of each column that was met; new ones get the next places, in the order of the lanes.
//
// Groups are in step: at syncs, shuffles and ballots they wait for the whole warp, whose lanes must come equally often to each
// of these calls. Loops with them go on until the last group is done (`most`, `any`). Groups that waited for themselves ran
// one after another.
//
//     const Group<G> group;                                     // lane; sync, ballot, any, most, from, scan, same, sum
//     Table table{keys, places, bits};                          // of 1 << bits slots, in shared or in global memory
//     table.clear(group);                                       // before each row; it ends with a sync
//     int found = 0;
//     for (as long as a group of the warp has terms)
//         add_mixed(group, table, columns, sums, found, column, value);   // of the next term of each lane, or NONE
//
// leaves the `found` columns and sums at places 0 .. found - 1 of arrays in shared or in global memory, for all lanes to
// see: lanes with equal columns add one after the other. A table must have more slots than columns are found, or lanes
// search forever; with twice as many, a column is found after 1.5 looks.
//
// To count columns only, in any order: each lane by itself calls `table.enter(column)` and adds up how often it is told
// that the column was new. No places are needed then (Table{keys, nullptr, bits}).
#pragma once

constexpr int NONE = -1;   // no column

// The lanes of a warp that work together.
template <int G>
struct Group {
    static constexpr int LANES = G;
    static constexpr unsigned mask = 0xffffffffu;   // the lanes in the warp that wait for each other
    int lane;                                       // of this thread, in the group

    DEVICE Group() : lane(threadIdx.x % WARP % G) {}

    // What lanes have written before, all lanes see after it.
    DEVICE void sync() const { __syncwarp(mask); }

    // Bit l is set where lane l has a flag.
    DEVICE unsigned ballot(bool flag) const {
        return __ballot_sync(mask, flag) >> (threadIdx.x % WARP - lane) & (0xffffffffu >> (WARP - G));
    }

    // Whether a flag is set in any lane that waits.
    DEVICE bool any(bool flag) const { return __ballot_sync(mask, flag) != 0u; }

    // The largest value in any lane that waits.
    DEVICE int most(int value) const { return __reduce_max_sync(mask, value); }

    // The value of one of the lanes.
    template <typename T>
    DEVICE T from(T value, int other) const { return __shfl_sync(mask, value, other, G); }

    // The sum over the lanes up to this one, of integers.
    DEVICE int scan(int value) const {
        for (int step = 1; step < G; step *= 2) {
            const int other = __shfl_up_sync(mask, value, step, G);
            if (lane >= step) value += other;
        }
        return value;
    }

    // Bit l is set where lane l has an equal value.
    DEVICE unsigned same(int value) const {
        return __match_any_sync(mask, value) >> (threadIdx.x % WARP - lane) & (0xffffffffu >> (WARP - G));
    }

    // The bits of the lanes before this one.
    DEVICE unsigned before() const { return (1u << lane) - 1u; }

    // The sum over the lanes, of integers: of doubles its order would matter.
    template <typename T>
    DEVICE T sum(T value) const {
        for (int step = G / 2; step > 0; step /= 2) value += __shfl_xor_sync(mask, value, step, G);
        return value;
    }
};

// A hash table of columns with linear probing.
struct Table {
    int* keys;     // the column of each slot, or NONE
    int* places;   // of the column
    int bits;      // 1 << bits slots

    template <typename Lanes>
    DEVICE void clear(const Lanes& group) const {
        for (int slot = group.lane; slot < 1 << bits; slot += Lanes::LANES) keys[slot] = NONE;
        group.sync();
    }

    // The slot of a column, and whether it is new there. Lanes may call it alone, and with equal columns.
    DEVICE bool look(int column, unsigned& slot) const {
        slot = static_cast<unsigned>(column) * 2654435769u >> (WARP - bits);   // 2^32 over the golden ratio (Knuth)
        while (true) {
            int key = *static_cast<volatile int*>(keys + slot);   // most columns are there: no atomic operation
            if (key == NONE) {
                key = atomicCAS(keys + slot, NONE, column);
                if (key == NONE) return true;
            }
            if (key == column) return false;
            slot = (slot + 1) & ((1u << bits) - 1u);
        }
    }

    // Whether a column is new.
    DEVICE bool enter(int column) const {
        unsigned slot;
        return look(column, slot);
    }

    // The place of this lane's column, if it has one; new ones are counted in `found`. All lanes of the group call it with
    // distinct columns, and sync before they do so again.
    template <typename Lanes>
    DEVICE int place(const Lanes& group, int column, int& found) const {
        unsigned slot = 0;
        const bool fresh = column != NONE && look(column, slot);
        const unsigned all = group.ballot(fresh);
        int at = found + __popc(all & group.before());
        found += __popc(all);
        if (fresh) places[slot] = at;
        else if (column != NONE) at = places[slot];   // from a batch before this one
        return at;
    }
};

// Add this lane's value, if it has one, to the sum of its column, after those of earlier lanes. All lanes of the warp call it.
template <typename Lanes>
DEVICE void add_mixed(
    const Lanes& group, const Table& table, int* columns, double* sums, int& found, int column, double value
) {
    const unsigned equal = group.same(column);
    const int before = found, rank = __popc(equal & group.before());
    const int at = group.from(table.place(group, rank == 0 ? column : NONE, found), __ffs(equal) - 1);
    for (int turn = 0; group.any(column != NONE && rank >= turn); ++turn) {
        if (column != NONE && rank == turn) {
            if (turn == 0 && at >= before) {
                columns[at] = column;
                sums[at] = value;
            } else {
                sums[at] = __dadd_rn(sums[at], value);
            }
        }
        group.sync();
    }
}
