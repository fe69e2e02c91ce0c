// Numbers of points that a chunk sees, and their places in its window (dsolver.kernels.cpu.amg.windows is the text).

typedef long long i64;

#define EACH for (i64 i = blockIdx.x * static_cast<i64>(blockDim.x) + threadIdx.x; i < count; i += static_cast<i64>(gridDim.x) * blockDim.x)

// The first of ascending ghosts that is not less than a number.
__device__ int ghost_of(const i64* __restrict__ ghosts, int ghosts_count, i64 number) {
    int low = 0, high = ghosts_count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (ghosts[middle] < number) low = middle + 1; else high = middle;
    }
    return low;
}

template <typename T>
__device__ void find_places(
    const T* __restrict__ numbers, i64 count, i64 first, int rows, const i64* __restrict__ ghosts, int ghosts_count, int below,
    int* __restrict__ out
) {
    EACH {
        const i64 own = static_cast<i64>(numbers[i]) - first;
        if (own >= 0 && own < rows) {
            out[i] = static_cast<int>(own) + below;
        } else {
            const int ghost = ghost_of(ghosts, ghosts_count, numbers[i]);
            out[i] = ghost < below ? ghost : ghost + rows;
        }
    }
}

// Numbers outside, or their places, in any order, as many as there is room for; found[0]: how many there are.
template <typename T>
__device__ void find_outside(
    const T* __restrict__ numbers, i64 count, i64 first, i64 last, int named, i64 room, i64* __restrict__ found,
    i64* __restrict__ out
) {
    EACH {
        const i64 number = numbers[i];
        if (number >= first && number < last) continue;
        const i64 at = atomicAdd(reinterpret_cast<unsigned long long*>(found), 1ULL);
        if (at < room) out[at] = named ? number : i;
    }
}

template <typename T>
__device__ void relabel(
    const int* __restrict__ places, i64 count, int rows, int below, i64 base, const T* __restrict__ names, T* __restrict__ out
) {
    EACH {
        const int place = places[i], own = place - below;
        out[i] = own < 0 ? names[place] : own < rows ? static_cast<T>(base + own) : names[place - rows];
    }
}

extern "C" __global__ void places_8(
    const i64* __restrict__ numbers, i64 count, i64 first, int rows, const i64* __restrict__ ghosts, int ghosts_count, int below,
    int* __restrict__ out
) {
    find_places(numbers, count, first, rows, ghosts, ghosts_count, below, out);
}

extern "C" __global__ void places_4(
    const int* __restrict__ numbers, i64 count, i64 first, int rows, const i64* __restrict__ ghosts, int ghosts_count, int below,
    int* __restrict__ out
) {
    find_places(numbers, count, first, rows, ghosts, ghosts_count, below, out);
}

extern "C" __global__ void outside_8(
    const i64* __restrict__ numbers, i64 count, i64 first, i64 last, int named, i64 room, i64* __restrict__ found,
    i64* __restrict__ out
) {
    find_outside(numbers, count, first, last, named, room, found, out);
}

extern "C" __global__ void outside_4(
    const int* __restrict__ numbers, i64 count, i64 first, i64 last, int named, i64 room, i64* __restrict__ found,
    i64* __restrict__ out
) {
    find_outside(numbers, count, first, last, named, room, found, out);
}

extern "C" __global__ void relabel_8(
    const int* __restrict__ places, i64 count, int rows, int below, i64 base, const i64* __restrict__ names, i64* __restrict__ out
) {
    relabel(places, count, rows, below, base, names, out);
}

extern "C" __global__ void relabel_4(
    const int* __restrict__ places, i64 count, int rows, int below, i64 base, const int* __restrict__ names, int* __restrict__ out
) {
    relabel(places, count, rows, below, base, names, out);
}

// 1 for the first of equal numbers that ascend, if they are not first .. last, 0 for the others; below[0]: how many of these
// are less than the first.
extern "C" __global__ void mark_first(
    const i64* __restrict__ numbers, i64 count, i64 first, i64 last, int* __restrict__ out, i64* __restrict__ below
) {
    EACH {
        const i64 number = numbers[i];
        const bool marked = (number < first || number >= last) && (i == 0 || number != numbers[i - 1]);
        out[i] = marked;
        if (marked && number < first) atomicAdd(reinterpret_cast<unsigned long long*>(below), 1ULL);
    }
}

// The marked numbers, one after the other; before[i]: how many there are before number i.
extern "C" __global__ void take_first(
    const i64* __restrict__ numbers, i64 count, const i64* __restrict__ before, i64* __restrict__ out
) {
    EACH if (before[i + 1] > before[i]) out[before[i]] = numbers[i];
}
