// Terms of the sums of a row, and how lanes add them up in the host's order: by a list, by a table, or each by itself.
// Needs sparse/table.cuh.
#pragma once

constexpr int THREADS = 128;        // of a block
constexpr int LONG = 1 << 24;       // as good as any number of terms beyond

// Where an entry of the left matrix leads: perhaps to a column of its own, and perhaps to entries of the right matrix.
struct Terms {
    int own = NONE;
    double value = 0.0;                  // in that column
    i64 begin = 0;
    int length = 0;                      // of a row of the right matrix: less than 2^26
    double factor = 0.0;
    double size = 0.0, center = 0.0;     // of a task that adds them up

    DEVICE int count() const { return length + (own != NONE); }
};

// Sums over the entries of a row of the left matrix.
struct Center {
    double size = 0.0, center = 0.0;
};

// A group's memory.
struct Room {
    double *sums, *kept;
    int *columns, *kept_columns, *after;   // after: behind all of them

    DEVICE Room(char* memory, int most, int most_kept) {
        sums = reinterpret_cast<double*>(memory);
        kept = sums + most;
        columns = reinterpret_cast<int*>(kept + most_kept);
        kept_columns = columns + most;
        after = kept_columns + most_kept;
    }
};

template <typename Lanes>
DEVICE void add_in_order(const Lanes& group, const Terms& terms, Center& sums) {
    UNROLLED for (int l = 0; l < Lanes::LANES; ++l) {   // lanes without an entry have zeros
        sums.size = __dadd_rn(sums.size, group.from(terms.size, l));
        sums.center = __dadd_rn(sums.center, group.from(terms.center, l));
    }
}

// Writes the terms of a row one after the other; returns their number. If there are more than CAP, the list is of no use.
template <int CAP, typename Lanes, typename Task>
DEVICE int list_terms(const Lanes& group, const Task& task, i64 first, i64 last, const Room& room, Center& sums) {
    constexpr int G = Lanes::LANES;
    const int turns = group.most(static_cast<int>((last - first + G - 1) / G));
    int n = 0;
    i64 k = first + group.lane;
    for (int turn = 0; turn < turns; ++turn, k += G) {
        const Terms terms = k < last ? task.terms(task.entry(k)) : Terms();
        const int mine = min(terms.count(), LONG), until = group.scan(mine);
        int at = n + until - mine;
        n = min(n + group.from(until, G - 1), LONG);
        if constexpr (Task::CENTERED) add_in_order(group, terms, sums);
        if (n > CAP) continue;
        if (terms.own != NONE) {
            room.columns[at] = terms.own;
            room.sums[at++] = terms.value;
        }
        for (int m = 0; m < terms.length; ++m, ++at) {
            const double value = task.product(terms.factor, terms.begin + m);
            room.columns[at] = task.column(terms.begin + m, value);
            room.sums[at] = value;
        }
    }
    group.sync();
    return n;
}

// Adds up the terms of each column of a list of n; returns how many columns are found. They stand in their order then.
template <typename Lanes>
DEVICE int add_list(const Lanes& group, const Room& room, int n) {
    constexpr int G = Lanes::LANES;
    unsigned firsts = 0;   // of this lane's terms, turn by turn, which are the first ones of their columns
    for (int m = group.lane, turn = 0; m < n; m += G, ++turn) {
        const int column = room.columns[m];
        bool first = column != NONE;
        for (int q = 0; q < m && first; ++q) first = room.columns[q] != column;
        if (!first) continue;
        double sum = room.sums[m];   // no other lane reads or writes values of this column
        for (int q = m + 1; q < n; ++q)
            if (room.columns[q] == column) sum = __dadd_rn(sum, room.sums[q]);
        room.sums[m] = sum;
        firsts |= 1u << turn;
    }
    group.sync();
    int found = 0;
    const int turns = group.most((n + G - 1) / G);
    for (int turn = 0; turn < turns; ++turn) {
        const bool mine = firsts >> turn & 1u;
        const int column = mine ? room.columns[turn * G + group.lane] : NONE;
        const double sum = mine ? room.sums[turn * G + group.lane] : 0.0;
        const unsigned all = group.ballot(mine);
        group.sync();   // all have read what is overwritten now
        if (mine) {
            const int at = found + __popc(all & group.before());
            room.columns[at] = column;
            room.sums[at] = sum;
        }
        found += __popc(all);
    }
    group.sync();
    return found;
}

// Columns and sums of a row by a table; false if more columns are found than there is room for.
template <typename Task>
DEVICE bool add_terms(
    const Group<WARP>& group, const Task& task, i64 first, i64 last, const Room& room, int most,
    const Table& table, int& found, Center& sums
) {
    table.clear(group);
    found = 0;
    for (i64 k = first; k < last; k += WARP) {
        const Terms terms = k + group.lane < last ? task.terms(task.entry(k + group.lane)) : Terms();
        if constexpr (Task::CENTERED) add_in_order(group, terms, sums);
        const int until = group.scan(terms.count()), all = group.from(until, WARP - 1);
        for (int base = 0; base < all; base += WARP) {
            if (found + WARP > most) return false;
            const int term = base + group.lane;
            int lane = 0;   // whose terms this is one of: so many have only terms before it
            for (int step = WARP / 2; step > 0; step /= 2)
                if (group.from(until, lane + step - 1) <= term) lane += step;
            const int own = group.from(terms.own, lane);
            const double of_own = group.from(terms.value, lane), factor = group.from(terms.factor, lane);
            const int m = term - group.from(until - terms.count(), lane) - (own != NONE);
            const i64 at = group.from(terms.begin, lane) + m;
            double value = 0.0;
            int column = NONE;
            if (term < all && m < 0) {
                column = own;
                value = of_own;
            } else if (term < all) {
                value = task.product(factor, at);
                column = task.column(at, value);
            }
            add_mixed(group, table, room.columns, room.sums, found, column, value);
        }
    }
    return true;
}

// Adds to the sum of a column, of n that a thread has found: they stand THREADS places from each other.
DEVICE void add_alone(int* columns, double* sums, int& n, int column, double value) {
    columns[n * THREADS] = column;   // so that it is found
    int m = 0;
    unsigned equal;
    while (true) {
        equal = 0;
        UNROLLED for (int u = 0; u < 4; ++u) equal |= static_cast<unsigned>(columns[(m + u) * THREADS] == column) << u;
        if (equal) break;
        m += 4;
    }
    m += __ffs(equal) - 1;
    if (m == n) {
        sums[m * THREADS] = value;
        ++n;
    } else {
        sums[m * THREADS] = __dadd_rn(sums[m * THREADS], value);
    }
}
