// CUDA's language for g++: the built-in functions that dsolver's kernels call, on the threads of threads.h.
#include "threads.h"

#include <math.h>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __restrict__
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("emulated_shared"), used))
#define __cvta_generic_to_shared(where) 0u   // for assembly alone
#define threadIdx (emulated::self->thread)

extern "C" char __start_emulated_shared[] __attribute__((visibility("hidden")));
extern "C" char __stop_emulated_shared[] __attribute__((visibility("hidden")));
__shared__ emulated::u64 any_shared;   // so that the section is there

#define VECTOR(T, NAME, BYTES, ...)                   \
    struct __align__(BYTES) NAME { T __VA_ARGS__; };  \
    template <class... A> static NAME make_##NAME(A... values) { return {T(values)...}; }
VECTOR(int, int2, 8, x, y) VECTOR(unsigned, uint2, 8, x, y) VECTOR(double, double2, 16, x, y)
VECTOR(int, int3, 4, x, y, z) VECTOR(int, int4, 16, x, y, z, w) VECTOR(unsigned, uint4, 16, x, y, z, w)

namespace emulated {

template <class To, class From> static To cast(From value) {
    static_assert(sizeof(From) <= 8 && sizeof(To) <= 8, "");
    To made = {};
    memcpy(&made, &value, std::min(sizeof made, sizeof value));
    return made;
}
static int lane() { return self->number % 32; }
static u64 nothing(const Group&, int, int) { return 0; }
static u64 of_lane(const Group& group, int, int from) { return group.value(from); }
static u64 votes(const Group& group, int, int) {
    unsigned found = 0;
    for (int l = 0; l < 32; ++l) found |= unsigned(group.has(l) && group.value(l)) << l;
    return found;
}
static u64 equal_lanes(const Group& group, int me, int) {
    unsigned found = 0;
    for (int l = 0; l < 32; ++l) found |= unsigned(group.has(l) && group.value(l) == group.value(me)) << l;
    return found;
}
template <class T, bool LARGEST> static u64 extreme(const Group& group, int me, int) {
    T found = T(group.value(me));
    for (int l = 0; l < 32; ++l) {
        const T one = T(group.has(l) ? group.value(l) : group.value(me));
        if (LARGEST ? one > found : one < found) found = one;
    }
    return u64(found);
}
static u64 total(const Group& group, int, int) {
    unsigned found = 0;
    for (int l = 0; l < 32; ++l) found += group.has(l) ? unsigned(group.value(l)) : 0;
    return found;
}
template <class T> static T shuffle(const char* name, unsigned mask, T value, int from) {
    return cast<T>(meet(name, mask, cast<u64>(value), of_lane, from));
}
struct Product { double a, b, c[2]; };   // a lane's numbers of c += a b, 8 x 8, by tensor cores
static u64 add_products(const Group& group, int me, int) {
    const auto of = [&](int lane) { return reinterpret_cast<Product*>(group.value(lane)); };
    for (int half = 0; half < 2; ++half)
        for (int k = 0; k < 4; ++k)
            of(me)->c[half] = fma(of(me / 4 * 4 + k)->a, of((me % 4 * 2 + half) * 4 + k)->b, of(me)->c[half]);
    return 0;
}
static void multiply(double& low, double& high, double a, double b) {
    Product mine = {a, b, {low, high}};
    meet("mma", ~0u, reinterpret_cast<u64>(&mine), add_products);
    low = mine.c[0];
    high = mine.c[1];
}
static double opaque(double value) {   // to be contracted with nothing
    asm volatile("" : "+x"(value));
    return value;
}

}  // namespace emulated

