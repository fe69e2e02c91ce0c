// Points of a level, one thread each (dsolver.kernels.cpu.amg.points is the text).

#include "device.cuh"

constexpr signed char COARSE = 1, FINE = 2;

#define FOR_POINT const i64 i = thread_number(); if (i >= count) return

ENTRY damped(In<double> share, double least, double dominance, double factor, i64 count, Out<double> out) {
    FOR_POINT;
    const double dominant = __dmul_rn(dominance, __dadd_rn(share[i], -0.5));
    out[i] = __dmul_rn(factor, dominant < least ? least : dominant);   // what is no number remains none
}

ENTRY numbered(In<signed char> states, In<i64> before, i64 first, i64 count, Out<i64> out) {
    FOR_POINT;
    out[i] = states[i] == COARSE ? before[i] + first : -1;
}

ENTRY states_of(In<i64> numbers, Out<int> names, i64 count, Out<signed char> out) {
    FOR_POINT;
    names[i] = static_cast<int>(numbers[i]);
    out[i] = numbers[i] >= 0 ? COARSE : FINE;
}

ENTRY through(In<i64> numbers, i64 first, In<i64> others, i64 count, Out<i64> out) {
    FOR_POINT;
    out[i] = numbers[i] >= 0 ? others[numbers[i] - first] : -1;
}

// Bits of entries, and how many of a row are LEADS: a point is a row.
ENTRY leads(In<i64> start, In<double> values, Out<unsigned char> bits, i64 count, Out<i64> out) {
    FOR_POINT;
    int found = 0;
    for (i64 k = start[i]; k < start[i + 1]; ++k) {
        const int bit = static_cast<int>(values[k]);
        bits[k] = static_cast<unsigned char>(bit);
        found += bit >> 1;
    }
    out[i] = found;
}

// Values are words of 8 bytes, `width` of each point.
ENTRY of_coarse(In<i64> numbers, i64 first, In<u64> values, int width, i64 count, Out<u64> out) {
    FOR_POINT;
    if (numbers[i] < 0) return;
    for (int k = 0; k < width; ++k) out[(numbers[i] - first) * width + k] = values[i * width + k];
}
