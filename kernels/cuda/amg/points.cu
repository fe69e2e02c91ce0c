// Points of a level, one thread each (dsolver.kernels.cpu.amg.points is the text).

#include "device.cuh"

constexpr signed char COARSE = 1, FINE = 2;

#define FOR_POINT const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; if (i >= count) return

ENTRY damped(In<double> share, double least, double dominance, double factor, long long count, Out<double> out) {
    FOR_POINT;
    const double dominant = __dmul_rn(dominance, __dadd_rn(share[i], -0.5));
    out[i] = __dmul_rn(factor, dominant < least ? least : dominant);   // what is no number remains none
}

ENTRY numbered(In<signed char> states, In<long long> before, long long first, long long count, Out<long long> out) {
    FOR_POINT;
    out[i] = states[i] == COARSE ? before[i] + first : -1;
}

ENTRY states_of(In<long long> numbers, Out<int> names, long long count, Out<signed char> out) {
    FOR_POINT;
    names[i] = static_cast<int>(numbers[i]);
    out[i] = numbers[i] >= 0 ? COARSE : FINE;
}

ENTRY through(In<long long> numbers, long long first, In<long long> others, long long count, Out<long long> out) {
    FOR_POINT;
    out[i] = numbers[i] >= 0 ? others[numbers[i] - first] : -1;
}

// Bits of entries, and how many of a row are LEADS: a point is a row.
ENTRY leads(In<long long> start, In<double> values, Out<unsigned char> bits, long long count, Out<long long> out) {
    FOR_POINT;
    int found = 0;
    for (long long k = start[i]; k < start[i + 1]; ++k) {
        const int bit = static_cast<int>(values[k]);
        bits[k] = static_cast<unsigned char>(bit);
        found += bit >> 1;
    }
    out[i] = found;
}

// Values are words of 8 bytes, `width` of each point.
ENTRY of_coarse(
    In<long long> numbers, long long first, In<unsigned long long> values, int width, long long count,
    Out<unsigned long long> out
) {
    FOR_POINT;
    if (numbers[i] < 0) return;
    for (int k = 0; k < width; ++k) out[(numbers[i] - first) * width + k] = values[i * width + k];
}
