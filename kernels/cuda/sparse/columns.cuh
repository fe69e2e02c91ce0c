// What becomes of the sums of WIDTH vectors at once: finish.cuh, column by column. Comes after slices.cuh and finish.cuh.
#ifndef DSOLVER_COLUMNS_CUH
#define DSOLVER_COLUMNS_CUH

#ifndef WIDTH
#define WIDTH 8
#endif

#define EACH_COLUMN _Pragma("unroll") for (int n = 0; n < WIDTH; ++n)

// The vectors of a finish, x's columns `from` items apart and those of the others `to`; w is of all of them.
struct Finishes {
    Finish first;
    long long from, to;

    __device__ __forceinline__ Finish of(int n) const {
        return {first.x + n * from, first.r + n * to, first.w, first.y + n * to, first.kept + n * to};
    }

    // Item i of what is multiplied, in each column.
    template <int KIND>
    __device__ __forceinline__ void load(real (&items)[WIDTH], long long i) const {
        if constexpr (KIND == FIRST) {
            const real weight = first.w[i];
            EACH_COLUMN items[n] = weight * first.r[n * to + i];
        } else {
            EACH_COLUMN items[n] = first.x[n * from + i];
        }
    }
};

#define COLUMNS FINISH, long long from, long long to
#define ALL_COLUMNS Finishes{FINISHED, from, to}

#endif
