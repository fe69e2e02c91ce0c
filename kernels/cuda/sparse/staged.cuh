// Entries of the rows of a warp, read by lanes together. Needs sparse/table.cuh.
#pragma once

constexpr int AT_ONCE = 4;   // entries of a row that are read together: a power of two

// The next AT_ONCE entries of each lane's row, in shared memory. Lanes that read a row of many entries each would meet in no line
// of memory: AT_ONCE of them read together what one needs.
template <typename Entry>
struct Staged {
    Entry* entries;   // of the warp; places of a row are exchanged, so that lanes that read theirs meet in no bank

    DEVICE Entry& at(int row, int n) const {
        return entries[row * AT_ONCE + (n ^ (row * AT_ONCE / 8 & (AT_ONCE - 1)))];
    }

    // The entries k .. end - 1 of each lane's row, so many at most, as read(k) has them. All lanes of the warp call this.
    template <typename Read>
    DEVICE void read(i64 k, i64 end, Read read) const {
        const int lane = threadIdx.x % WARP, n = lane % AT_ONCE;
        __syncwarp();   // all have read what is overwritten now
        UNROLLED for (int first = 0; first < WARP; first += WARP / AT_ONCE) {
            const int row = first + lane / AT_ONCE;
            const i64 from = __shfl_sync(ALL_LANES, k, row) + n, last = __shfl_sync(ALL_LANES, end, row);
            if (from < last) at(row, n) = read(from);
        }
        __syncwarp();
    }
};
