// Sums over groups of a vector's items, and what is subtracted from each item of a group.

#include "slices.cuh"
#include "vectors/tree.cuh"

constexpr int STEPS = 3, SPAN = FAN_IN * FAN_IN * FAN_IN, LANES = FAN_IN * FAN_IN;

// Sums that earlier launches have left, of SPAN items each: those of group g begin at first_of(g). There is room between groups
// for what is left of the last sum of each, so no list of begins is made: ceil(n / SPAN) <= floor((b + n) / SPAN) - floor(b / SPAN) + 1.
DEVICE i64 first_of(const i64* starts, int group, int launches) {
    i64 first = starts[group];
    for (int n = 0; n < launches; ++n) first = first / SPAN + group;
    return first;
}

// The sum of up to FAN_IN numbers in order. One that is not full gets a zero, as where whole arrays are added.
template <typename Number>
DEVICE double ordered_sum(int count, Number number) {
    double sum = number(0);
    for (int k = 1; k < count; ++k) sum = __dadd_rn(sum, number(k));
    return count < FAN_IN ? __dadd_rn(sum, 0.0) : sum;
}

// Up to SPAN items of a group are added by a block of LANES threads, in `steps` steps of the tree. Items are those of x at their places
// times their weights, or what `before` launches have left of them. last: whether each group is one sum then, at its number.
ENTRY __launch_bounds__(LANES) sum_groups(
    In<real> values, In<int> places, In<double> weights, In<i64> starts, int items, int groups, int before,
    int steps, int last, Out<double> out
) {
    __shared__ double sums[STEPS][LANES];
    next_may_start();
    wait_for_last_launch();
    const int lane = threadIdx.x;
    int group = blockIdx.x, part = 0;
    if (!last) {
        int low = 0, high = groups - 1;   // the last group that does not begin behind this block
        while (low < high) {
            const int middle = (low + high + 1) / 2;
            if (first_of(starts, middle, before + 1) <= blockIdx.x) low = middle;
            else high = middle - 1;
        }
        group = low;
        part = blockIdx.x - static_cast<int>(first_of(starts, group, before + 1));
    }
    i64 count = (group + 1 < groups ? starts[group + 1] : items) - starts[group];
    for (int n = 0; n < before; ++n) count = (count + SPAN - 1) / SPAN;
    count -= static_cast<i64>(part) * SPAN;
    if (count <= 0) return;   // room between two groups
    const i64 first = first_of(starts, group, before) + static_cast<i64>(part) * SPAN;
    const auto item = [&](i64 i) {
        const double value = values[places ? places[i] : i];
        return weights ? __dmul_rn(value, weights[i]) : value;
    };
    if (steps == 0 && lane == 0) out[blockIdx.x] = item(first);
    int nodes = count < SPAN ? static_cast<int>(count) : SPAN;
    for (int step = 0; step < steps; ++step) {
        const int numbers = nodes - lane * FAN_IN, some = numbers < FAN_IN ? numbers : FAN_IN;
        if (some > 0)
            sums[step][lane] = ordered_sum(some, [&](int k) {
                return step ? sums[step - 1][lane * FAN_IN + k] : item(first + lane * FAN_IN + k);
            });
        nodes = (nodes + FAN_IN - 1) / FAN_IN;
        __syncthreads();
    }
    if (steps && lane == 0) out[blockIdx.x] = sums[steps - 1][0];
}

DEVICE void subtract_mean(
    const int* places, const int* group, const double* totals, const double* sizes, const double* weights, int items, real* x
) {
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= items) return;
    double mean = __ddiv_rn(totals[group[item]], sizes[group[item]]);
    if (weights) mean = __dmul_rn(mean, weights[item]);
    const int place = places ? places[item] : item;
    x[place] = static_cast<real>(__dadd_rn(x[place], -mean));
}

// x -= total / size of the item's group, times its weight.
ENTRY less_means(
    In<int> places, In<int> group, In<double> totals, In<double> sizes, In<double> weights, int items, Out<real> x
) {
    next_may_start();
    wait_for_last_launch();
    subtract_mean(places, group, totals, sizes, weights, items, x);
}

// The same while an iteration goes on, as UPDATE_X_R of the contract tells.
ENTRY less_means_going_on(
    In<int> places, In<int> group, In<double> totals, In<double> sizes, In<double> weights, int items, In<double> rz,
    In<double> pap, In<double> rr, In<double> limit, In<double> ceiling, Out<real> x
) {
    next_may_start();
    wait_for_last_launch();
    if (*limit < *rr && *rr <= *ceiling && sound(*rz, *pap)) subtract_mean(places, group, totals, sizes, weights, items, x);
}
