// Levels without a lattice: their entries as tables, and what is asked of those with new values.

#include "device.cuh"

// columns and entries (width, rows): entry k of each row, and -1 and 0 where a row has no more. 12 bytes read an entry.
ENTRY tabulate(
    In<long long> start, In<int> columns, In<double> values, int rows, int width, Out<int> out_columns,
    Out<double> out_values
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    const long long first = start[i];
    const int count = static_cast<int>(start[i + 1] - first);
    for (int k = 0; k < width; ++k) {
        const long long to = static_cast<long long>(k) * rows + i;
        out_columns[to] = k < count ? columns[first + k] : -1;
        out_values[to] = k < count ? values[first + k] : 0.0;
    }
}

// Whether two arrays differ anywhere: then 1 is written to `found`.
#define DIFFER(NAME, ITEM)                                                                                               \
    ENTRY NAME(In<ITEM> one, In<ITEM> other, long long count, long long* found) {                                        \
        const long long step = static_cast<long long>(gridDim.x) * blockDim.x;                                           \
        ITEM some = 0;                                                                                                   \
        _Pragma("unroll 4")                                                                                              \
        for (long long k = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; k < count; k += step)          \
            some |= one[k] ^ other[k];                                                                                   \
        if (some) *found = 1;                                                                                            \
    }
DIFFER(differ_4, int)
DIFFER(differ_8, long long)
