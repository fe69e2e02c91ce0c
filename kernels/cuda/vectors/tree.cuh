// The fixed tree of the contract's kernel `total`, and whether conjugate gradients can go on.
#pragma once

// Groups of FAN_IN parts in order, then groups of their sums. sums[l] is the open group of tree level l; a full group
// moves up by one, and at the end the open ones move up in order. For one thread: a few numbers, whose order is all
// that matters.
constexpr int FAN_IN = 8, TREE_LEVELS = 8;

DEVICE double tree_sum(const double* parts, int count) {
    double sums[TREE_LEVELS];
    int filled[TREE_LEVELS] = {};
    for (int i = 0; i < count; ++i) {
        double carried = parts[i];
        for (int level = 0; level < TREE_LEVELS; ++level) {
            sums[level] = filled[level] ? sums[level] + carried : carried;
            if (++filled[level] < FAN_IN) break;
            carried = sums[level];
            filled[level] = 0;
        }
    }
    double result = 0.0;
    bool any = false;
    for (int level = 0; level < TREE_LEVELS; ++level) {
        if (any) result = filled[level] ? sums[level] + result : result;
        else if (filled[level]) { result = sums[level]; any = true; }
    }
    return result;
}

// Whether conjugate gradients can go on: positive and finite. False for NaN.
DEVICE bool sound(double rz, double pap) { return 0.0 < rz && 0.0 < pap && isfinite(rz) && isfinite(pap); }
