// Threads of a CUDA block as fibers of one thread of the CPU: each runs until it waits for others, blocks one by one.
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include <algorithm>
#include <random>
#include <vector>

struct uint3 { unsigned x, y, z; };
static uint3 blockIdx, blockDim, gridDim;

namespace emulated {

typedef unsigned long long u64;
struct Fiber;

// The lanes of a warp that have met, and how each gets its result.
struct Group {
    const Fiber* warp;
    unsigned lanes;
    bool has(int lane) const { return lanes >> lane & 1; }
    u64 value(int lane) const;
};
typedef u64 (*Result)(const Group&, int me, int argument);

enum State { READY, AT_WARP, AT_BLOCK, ENDED };
struct Fiber {
    void* stack_pointer;
    uint3 thread;
    int number;
    State state;
    const char* waits_in;   // the function's name
    unsigned mask;
    u64 value, result;
    Result result_of;
    int argument;
};

constexpr u64 POISON = 0x7FF75A5AFFF75A5Aull;   // NaN as double or float, far-off as integers
constexpr int MOST_THREADS = 1024;
constexpr size_t STACK = 1 << 17, MOST_SHARED = 232448;

Fiber* self;
static Fiber fibers[MOST_THREADS];
static void* scheduler;
static char* stacks;
static int threads, alive, at_block;
static unsigned alive_in[MOST_THREADS / 32], waiting_in[MOST_THREADS / 32];   // lanes of each warp
static std::vector<int> ready;
static char message[4096];
static sigjmp_buf failed;
static volatile bool running;
static void (*body)();
alignas(1024) static char dynamic_shared[MOST_SHARED];

extern "C" void emulated_switch(void** from, void* to);
asm(R"(
.text
.hidden emulated_switch
.globl emulated_switch
.type emulated_switch, @function
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

u64 Group::value(int lane) const { return has(lane) ? warp[lane].value : POISON; }

[[noreturn]] static void fail(const char* why) {
    const uint3 b = blockIdx, t = self->thread;
    snprintf(message, sizeof message, "%s (block %u %u %u, thread %u %u %u)", why, b.x, b.y, b.z, t.x, t.y, t.z);
    siglongjmp(failed, 1);
}

static void on_signal(int number, siginfo_t*, void*) {
    if (!running) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    fail(number == SIGFPE ? "integer division by zero" : "bad address or stack overflow");
}

static void wait(State state, const char* name, u64 value) {
    self->state = state;
    self->waits_in = name;
    self->value = value;
}

static void make_ready(int number) {
    fibers[number].state = READY;
    ready.push_back(number);
}

// Lets the lanes of a mask go on, once all of them that have not ended wait in the same function with this mask.
static void try_warp(int warp, unsigned mask) {
    const Group group = {fibers + 32 * warp, mask & alive_in[warp]};
    if (group.lanes == 0 || (waiting_in[warp] & group.lanes) != group.lanes) return;
    const char* const name = group.warp[__builtin_ctz(group.lanes)].waits_in;
    for (int l = 0; l < 32; ++l)
        if (group.has(l) && (group.warp[l].mask != mask || group.warp[l].waits_in != name)) return;
    for (int l = 0; l < 32; ++l)
        if (group.has(l)) {
            Fiber& one = fibers[32 * warp + l];
            one.result = one.result_of(group, l, one.argument);
            make_ready(one.number);
        }
    waiting_in[warp] &= ~group.lanes;
}

static void try_block() {
    if (alive == 0 || at_block != alive) return;
    at_block = 0;
    for (int t = 0; t < threads; ++t)
        if (fibers[t].state == AT_BLOCK) make_ready(t);
}

static u64 meet(const char* name, unsigned mask, u64 value, Result result_of, int argument = 0) {
    const int warp = self->number / 32, lane = self->number % 32;
    if (!(mask >> lane & 1)) {
        char why[99];
        snprintf(why, sizeof why, "%s: the caller is not in its mask %08x", name, mask);
        fail(why);
    }
    wait(AT_WARP, name, value);
    self->mask = mask;
    self->result_of = result_of;
    self->argument = argument;
    waiting_in[warp] |= 1u << lane;
    try_warp(warp, mask);
    emulated_switch(&self->stack_pointer, scheduler);
    return self->result;
}

static void meet_block() {
    wait(AT_BLOCK, "__syncthreads", 0);
    ++at_block;
    try_block();
    emulated_switch(&self->stack_pointer, scheduler);
}

static void entry() {
    body();
    const int warp = self->number / 32;
    self->state = ENDED;
    --alive;
    alive_in[warp] &= ~(1u << self->number % 32);
    for (int l = 0; l < 32; ++l)   // the others wait for one less
        if (waiting_in[warp] >> l & 1) try_warp(warp, fibers[32 * warp + l].mask);
    try_block();
    emulated_switch(&self->stack_pointer, scheduler);
    abort();
}

static void poison(char* from, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) from[i] = char(POISON >> 8 * (i % 8));
}

static void tell_deadlock() {
    const uint3 b = blockIdx;
    int n = snprintf(message, sizeof message, "deadlock in block %u %u %u:", b.x, b.y, b.z);
    const Fiber* last = nullptr;
    for (int t = 0; t < threads && n < 1000; ++t) {
        const Fiber& f = fibers[t];
        if (f.state == ENDED) continue;
        if (!last || f.waits_in != last->waits_in || f.mask != last->mask)
            n += snprintf(message + n, 99, " from thread %d on in %s, mask %08x;", t, f.waits_in, f.mask);
        last = &f;
    }
    snprintf(message + n, 99, " %d of %d threads have ended", threads - alive, threads);
}

static void start_block(unsigned long number) {
    blockIdx = {unsigned(number % gridDim.x), unsigned(number / gridDim.x % gridDim.y),
        unsigned(number / gridDim.x / gridDim.y)};
    alive = threads;
    at_block = 0;
    memset(alive_in, 0, sizeof alive_in);
    memset(waiting_in, 0, sizeof waiting_in);
    ready.clear();
    for (int t = 0; t < threads; ++t) {
        const unsigned x = t % blockDim.x, y = t / blockDim.x % blockDim.y, z = t / blockDim.x / blockDim.y;
        void** top = reinterpret_cast<void**>(stacks + STACK * (t + 1)) - 8;
        memset(top, 0, 8 * sizeof *top);
        top[6] = reinterpret_cast<void*>(entry);   // above six registers: where the switch returns to
        fibers[t] = {top, {x, y, z}, t};
        alive_in[t / 32] |= 1u << t % 32;
        ready.push_back(t);
    }
}

static void put_in_order(std::vector<int>& numbers, unsigned seed) {
    static std::mt19937 random(seed);
    if (seed == 1) std::reverse(numbers.begin(), numbers.end());
    else if (seed) std::shuffle(numbers.begin(), numbers.end(), random);
}

static void run_blocks(char* shared, size_t shared_bytes, size_t dynamic_bytes, unsigned seed) {
    std::vector<int> now;
    const unsigned long blocks = 1ul * gridDim.x * gridDim.y * gridDim.z;
    for (unsigned long b = 0; b < blocks && !message[0]; ++b) {
        poison(shared, shared_bytes);
        poison(dynamic_shared, dynamic_bytes);
        start_block(b);
        while (!ready.empty()) {
            now.swap(ready);
            ready.clear();
            put_in_order(now, seed);
            for (int t : now) {
                self = fibers + t;
                emulated_switch(&scheduler, self->stack_pointer);
            }
        }
        if (alive) tell_deadlock();
    }
}

// Runs a kernel; what went wrong, or null. `held` is where all libraries keep the address of the stacks: each guarded stack
// is two of the 65530 mappings that a process may have.
static const char* run(void (*kernel)(), const unsigned* grid, const unsigned* block, char* shared, size_t shared_bytes,
    size_t dynamic_bytes, unsigned seed, char** held) {
    static char signal_stack[1 << 16];
    stacks = *held;
    if (!stacks) {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        stacks = (char*)mmap(nullptr, STACK * MOST_THREADS, PROT_READ | PROT_WRITE, flags, -1, 0);
        for (int t = 0; t < MOST_THREADS; ++t) mprotect(stacks + STACK * t, 4096, PROT_NONE);
        *held = stacks;
    }
    const int caught[] = {SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction action = {}, before[3];
    stack_t stack = {}, stack_before;
    stack.ss_sp = signal_stack;
    stack.ss_size = sizeof signal_stack;
    sigaltstack(&stack, &stack_before);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < 3; ++i) sigaction(caught[i], &action, before + i);
    body = kernel;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    threads = block[0] * block[1] * block[2];
    message[0] = 0;
    running = true;
    if (sigsetjmp(failed, 1) == 0) run_blocks(shared, shared_bytes, dynamic_bytes, seed);
    running = false;
    for (int i = 0; i < 3; ++i) sigaction(caught[i], before + i, nullptr);
    sigaltstack(&stack_before, nullptr);
    return message[0] ? message : nullptr;
}

}  // namespace emulated
