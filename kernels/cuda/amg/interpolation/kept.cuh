// Which weights of a row are kept, and what restores their sum: kernels/cpu/amg/extended_interpolation.py. Needs rows.cuh beside it.
#pragma once

constexpr double MOST_SCALING = 10.0;   // as in extended_interpolation.py

// Whether a weight is kept rather than another one: it is larger, or as large in a smaller column.
DEVICE bool before(double value, int column, double other, int others) {
    return fabs(value) > fabs(other) || (fabs(value) == fabs(other) && column < others);
}

// What restores the sum of all weights where some of them are kept.
DEVICE double scaling(double total, double kept) {
    const double factor = kept != 0.0 ? total / kept : 1.0;
    return 0.0 < factor && factor <= MOST_SCALING ? factor : 1.0;
}

// The next weight that is kept after (value, column), of n. Zero if there is none.
template <typename Lanes>
DEVICE void next(const Lanes& group, const Room& room, int n, double& value, int& column) {
    double best = 0.0;
    int at = 0x7fffffff;
    for (int m = group.lane; m < n; m += Lanes::LANES) {
        const double weight = room.sums[m];
        const int where = room.columns[m];
        if (before(weight, where, best, at) && before(value, column, weight, where) && weight != 0.0) {
            best = weight;
            at = where;
        }
    }
    UNROLLED for (int step = Lanes::LANES / 2; step > 0; step /= 2) {
        const double other = __shfl_xor_sync(group.mask, best, step, Lanes::LANES);
        const int where = __shfl_xor_sync(group.mask, at, step, Lanes::LANES);
        if (before(other, where, best, at)) {
            best = other;
            at = where;
        }
    }
    value = best;
    column = at;
}

// The largest of n weights, columns ascending, times scale and what restores their sum, which is made in the order in which
// they were found; returns how many there are.
template <typename Lanes>
DEVICE int keep(const Lanes& group, const Room& room, int n, double scale, int most, int* columns, double* values) {
    constexpr int G = Lanes::LANES;
    double total = 0.0, found = 0.0;
    for (int m = 0; m < n; ++m) total = __dadd_rn(total, room.sums[m]);
    int kept = 0, column = NONE;
    double value = __longlong_as_double(0x7ff0000000000000);   // infinity
    const int turns = group.most(min(most, n));
    for (int turn = 0; turn < turns; ++turn) {
        next(group, room, n, value, column);   // behind the last one there are zeros
        if (value == 0.0) continue;
        if (group.lane == 0) {
            room.kept[kept] = value;
            room.kept_columns[kept] = column;
        }
        ++kept;
    }
    group.sync();   // the sums are not needed any more
    for (int m = group.lane; m < kept; m += G) {
        const int own = room.kept_columns[m];
        int at = 0;
        for (int q = 0; q < kept; ++q) at += room.kept_columns[q] < own;
        columns[at] = own;
        room.sums[at] = room.kept[m];
    }
    group.sync();
    for (int m = 0; m < kept; ++m) found = __dadd_rn(found, room.sums[m]);
    const double factor = __dmul_rn(scale, scaling(total, found));
    for (int m = group.lane; m < kept; m += G) values[m] = __dmul_rn(room.sums[m], factor);
    return kept;
}

// The same by one thread, whose columns and weights stand THREADS places from each other.
DEVICE int keep_alone(int* found, double* weights, int n, double scale, int most, int* columns, double* values) {
    double total = 0.0, sum = 0.0, smallest = 0.0;
    int kept = 0, least = 0, at_least = 0;   // the one to be replaced
    for (int m = 0; m < n; ++m) {
        const int column = found[m * THREADS];
        const double weight = weights[m * THREADS];
        total = __dadd_rn(total, weight);
        if (weight == 0.0 || (kept == most && !before(weight, column, smallest, at_least))) continue;
        const int at = kept == most ? least : kept++;
        found[at * THREADS] = column;
        weights[at * THREADS] = weight;
        if (kept < most) continue;
        least = 0;
        smallest = weights[0];
        at_least = found[0];
        for (int q = 1; q < most; ++q) {
            const double other = weights[q * THREADS];
            const int where = found[q * THREADS];
            if (!before(smallest, at_least, other, where)) continue;
            least = q;
            smallest = other;
            at_least = where;
        }
    }
    for (int m = 1; m < kept; ++m) {
        const int column = found[m * THREADS];
        const double weight = weights[m * THREADS];
        int at = m;
        for (; at > 0 && found[(at - 1) * THREADS] > column; --at) {
            found[at * THREADS] = found[(at - 1) * THREADS];
            weights[at * THREADS] = weights[(at - 1) * THREADS];
        }
        found[at * THREADS] = column;
        weights[at * THREADS] = weight;
    }
    for (int m = 0; m < kept; ++m) sum = __dadd_rn(sum, weights[m * THREADS]);
    const double factor = __dmul_rn(scale, scaling(total, sum));
    for (int m = 0; m < kept; ++m) {
        columns[m] = found[m * THREADS];
        values[m] = __dmul_rn(weights[m * THREADS], factor);
    }
    return kept;
}
