// Enough of CUDA to run the kernels on a CPU, one block after the other, its threads as coroutines. Slow, exact in what
// matters: barriers, shuffles, matrix loads and tensor-core tiles mean what they mean on the card, so a wrong index or a missing
// barrier shows in the numbers.
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#define EMULATED
#define FRAGMENTS 2304
#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __shared__ static // blocks run one after the other
using std::max;
using std::min;

struct Index { unsigned x, y, z; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
static uint2 make_uint2(unsigned a, unsigned b) { return {a, b}; }
static uint4 make_uint4(unsigned a, unsigned b, unsigned c, unsigned d) { return {a, b, c, d}; }
static float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }
static unsigned __float_as_uint(float v) { unsigned u; memcpy(&u, &v, 4); return u; }
static float __uint_as_float(unsigned u) { float v; memcpy(&v, &u, 4); return v; }
static void atomicMax(unsigned *at, unsigned v) { *at = max(*at, v); }

static Index threadIdx, blockIdx, gridDim, blockDim;
static float *dynamic_shared;

// A thread's stack is entered once by its context and then by jumps, which need no system call. The warps of a block run one after the
// other, each until all its threads are at a barrier or finished; within a warp the threads take turns.
enum State { READY, AT_BARRIER, FINISHED };
static std::vector<ucontext_t> threads;
static std::vector<std::vector<char>> stacks;
static std::vector<State> states;
static std::vector<char> entered;
static jmp_buf saved[1024], scheduler;
static std::function<void()> body;
static int current;

static void begin() {
    body();
    states[current] = FINISHED;
    _longjmp(scheduler, 1);
}
static void give_way() {
    if (!_setjmp(saved[current])) _longjmp(scheduler, 1);
}
static void resume(int t) {
    current = t;
    threadIdx = {(unsigned)t, 0, 0};
    if (_setjmp(scheduler)) return;
    if (entered[t]) _longjmp(saved[t], 1);
    entered[t] = 1;
    setcontext(&threads[t]);
}
static void __syncthreads() {
    states[current] = AT_BARRIER;
    give_way();
}

// Warp-wide operations: every lane writes, gives way once so that all have written, and reads. Two places in turn, so that nobody
// overwrites what another lane still has to read.
struct Exchange {
    float value, sum[4];
    unsigned left[4], right[2];
    const float *row;
};
static Exchange exchanged[2][1024];
static int turn[1024];
static Exchange *mine() { return &exchanged[turn[current] ^= 1][current]; }
static Exchange *warp_of(Exchange *mine) { return mine - current % 32; }

static float __shfl_xor_sync(unsigned, float v, int step) {
    Exchange *me = mine();
    me->value = v;
    give_way();
    return warp_of(me)[current % 32 ^ step].value;
}

static unsigned short half(float v) {
    const _Float16 h = (_Float16)v;
    unsigned short u;
    memcpy(&u, &h, 2);
    return u;
}
static const struct Singles {
    float of[65536];
    Singles() {
        for (unsigned i = 0; i < 65536; i++) {
            const unsigned short s = (unsigned short)i;
            _Float16 h;
            memcpy(&h, &s, 2);
            of[i] = (float)h;
        }
    }
} singles;
static inline float single(unsigned u) { return singles.of[u & 0xffff]; }
static unsigned pack(float low, float high) { return half(low) | (unsigned)half(high) << 16; }
static float low_half(unsigned v) { return single(v); }
static float high_half(unsigned v) { return single(v >> 16); }

static void load_tiles(unsigned r[4], const float *row) {
    Exchange *me = mine();
    me->row = row;
    give_way();
    for (int m = 0; m < 4; m++) memcpy(&r[m], warp_of(me)[m * 8 + current % 32 / 4].row + current % 4, 4);
}
static void load_turned(unsigned r[4], const float *row) {
    Exchange *me = mine();
    me->row = row;
    give_way();
    for (int m = 0; m < 4; m++) {
        unsigned pair[2];
        for (int j = 0; j < 2; j++)
            pair[j] = ((const unsigned short *)warp_of(me)[m * 8 + current % 4 * 2 + j].row)[current % 32 / 4];
        r[m] = pair[0] | pair[1] << 16;
    }
}
static void tile_product(float d[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    Exchange *me = mine(), *warp = warp_of(me);
    const unsigned a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    memcpy(me->left, a, sizeof a);
    memcpy(me->right, b, sizeof b);
    memcpy(me->sum, d, sizeof me->sum);
    give_way();
    if (current % 32 == 0) { // the first to go on computes the tile for all
        float left[16][16], right[16][8], sum[16][8];
        for (int lane = 0; lane < 32; lane++) {
            const int g = lane / 4, t = lane % 4;
            for (int i = 0; i < 8; i++) // register i / 2, half i % 2
                left[g + i / 2 % 2 * 8][2 * t + i / 4 * 8 + i % 2] = single(warp[lane].left[i / 2] >> i % 2 * 16);
            for (int i = 0; i < 4; i++) {
                right[2 * t + i / 2 * 8 + i % 2][g] = single(warp[lane].right[i / 2] >> i % 2 * 16);
                sum[g + i / 2 * 8][2 * t + i % 2] = warp[lane].sum[i];
            }
        }
        for (int r = 0; r < 16; r++)
            for (int k = 0; k < 16; k++)
                for (int c = 0; c < 8; c++) sum[r][c] += left[r][k] * right[k][c];
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) warp[lane].sum[i] = sum[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
    memcpy(d, me->sum, sizeof me->sum);
}

// A copy in the background is done at once. What it would overwrite too early is checked on the card, by its race detector.
static void open_gate(float *) {}
static void fetch(float *to, const uint4 *from, float *) {
    if (threadIdx.x == 0) memcpy(to, from, FRAGMENTS * 16);
}
static void await(float *, unsigned) {}
static void __syncwarp() { give_way(); }

static void launch(int x, int y, int count, std::function<void()> kernel) {
    threads.resize(count);
    stacks.resize(std::max(stacks.size(), (size_t)count));
    for (auto &s : stacks) s.resize(128 * 1024);
    gridDim = {(unsigned)x, (unsigned)y, 1};
    blockDim = {(unsigned)count, 1, 1};
    body = kernel;
    for (int block = 0; block < x * y; block++) {
        blockIdx = {(unsigned)(block % x), (unsigned)(block / x), 0};
        states.assign(count, READY);
        entered.assign(count, 0);
        for (int t = 0; t < count; t++) {
            getcontext(&threads[t]);
            threads[t].uc_stack.ss_sp = stacks[t].data();
            threads[t].uc_stack.ss_size = stacks[t].size();
            makecontext(&threads[t], begin, 0);
        }
        for (bool going = true; going;) {
            for (int warp = 0; warp < count; warp += 32)
                for (bool any = true; any;) {
                    any = false;
                    for (int t = warp; t < warp + 32; t++)
                        if (states[t] == READY) any = true, resume(t);
                }
            // Everybody is at the barrier or finished.
            going = false;
            for (State &s : states)
                if (s == AT_BARRIER) going = true, s = READY;
        }
    }
}
