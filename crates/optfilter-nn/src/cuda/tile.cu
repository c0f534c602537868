// What the tensor cores work on: tiles of half-precision numbers, and single precision as pairs of them.
//
// A number is split as x = hi + lo with hi = half(x), lo = half(x - hi): 22 bits. A product is hi hi' + hi lo' + lo hi',
// summed in single precision; what is dropped is 2^-22 of it, so that a convolution is as good as in single precision
// at several times its speed. Half precision ends at 65504, where activations saturate, and begins to lose lo below
// 1e-4; weights are therefore stored 256-fold (and saturate at 255), derivatives with a power of two chosen by their largest.

// With -DSTAGES the first block notes the clock after each stage and prints the cycles between them.
#ifdef STAGES
__device__ long long stage_clocks[32];
#define STAGE(i) \
    if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) stage_clocks[i] = clock64()
#define PRINT_STAGES(n) \
    if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) \
        for (int i = 1; i < n; i++) printf("stage %d: %lld\n", i, stage_clocks[i] - stage_clocks[i - 1])
#else
#define STAGE(i)
#define PRINT_STAGES(n)
#endif

#define WEIGHTS 28193
#define PITCH 28224
// Bias and kernel of layer 1 (1 -> 32 channels), of layers 2 to 4 (32 -> 32), of the dense layer (128 -> 1), as in Flax.
#define BIAS1 0
#define KERNEL1 32
#define BIAS(l) (320 + ((l) - 2) * 9248)
#define KERNEL(l) (BIAS(l) + 32)
#define BIAS_D 28064
#define KERNEL_D 28065
// Weights of a layer in the order in which lanes need them: [9 places of the window][2 halves of the terms][4 tiles of
// channels][32 lanes].
#define FRAGMENTS 2304
#define WEIGHT_SCALE 256.f
#define WEIGHT_UNSCALE (1.f / 256.f)
#define ALL_LANES 0xffffffffu

// What a lane needs of a layer's weights for 16 terms x 8 channels: hi, hi, lo, lo, or hi, hi.
template <bool SPLIT> struct Fragment;
template <> struct Fragment<true> { typedef uint4 type; };
template <> struct Fragment<false> { typedef uint2 type; };

#ifndef EMULATED
// Two numbers as halves in a word.
__device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

__device__ __forceinline__ float low_half(unsigned v) {
    float r;
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(r) : "r"(v));
    return r;
}

__device__ __forceinline__ float high_half(unsigned v) {
    float r;
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(r) : "r"(v));
    return r;
}

// Four 8 x 8 matrices of halves; lane i gives the address of row i % 8 of matrix i / 8 and receives the words (i / 4, i % 4).
__device__ __forceinline__ void load_tiles(unsigned r[4], const float *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)));
}

// The same, each matrix transposed.
__device__ __forceinline__ void load_turned(unsigned r[4], const float *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)));
}

// d += a b: 16 rows x 16 terms times 16 terms x 8 columns.
__device__ __forceinline__ void tile_product(float d[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                                             unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// A copy of a layer's weights to shared memory in the background, asked for by one thread and awaited by all. A gate counts copies;
// the n-th (from 0) is awaited with n.
__device__ __forceinline__ void open_gate(float *gate) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"((unsigned)__cvta_generic_to_shared(gate)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void fetch(float *to, const uint4 *from, float *gate) {
    if (threadIdx.x != 0) return;
    const unsigned at = (unsigned)__cvta_generic_to_shared(to), bar = (unsigned)__cvta_generic_to_shared(gate);
    // What was written there before must not come later.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(FRAGMENTS * 16) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at),
                 "l"(__cvta_generic_to_global(from)), "r"(FRAGMENTS * 16), "r"(bar)
                 : "memory");
}
__device__ __forceinline__ void await(float *gate, unsigned n) {
    unsigned done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done)
                     : "r"((unsigned)__cvta_generic_to_shared(gate)), "r"(n & 1u)
                     : "memory");
    } while (!done);
}
#endif

__device__ __forceinline__ float relu(float v) { return v > 0.f ? v : 0.f; }

__device__ __forceinline__ float saturate(float v) { return fminf(fmaxf(v, -65504.f), 65504.f); }

// Two numbers as words of halves: hi and what it leaves.
__device__ __forceinline__ void split(float low, float high, unsigned &hi, unsigned &lo) {
    low = saturate(low);
    high = saturate(high);
    hi = pack(low, high);
    lo = pack(low - low_half(hi), high - high_half(hi));
}

// A lane's weights for 16 terms x 8 channels, from the place of its first term and its channel; the next term is `apart` floats on.
__device__ __forceinline__ uint4 split_weights(const float *at, int apart) {
    uint4 r;
    split(at[0] * WEIGHT_SCALE, at[apart] * WEIGHT_SCALE, r.x, r.z);
    split(at[8 * apart] * WEIGHT_SCALE, at[9 * apart] * WEIGHT_SCALE, r.y, r.w);
    return r;
}

// The same for entry `i` of a layer's FRAGMENTS, from the layer's weights [9][in][out].
__device__ __forceinline__ uint4 split_weights_of(const float *__restrict__ kernel, int i) {
    const int tap = i / 256, half = i / 128 % 2, n = i / 32 % 4, g = i / 4 % 8, t = i % 4;
    return split_weights(&kernel[(tap * 32 + half * 16 + 2 * t) * 32 + n * 8 + g], 32);
}

// d += a b with a = (hi, lo), in three parts, the small ones first; or, not split, in one.
__device__ __forceinline__ void product(float d[4], const unsigned a[2][4], uint4 b, int part) {
    const unsigned *p = a[part == 0 ? 1 : 0];
    tile_product(d, p[0], p[1], p[2], p[3], part == 1 ? b.z : b.x, part == 1 ? b.w : b.y);
}
__device__ __forceinline__ void product(float d[4], const unsigned a[][4], uint2 b) {
    tile_product(d, a[0][0], a[0][1], a[0][2], a[0][3], b.x, b.y);
}
