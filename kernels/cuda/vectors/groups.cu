// Sums over groups of a vector's items, and what is subtracted from each item of a group. A thread an item or a node.

#include "slices.cuh"
#include "vectors/tree.cuh"

// A step of the tree: what each node adds, in order, of the values of the step before. Of the first step these are
// items of x at their places, times their weights. Where each group is one item, there is no step (next == nullptr).
extern "C" __global__ void group_step(
    const double* __restrict__ values, const int* __restrict__ places, const double* __restrict__ weights,
    const int* __restrict__ next, int items, int nodes, double* __restrict__ out
) {
    next_may_start();
    wait_for_last_launch();
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes) return;
    double sum = 0.0;
    for (int k = 0; k < (next ? FAN_IN : 1); ++k) {
        const int item = next ? next[static_cast<long long>(k) * nodes + node] : node;
        double value = 0.0;
        if (item < items) {
            value = values[places ? places[item] : item];
            if (weights) value = __dmul_rn(value, weights[item]);
        }
        sum = k ? __dadd_rn(sum, value) : value;
    }
    out[node] = sum;
}

// x -= total / size of the item's group, times its weight.
extern "C" __global__ void less_means(
    const int* __restrict__ places, const int* __restrict__ group, const double* __restrict__ totals,
    const double* __restrict__ sizes, const double* __restrict__ weights, int items, double* __restrict__ x
) {
    next_may_start();
    wait_for_last_launch();
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= items) return;
    double mean = __ddiv_rn(totals[group[item]], sizes[group[item]]);
    if (weights) mean = __dmul_rn(mean, weights[item]);
    const int place = places ? places[item] : item;
    x[place] = __dadd_rn(x[place], -mean);
}