static void __syncthreads() { emulated::meet_block(); }
static void __syncwarp(unsigned mask = ~0u) { emulated::meet("__syncwarp", mask, 0, emulated::nothing); }
template <class T> static T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    return emulated::shuffle("__shfl_sync", mask, value, (emulated::lane() & -width) + (from & (width - 1)));
}
template <class T> static T __shfl_up_sync(unsigned mask, T value, int by, int width = 32) {
    const int me = emulated::lane();
    return emulated::shuffle("__shfl_up_sync", mask, value, me % width >= by ? me - by : me);
}
template <class T> static T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32) {
    const int me = emulated::lane(), other = me ^ by;
    return emulated::shuffle("__shfl_xor_sync", mask, value, other < (me & -width) + width ? other : me);
}
static unsigned __ballot_sync(unsigned mask, bool value) {
    return unsigned(emulated::meet("__ballot_sync", mask, value, emulated::votes));
}
static int __any_sync(unsigned mask, bool value) {
    return emulated::meet("__any_sync", mask, value, emulated::votes) != 0;
}
static int __all_sync(unsigned mask, bool value) {
    return emulated::meet("__all_sync", mask, !value, emulated::votes) == 0;
}
template <class T> static unsigned __match_any_sync(unsigned mask, T value) {
    const emulated::u64 bits = emulated::cast<emulated::u64>(value);
    return unsigned(emulated::meet("__match_any_sync", mask, bits, emulated::equal_lanes));
}
template <class T> static T __reduce_max_sync(unsigned mask, T value) {
    return T(emulated::meet("__reduce_max_sync", mask, emulated::u64(value), emulated::extreme<T, true>));
}
template <class T> static T __reduce_min_sync(unsigned mask, T value) {
    return T(emulated::meet("__reduce_min_sync", mask, emulated::u64(value), emulated::extreme<T, false>));
}
template <class T> static T __reduce_add_sync(unsigned mask, T value) {
    return T(emulated::meet("__reduce_add_sync", mask, emulated::u64(value), emulated::total));
}
static void __threadfence() {}

// No second thread runs meanwhile.
template <class T> using As = std::common_type_t<T>;   // the type of the place, whatever is given
#define ATOMIC(NAME, RESULT)                               \
    template <class T> static T NAME(T* to, As<T> value) { \
        const T old = *to;                                 \
        *to = (RESULT);                                    \
        return old;                                        \
    }
ATOMIC(atomicAdd, old + value) ATOMIC(atomicExch, value) ATOMIC(atomicOr, old | value)
ATOMIC(atomicMax, old > value ? old : value) ATOMIC(atomicMin, old < value ? old : value)
template <class T> static T atomicCAS(T* to, As<T> expected, As<T> value) {
    const T old = *to;
    if (old == expected) *to = value;
    return old;
}

static double __dadd_rn(double a, double b) { return emulated::opaque(emulated::opaque(a) + emulated::opaque(b)); }
static double __dmul_rn(double a, double b) { return emulated::opaque(emulated::opaque(a) * emulated::opaque(b)); }
static double __ddiv_rn(double a, double b) { return emulated::opaque(emulated::opaque(a) / emulated::opaque(b)); }
static int __popc(unsigned value) { return __builtin_popcount(value); }
static int __ffs(int value) { return __builtin_ffs(value); }
static int __clz(int value) { return value ? __builtin_clz(value) : 32; }
static double __longlong_as_double(long long value) { return emulated::cast<double>(value); }
static long long __double_as_longlong(double value) { return emulated::cast<long long>(value); }
static float __uint_as_float(unsigned value) { return emulated::cast<float>(value); }
static unsigned __float_as_uint(float value) { return emulated::cast<unsigned>(value); }
#define EXTREMES(T)                                            \
    static inline T max(T a, T b) { return a > b ? a : b; }    \
    static inline T min(T a, T b) { return a < b ? a : b; }
EXTREMES(int) EXTREMES(unsigned) EXTREMES(long) EXTREMES(unsigned long) EXTREMES(long long) EXTREMES(unsigned long long)
static double max(double a, double b) { return fmax(a, b); }
static double min(double a, double b) { return fmin(a, b); }
static float max(float a, float b) { return fmaxf(a, b); }
static float min(float a, float b) { return fminf(a, b); }

template <class T> static T __ldg(const T* from) { return *from; }
template <class T> static T __ldcs(const T* from) { return *from; }
template <class T> static T __ldcg(const T* from) { return *from; }
template <class T> static void __stcs(T* to, As<T> value) { *to = value; }
template <class T> static void __stcg(T* to, As<T> value) { *to = value; }

namespace emulated {

static void** arguments;
template <class... A, size_t... I> static void call(void (*kernel)(A...), std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_reference_t<A>*>(arguments[I])...);
}
template <class... A> static void apply(void (*kernel)(A...)) { call(kernel, std::index_sequence_for<A...>()); }

// A parameter as NumPy would call its type: f8, i4, V16 (a structure), with a star for the address of such values.
template <class T> static void tell(char*& at) {
    typedef std::remove_cv_t<std::remove_pointer_t<T>> V;
    const char kind = std::is_floating_point<V>::value ? 'f' : std::is_integral<V>::value ? 'i' : 'V';
    at += sprintf(at, "%s%c%zu ", std::is_pointer<T>::value ? "*" : "", kind, sizeof(V));
}
template <class... A> static const char* signature(void (*)(A...)) {
    static char text[512];
    char* at = text;
    (tell<A>(at), ...);
    return text;
}

}  // namespace emulated
